// Conditions on the number of heads that have a role: NAME OPERATOR NUMBER.
#include <fmt/format.h>

#include <algorithm>

#include "command.hpp"
#include "heads.hpp"
#include "multihead/error.hpp"

namespace multihead::cli {
namespace {

constexpr std::string_view kUnassigned = "unassigned";
constexpr std::array<std::string_view, 6> kComparisons = {"==", "!=", "<=", ">=", "<", ">"};  // two characters first

std::string_view trimmed(std::string_view text) {
  const std::size_t begin = std::min(text.find_first_not_of(" \t"), text.size());
  return text.substr(begin, text.find_last_not_of(" \t") + 1 - begin);
}

std::vector<std::string> names() {
  std::vector<std::string> result;
  for (int n = 0; n < lens::kNumRoles; ++n) result.emplace_back(lens::role_name(static_cast<lens::Role>(n)));
  result.emplace_back(kUnassigned);
  return result;
}

}  // namespace

Condition::Condition(std::string_view text) : text_(text) {
  std::size_t at = std::string_view::npos;
  for (const std::string_view comparison : kComparisons) {
    at = text.find(comparison);
    comparison_ = comparison;
    if (at != std::string_view::npos) break;
  }
  if (at == std::string_view::npos) {
    throw UsageError(
        fmt::format("--fail-if must be a role, one of == != < <= > >=, and a number, as "
                    "\"induction==0\", got \"{}\"",
                    text));
  }
  const std::string name(trimmed(text.substr(0, at)));
  const std::vector<std::string> known = names();
  const auto found = std::ranges::find(known, name);
  if (found == known.end()) {
    throw UsageError(fmt::format("--fail-if must name a role, got \"{}\"{}; roles: {}", name, guess_of(name, known),
                                 fmt::join(known, ", ")));
  }
  if (name != kUnassigned) role_ = static_cast<lens::Role>(found - known.begin());
  number_ = static_cast<index_t>(whole_number(fmt::format("the number of --fail-if \"{}\"", text),
                                              trimmed(text.substr(at + comparison_.size())), 0, kMostIndex));
}

index_t Condition::count(const HeadsResult& result) const {
  return std::ranges::count_if(result.heads, [&](const lens::EncoderHead& head) {
    return role_ ? head.roles.has(*role_) : primary_role(head.roles) == kUnassigned;
  });
}

bool Condition::holds(const HeadsResult& result) const {
  const bool judged = !role_ || std::ranges::any_of(result.heads, [&](const lens::EncoderHead& head) {
    return head.roles.score(*role_).has_value();
  });
  if (!judged) {
    throw Error(
        fmt::format("--fail-if needs heads that can be judged, got none for {}: the text has no query that it "
                    "applies to; give a longer text",
                    lens::role_name(*role_)));
  }
  const index_t found = count(result);
  if (comparison_ == "==") return found == number_;
  if (comparison_ == "!=") return found != number_;
  if (comparison_ == "<=") return found <= number_;
  if (comparison_ == ">=") return found >= number_;
  return comparison_ == "<" ? found < number_ : found > number_;
}

std::string Condition::found(const HeadsResult& result) const {
  const index_t heads = count(result);
  return fmt::format("{} ({} {})", text_, heads, heads == 1 ? "head" : "heads");
}

}  // namespace multihead::cli
