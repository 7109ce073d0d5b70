#include "text/utf8.hpp"

#include <gtest/gtest.h>

#include "multihead/error.hpp"

namespace multihead {
namespace {

TEST(Utf8, EveryCodePointComesBack) {
  for (char32_t code = 0; code <= 0x10FFFF; ++code) {
    if (code >= 0xD800 && code <= 0xDFFF) continue;
    std::string text;
    append_utf8(text, code);
    const Utf8Char c = read_utf8(text, 0);
    ASSERT_EQ(c.code, code);
    ASSERT_EQ(c.num_bytes, static_cast<index_t>(text.size()));
    for (std::size_t num_bytes = 1; num_bytes < text.size(); ++num_bytes) {
      ASSERT_EQ(read_utf8(std::string_view(text).substr(0, num_bytes), 0).num_bytes, 0)
          << "cut short: " << static_cast<std::uint32_t>(code);
    }
  }
}

TEST(Utf8, RefusesWhatIsNoCodePoint) {
  using namespace std::string_view_literals;
  struct Case {
    std::string_view text;
    std::string_view error;
  };
  const Case cases[] = {
      {"abc\xFF"sv, "f: text must be UTF-8, got byte=0xFF, position=3"},
      {"\x80"sv, "f: text must be UTF-8, got byte=0x80, position=0"},                   // begins with a following byte
      {"\xC3\xA9\xC3"sv, "f: text must be UTF-8, got byte=0xC3, position=2"},           // cut short
      {"a\xC0\xAF"sv, "f: text must be UTF-8, got byte=0xC0, position=1"},              // overlong "/"
      {"\xE0\x80\xAF"sv, "f: text must be UTF-8, got byte=0xE0, position=0"},           // overlong "/"
      {"\xF0\x80\x80\xAF"sv, "f: text must be UTF-8, got byte=0xF0, position=0"},       // overlong "/"
      {"\0\xED\xA0\x80"sv, "f: text must be UTF-8, got byte=0xED, position=1"},         // surrogate U+D800
      {"\xF4\x90\x80\x80"sv, "f: text must be UTF-8, got byte=0xF4, position=0"},       // U+110000
      {"\xF8\x88\x80\x80\x80"sv, "f: text must be UTF-8, got byte=0xF8, position=0"},   // five bytes
      {"\xE8\x80\x9D\xE8\x80z"sv, "f: text must be UTF-8, got byte=0xE8, position=3"},  // broken off
  };
  for (const Case& c : cases) {
    try {
      require_utf8(c.text, "f");
      ADD_FAILURE() << "accepted; expected " << c.error;
    } catch (const Error& error) {
      EXPECT_EQ(error.what(), c.error);
    }
  }
  EXPECT_NO_THROW(require_utf8("\xF4\x8F\xBF\xBF\xED\x9F\xBF\xEE\x80\x80", "f"));
}

}  // namespace
}  // namespace multihead
