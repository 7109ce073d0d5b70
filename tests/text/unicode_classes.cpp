// Every code point's class, case and normal forms, as the reference library has them: tests/golden/tokenizer.
#include <gtest/gtest.h>

#include "golden/tokenizer_golden.hpp"
#include "text/normal_form.hpp"
#include "text/unicode.hpp"

namespace multihead {
namespace {

using namespace tokenizer_golden;

constexpr char32_t kEnd = 0x110000;

bool is_surrogate(char32_t c) { return c >= 0xD800 && c <= 0xDFFF; }

struct Class {
  const char* name;
  bool (*contains)(char32_t);
};
constexpr Class kClasses[] = {{"whitespace", is_whitespace},         {"control", is_control},
                              {"punctuation", is_punctuation},       {"nonspacing_mark", is_nonspacing_mark},
                              {"combining_mark", is_combining_mark}, {"word", is_word},
                              {"cjk_ideograph", is_cjk_ideograph}};

TEST(UnicodeClasses, EveryCodePointIsInTheClassesOfTheReference) {
  const auto golden = read(folder() / "classes.json")["classes"];
  ASSERT_EQ(golden.size(), std::size(kClasses));
  for (const Class& c : kClasses) {
    const auto bounds = golden[c.name].get<std::vector<char32_t>>();  // first, last, first, last, ..
    std::size_t next = 0;
    for (char32_t code = 0; code < kEnd; ++code) {
      if (next < bounds.size() && code > bounds[next + 1]) next += 2;
      // The golden of "control" cannot tell these two, which the reference removes by themselves.
      const bool untold = c.contains == is_control && (code == 0 || code == 0xFFFD);
      if (is_surrogate(code) || untold) continue;
      const bool expected = next < bounds.size() && code >= bounds[next];
      EXPECT_EQ(c.contains(code), expected) << c.name << " " << static_cast<std::uint32_t>(code);
    }
  }
}

// Of "a", the code point and two marks that it may be reordered or joined with, under `apply`.
template <class Apply>
void check_digests(const std::string& name, Apply apply) {
  const auto golden = read(folder() / "classes.json")["digests"][name];
  ASSERT_EQ(golden.size(), kEnd / 0x2000);
  for (char32_t block = 0; block < kEnd / 0x2000; ++block) {
    Digest digest;
    for (char32_t code = block * 0x2000; code < (block + 1) * 0x2000; ++code) {
      if (is_surrogate(code)) continue;
      AlignedText text = {{0, 1, 'a'}, {1, 1, code}, {2, 1, 0x323}, {3, 1, 0x301}};
      apply(text);
      digest.add(static_cast<std::uint32_t>(text.size()));
      for (const AlignedChar& c : text) digest.add(static_cast<std::uint32_t>(c.code));
    }
    EXPECT_EQ(digest.text(), golden[block].get<std::string>())
        << name << ", code points from " << static_cast<std::uint32_t>(block * 0x2000);
  }
}

TEST(UnicodeClasses, NormalFormsOfEveryCodePoint) {
  check_digests("nfd", [](AlignedText& text) { normalize(text, NormalForm::nfd); });
  check_digests("nfkd", [](AlignedText& text) { normalize(text, NormalForm::nfkd); });
  check_digests("nfc", [](AlignedText& text) { normalize(text, NormalForm::nfc); });
  check_digests("nfkc", [](AlignedText& text) { normalize(text, NormalForm::nfkc); });
}

TEST(UnicodeClasses, LowerCaseOfEveryCodePoint) {
  check_digests("lower", [](AlignedText& text) {
    AlignedText result;
    for (AlignedChar c : text) {
      const LowerCase lower = lower_case(c.code);
      c.code = lower.first;
      result.push_back(c);
      c.code = lower.second;
      if (lower.second != 0) result.push_back(c);
    }
    text = result;
  });
}

}  // namespace
}  // namespace multihead
