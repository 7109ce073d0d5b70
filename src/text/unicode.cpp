#include "text/unicode.hpp"

#include <unicode/uchar.h>

#include <algorithm>
#include <iterator>

namespace multihead {
namespace {

// ICU's masks: U_GC_P_MASK and so on.
bool in_category(char32_t c, std::uint32_t mask) { return (U_MASK(u_charType(static_cast<UChar32>(c))) & mask) != 0; }

struct Range {
  char32_t first;
  char32_t last;
};

template <std::size_t N>
bool in_ranges(char32_t c, const Range (&ranges)[N]) {
  const auto* it = std::partition_point(std::begin(ranges), std::end(ranges), [c](Range r) { return r.last < c; });
  return it != std::end(ranges) && it->first <= c;
}

// Word characters of Unicode 15.1 and 16.0.
constexpr Range kNewWordChars[] = {
    {0x897, 0x897},     {0x1C89, 0x1C8A},   {0xA7CB, 0xA7CD},   {0xA7DA, 0xA7DC},   {0x105C0, 0x105F3},
    {0x10D40, 0x10D65}, {0x10D69, 0x10D6D}, {0x10D6F, 0x10D85}, {0x10EC2, 0x10EC4}, {0x10EFC, 0x10EFC},
    {0x11380, 0x11389}, {0x1138B, 0x1138B}, {0x1138E, 0x1138E}, {0x11390, 0x113B5}, {0x113B7, 0x113C0},
    {0x113C2, 0x113C2}, {0x113C5, 0x113C5}, {0x113C7, 0x113CA}, {0x113CC, 0x113D3}, {0x113E1, 0x113E2},
    {0x116D0, 0x116E3}, {0x11BC0, 0x11BE0}, {0x11BF0, 0x11BF9}, {0x11F5A, 0x11F5A}, {0x13460, 0x143FA},
    {0x16100, 0x16139}, {0x16D40, 0x16D6C}, {0x16D70, 0x16D79}, {0x18CFF, 0x18CFF}, {0x1CCF0, 0x1CCF9},
    {0x1E5D0, 0x1E5FA}, {0x2EBF0, 0x2EE5D},
};

// Capitals of Unicode 16.0 and 17.0: [first, last] becomes [lower, ..].
struct CaseRange {
  char32_t first;
  char32_t last;
  char32_t lower;
};
constexpr CaseRange kNewCapitals[] = {
    {0x1C89, 0x1C89, 0x1C8A},    {0xA7CB, 0xA7CB, 0x264},     {0xA7CC, 0xA7CC, 0xA7CD}, {0xA7CE, 0xA7CE, 0xA7CF},
    {0xA7D2, 0xA7D2, 0xA7D3},    {0xA7D4, 0xA7D4, 0xA7D5},    {0xA7DA, 0xA7DA, 0xA7DB}, {0xA7DC, 0xA7DC, 0x19B},
    {0x10D50, 0x10D65, 0x10D70}, {0x16EA0, 0x16EB8, 0x16EBB},
};

bool is_ascii_symbol(char32_t c) {
  return (c >= '!' && c <= '/') || (c >= ':' && c <= '@') || (c >= '[' && c <= '`') || (c >= '{' && c <= '~');
}

}  // namespace

bool assigned_by(char32_t c, int major) {
  UVersionInfo age;  // zeros for code points that ICU does not know
  u_charAge(static_cast<UChar32>(c), age);
  return age[0] != 0 && (age[0] < major || (age[0] == major && age[1] == 0));
}

bool is_whitespace(char32_t c) { return u_isUWhiteSpace(static_cast<UChar32>(c)) != 0; }

bool is_control(char32_t c) {
  if (c == '\t' || c == '\n' || c == '\r') return false;
  return in_category(c, U_GC_CC_MASK | U_GC_CF_MASK | U_GC_CO_MASK) && assigned_by(c, 8);
}

bool is_punctuation(char32_t c) {
  if (c < 0x80) return is_ascii_symbol(c);
  if (c == 0x166D || c == 0x111C9) return true;  // symbol and mark since Unicode 12 and 11
  return in_category(c, U_GC_P_MASK) && assigned_by(c, 8);
}

bool is_nonspacing_mark(char32_t c) {
  if (c < 0x300) return false;
  if (c == 0x1734) return true;                                                 // Mc since Unicode 14
  if (c == 0x1885 || c == 0x1886 || c == 0xA9BD || c == 0x111C9) return false;  // Mn since Unicode 9, 9, 11, 11
  return in_category(c, U_GC_MN_MASK) && assigned_by(c, 8);
}

bool is_combining_mark(char32_t c) {
  if (c < 0x300) return false;
  if (c == 0x1CF2 || c == 0x1CF3) return true;  // letters since Unicode 12
  if (c == 0x111C9) return false;
  return in_category(c, U_GC_M_MASK) && assigned_by(c, 9);
}

bool is_word(char32_t c) {
  constexpr std::uint32_t kMask = U_GC_M_MASK | U_GC_ND_MASK | U_GC_PC_MASK;
  const auto code = static_cast<UChar32>(c);
  const bool is_known_word = u_hasBinaryProperty(code, UCHAR_ALPHABETIC) != 0 || in_category(c, kMask) ||
                             u_hasBinaryProperty(code, UCHAR_JOIN_CONTROL) != 0;
  return (is_known_word && assigned_by(c, 16)) || in_ranges(c, kNewWordChars);
}

bool is_cjk_ideograph(char32_t c) {
  constexpr Range kBlocks[] = {{0x3400, 0x4DBF},   {0x4E00, 0x9FFF},   {0xF900, 0xFAFF},  {0x20000, 0x2A6DF},
                               {0x2A700, 0x2B81F}, {0x2B920, 0x2CEAF}, {0x2F800, 0x2FA1F}};
  return in_ranges(c, kBlocks);
}

LowerCase lower_case(char32_t c) {
  if (c < 0x80) return {c >= 'A' && c <= 'Z' ? c + 32 : c};
  if (c == 0x130) return {'i', 0x307};
  for (const CaseRange& r : kNewCapitals) {
    if (c >= r.first && c <= r.last) return {r.lower + (c - r.first)};
  }
  return {static_cast<char32_t>(u_tolower(static_cast<UChar32>(c)))};
}

}  // namespace multihead
