#include "multihead/train/bleu.hpp"

#include <algorithm>
#include <cmath>
#include <map>
#include <utility>

#include "core/require.hpp"
#include "text/utf8.hpp"

namespace multihead::train {
namespace {

constexpr std::size_t kMaxOrder = 4;

// White space as Python's str.split() has it: that is where the reference program splits.
bool is_space(char32_t c) {
  return (c >= 0x09 && c <= 0x0d) || (c >= 0x1c && c <= 0x20) || c == 0x85 || c == 0xa0 || c == 0x1680 ||
         (c >= 0x2000 && c <= 0x200a) || c == 0x2028 || c == 0x2029 || c == 0x202f || c == 0x205f || c == 0x3000;
}
bool is_digit(char32_t c) { return c >= '0' && c <= '9'; }
bool is_dot_or_comma(char32_t c) { return c == '.' || c == ','; }
// ASCII but for letters, digits, control characters and ' , - .
bool stands_alone(char32_t c) {
  return (c >= '{' && c <= '~') || (c >= '[' && c <= '`') || (c >= ' ' && c <= '&') || (c >= '(' && c <= '+') ||
         (c >= ':' && c <= '@') || c == '/';
}

void replace_all(std::string& text, std::string_view what, std::string_view by) {
  for (std::size_t at = text.find(what); at != std::string::npos; at = text.find(what, at + by.size())) {
    text.replace(at, what.size(), by);
  }
}

// Each pair (a, b) with matches(a, b), left to right and without overlap, becomes "a b" between the blanks asked for.
template <class Matches>
std::u32string spread_pairs(const std::u32string& text, const Matches& matches, std::u32string_view before,
                            std::u32string_view after) {
  std::u32string result;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (i + 1 < text.size() && matches(text[i], text[i + 1])) {
      result.append(before).append(1, text[i]).append(1, U' ').append(1, text[i + 1]).append(after);
      ++i;
    } else {
      result += text[i];
    }
  }
  return result;
}

std::u32string code_points(std::string_view text) {
  std::u32string codes;
  for (index_t at = 0; at < static_cast<index_t>(text.size());) {
    const Utf8Char next = read_utf8(text, at);
    codes += next.code;
    at += next.num_bytes;
  }
  return codes;
}

using Counts = std::map<std::vector<std::string>, index_t>;

Counts ngrams_of(const std::vector<std::string>& tokens, std::size_t order) {
  Counts counts;
  for (std::size_t at = 0; at + order <= tokens.size(); ++at) {
    const auto first = tokens.begin() + static_cast<std::ptrdiff_t>(at);
    ++counts[std::vector<std::string>(first, first + static_cast<std::ptrdiff_t>(order))];
  }
  return counts;
}

}  // namespace

std::vector<std::string> tokens_13a(std::string_view line) {
  require_utf8(line, "tokens_13a");
  std::u32string codes = code_points(line);
  while (!codes.empty() && is_space(codes.back())) codes.pop_back();
  std::string text;
  for (const char32_t c : codes) append_utf8(text, c);
  const std::pair<std::string_view, std::string_view> rules[] = {
      {"<skipped>", ""}, {"-\n", ""}, {"\n", " "}, {"&quot;", "\""}, {"&amp;", "&"}, {"&lt;", "<"}, {"&gt;", ">"}};
  for (const auto& [what, by] : rules) replace_all(text, what, by);
  std::u32string spread;
  for (const char32_t c : code_points(" " + text + " ")) {
    if (stands_alone(c)) {
      spread.append(1, U' ').append(1, c).append(1, U' ');
    } else {
      spread += c;
    }
  }
  spread = spread_pairs(
      spread, [](char32_t a, char32_t b) { return !is_digit(a) && is_dot_or_comma(b); }, U"", U" ");
  spread = spread_pairs(
      spread, [](char32_t a, char32_t b) { return is_dot_or_comma(a) && !is_digit(b); }, U" ", U"");
  spread = spread_pairs(
      spread, [](char32_t a, char32_t b) { return is_digit(a) && b == '-'; }, U"", U" ");
  std::vector<std::string> tokens;
  bool inside = false;
  for (const char32_t c : spread) {
    if (is_space(c)) {
      inside = false;
      continue;
    }
    if (!std::exchange(inside, true)) tokens.emplace_back();
    append_utf8(tokens.back(), c);
  }
  return tokens;
}

Bleu bleu(std::span<const std::string> translations, std::span<const std::string> references) {
  require(translations.size() == references.size() && !translations.empty(), "bleu",
          "translations and references must be as many, and at least 1",
          {{"translations", translations.size()}, {"references", references.size()}});
  Bleu result;
  std::array<index_t, kMaxOrder> matches{}, all{};
  for (std::size_t n = 0; n < translations.size(); ++n) {
    const std::vector<std::string> tokens = tokens_13a(translations[n]), expected = tokens_13a(references[n]);
    result.length += static_cast<index_t>(tokens.size());
    result.reference_length += static_cast<index_t>(expected.size());
    for (std::size_t order = 1; order <= kMaxOrder; ++order) {
      const Counts in_reference = ngrams_of(expected, order);
      for (const auto& [ngram, count] : ngrams_of(tokens, order)) {
        all[order - 1] += count;
        if (const auto found = in_reference.find(ngram); found != in_reference.end()) {
          matches[order - 1] += std::min(count, found->second);
        }
      }
    }
  }
  if (result.length > 0) {
    const double ratio = static_cast<double>(result.reference_length) / static_cast<double>(result.length);
    result.brevity_penalty = std::min(1.0, std::exp(1 - ratio));
  }
  if (matches[0] == 0) return result;  // then there are no longer ones either
  double log_sum = 0, smooth = 1;
  for (std::size_t k = 0; k < kMaxOrder; ++k) {
    if (all[k] == 0) return result;  // no translation is that long: a precision of 0
    const bool has_match = matches[k] > 0;
    if (!has_match) smooth *= 2;
    result.precisions[k] =
        100 * (has_match ? static_cast<double>(matches[k]) : 1 / smooth) / static_cast<double>(all[k]);
    log_sum += std::log(result.precisions[k]);
  }
  result.score = result.brevity_penalty * std::exp(log_sum / kMaxOrder);
  return result;
}

}  // namespace multihead::train
