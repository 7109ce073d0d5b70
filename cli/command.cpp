#include "command.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <numeric>
#include <vector>

#include "process.hpp"

namespace multihead::cli {
namespace {

/// Levenshtein 1966: insertions, deletions and replacements, one row of the table at a time.
std::size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<std::size_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), std::size_t{0});
  for (std::size_t i = 0; i < a.size(); ++i) {
    std::size_t diagonal = row[0];
    row[0] = i + 1;
    for (std::size_t j = 0; j < b.size(); ++j) {
      const std::size_t replaced = diagonal + (a[i] == b[j] ? 0 : 1);
      diagonal = row[j + 1];
      row[j + 1] = std::min({replaced, row[j] + 1, row[j + 1] + 1});
    }
  }
  return row.back();
}

std::string plain(std::string_view word) {
  std::string result(word.substr(std::min(word.find_first_not_of('-'), word.size())));
  for (char& c : result) c = c == '_' ? '-' : c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
  return result;
}

bool parse_double(std::string_view text, double& value) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  return error == std::errc{} && end == text.data() + text.size();
}

}  // namespace

std::string nearest(std::string_view word, std::span<const std::string> candidates) {
  constexpr std::size_t kLongest = 64;  // nothing that long is a slip of the keyboard
  std::string best;
  const std::string typed = plain(word.substr(0, kLongest));
  std::size_t best_distance = std::max<std::size_t>(2, typed.size() / 3) + 1;
  for (const std::string& candidate : candidates) {
    const std::string name = plain(candidate);
    const std::size_t distance = edit_distance(typed, name);
    if (distance < best_distance && distance < name.size()) {
      best = candidate;
      best_distance = distance;
    }
  }
  return best;
}

std::string guess_of(std::string_view word, std::span<const std::string> candidates) {
  const std::string near = nearest(word, candidates);
  return near.empty() ? "" : fmt::format("; did you mean \"{}\"?", near);
}

std::uint64_t whole_number(std::string_view flag, std::string_view text, std::uint64_t lowest, std::uint64_t most) {
  std::uint64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{} || end != text.data() + text.size() || value < lowest || value > most) {
    throw UsageError(fmt::format("{} must be a whole number in [{}, {}], got \"{}\"", flag, lowest, most, text));
  }
  return value;
}

double nonnegative_number(std::string_view flag, std::string_view text) {
  double value = 0;
  if (!parse_double(text, value) || !std::isfinite(value) || std::signbit(value)) {
    throw UsageError(fmt::format("{} must be a finite number, 0 or more, such as 1e-3, got \"{}\"", flag, text));
  }
  return value;
}

std::size_t one_of(std::string_view flag, std::span<const std::string_view> names, std::string_view given) {
  std::string all;
  for (std::size_t n = 0; n < names.size(); ++n) {
    if (names[n] == given) return n;
    all += fmt::format("{}{}", n == 0 ? "" : n + 1 < names.size() ? ", " : " or ", names[n]);
  }
  throw UsageError(fmt::format("{} must be {}, got \"{}\"", flag, all, given));
}

}  // namespace multihead::cli
