// What `multihead heads` hands to its outputs.
#pragma once

#include <array>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "multihead/lens/encoder_roles.hpp"
#include "multihead/text_encoder.hpp"
#include "terminal.hpp"

namespace multihead::cli {

/// One role over the heads of a model.
struct RoleSummary {
  index_t judged = 0;         ///< heads with a score
  index_t labelled = 0;       ///< heads that have the role
  double mean = 0, most = 0;  ///< lift
};
using RoleSummaries = std::array<RoleSummary, lens::kNumRoles>;
RoleSummaries summarise_roles(const std::vector<lens::EncoderHead>& heads);

struct HeadsResult {
  std::string folder;
  index_t num_layers = 0;
  lens::Corpus corpus = {};
  std::vector<lens::Segment> repeated = {};
  std::vector<lens::EncoderHead> heads = {};  ///< layer by layer
  std::optional<RoleSummaries> null = {};     ///< of the model with shuffled weights
  double seconds = 0;

  /// The last part of the folder's path.
  std::string name() const;
};

/// "previous", or "unassigned", or "n/a" where no role could be judged.
std::string_view primary_role(const lens::HeadRoles& roles);

/// The largest variability that says "position", the smallest that says "content".
constexpr double kPositionMost = 0.3, kContentLeast = 0.4;

/// A line a head, and what the model has of each role.
std::string roles_table(const HeadsResult& result, const Style& style, int width);

/// The same as data.
std::string heads_json(const HeadsResult& result);

/// "induction==0": true makes the command end with kFailed.
class Condition {
 public:
  /// @throws UsageError  if the text is no condition, or names no role
  explicit Condition(std::string_view text);

  /// @throws Error  if no head could be judged for the role
  bool holds(const HeadsResult& result) const;
  /// "induction==0 (0 heads)"
  std::string found(const HeadsResult& result) const;

 private:
  index_t count(const HeadsResult& result) const;

  std::string text_;
  std::optional<lens::Role> role_;  ///< unset: unassigned
  std::string_view comparison_;
  index_t number_ = 0;
};
constexpr int kFailed = 3;  ///< exit code

}  // namespace multihead::cli
