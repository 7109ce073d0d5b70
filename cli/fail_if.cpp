// Conditions on the number of heads that have a role: NAME OPERATOR NUMBER.
#include <fmt/format.h>

#include <algorithm>

#include "command.hpp"
#include "heads.hpp"
#include "multihead/error.hpp"

namespace multihead::cli {
namespace {

constexpr std::array<std::string_view, 6> kComparisons = {"==", "!=", "<=", ">=", "<", ">"};  // two characters first

std::string_view trimmed(std::string_view text) {
  const std::size_t begin = std::min(text.find_first_not_of(" \t"), text.size());
  return text.substr(begin, text.find_last_not_of(" \t") + 1 - begin);
}

std::vector<std::string> names() {
  std::vector<std::string> result;
  for (int n = 0; n < lens::kNumRoles; ++n) result.emplace_back(lens::role_name(static_cast<lens::Role>(n)));
  result.emplace_back(kSyntactic);
  result.emplace_back(kUnassigned);
  return result;
}

}  // namespace

Condition::Condition(std::string_view text, bool has_gold) : text_(text) {
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
  name_ = trimmed(text.substr(0, at));
  const std::vector<std::string> known = names();
  const auto found = std::ranges::find(known, name_);
  if (found == known.end()) {
    throw UsageError(fmt::format("--fail-if must name a role, got \"{}\"{}; roles: {}", name_, guess_of(name_, known),
                                 fmt::join(known, ", ")));
  }
  if (name_ == kSyntactic && !has_gold) throw UsageError("--fail-if on syntactic needs --gold");
  number_ = static_cast<index_t>(whole_number(fmt::format("the number of --fail-if \"{}\"", text),
                                              trimmed(text.substr(at + comparison_.size())), 0, kMostIndex));
}

index_t Condition::count(const HeadsResult& result) const {
  return std::ranges::count_if(result.heads, [&](const lens::EncoderHead& head) {
    if (name_ == kUnassigned) return primary_role(result, head) == kUnassigned;
    const std::vector<Label> labels = labels_of(result, head);
    return std::ranges::any_of(labels, [&](const Label& label) { return label.name == name_; });
  });
}

bool Condition::holds(const HeadsResult& result) const {
  const bool judged = std::ranges::any_of(result.heads, [&](const lens::EncoderHead& head) {
    for (int n = 0; n < lens::kNumRoles; ++n) {
      const auto role = static_cast<lens::Role>(n);
      if (lens::role_name(role) == name_ && head.roles.score(role)) return true;
    }
    return name_ == kUnassigned || name_ == kSyntactic;
  });
  if (!judged) {
    throw Error(
        fmt::format("--fail-if needs heads that can be judged, got none for {}: the text has no query that it "
                    "applies to; give a longer text",
                    name_));
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
