// What `multihead heads` hands to its outputs.
#pragma once

#include <array>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "multihead/lens/dependencies.hpp"
#include "multihead/lens/encoder_roles.hpp"
#include "multihead/lens/importance.hpp"
#include "multihead/lens/redundancy.hpp"
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
  std::optional<lens::Redundancy> redundancy = {}, null_redundancy = {};
  std::optional<lens::Importance> importance = {};
  std::optional<std::vector<lens::Relation>> relations = {};  ///< with a gold file
  double seconds = 0;

  /// The last part of the folder's path.
  std::string name() const;
  index_t number_of(const LayerHead& head) const;  ///< the original number
  /// The relation that a head follows best of those that pass; null = none.
  const lens::Relation* relation_of(const lens::EncoderHead& head) const;
};

constexpr std::string_view kUnassigned = "unassigned", kSyntactic = "syntactic";
constexpr double kRelationGain = 0.1;  ///< what a relation's accuracy must have beyond its baseline

/// "to_head", "to_dependent"
std::string_view direction_name(lens::Direction direction);

/// One role that a head has.
struct Label {
  std::string_view name;
  std::string text;  ///< with what belongs to it: "offset -2", "syntactic nsubj"
  double lift = 0, strength = 0;
  std::optional<lens::Interval> interval = {};
};
/// The strongest first.
std::vector<Label> labels_of(const HeadsResult& result, const lens::EncoderHead& head);

/// "previous", or "unassigned", or "n/a" where no role could be judged.
std::string_view primary_role(const HeadsResult& result, const lens::EncoderHead& head);

/// The largest variability that says "position", the smallest that says "content".
constexpr double kPositionMost = 0.3, kContentLeast = 0.4;

/// Below it, what is said of roles is said with a warning.
constexpr index_t kFewestRoleTokens = 16;
std::string few_tokens_note();

/// A line a head, and what the model has of each role.
std::string roles_table(const HeadsResult& result, const Style& style, int width);

/// A line a relation and direction with enough instances.
std::string relations_table(const HeadsResult& result, const Style& style, int width);

/// A line a layer: how many different heads it has.
std::string redundancy_text(const HeadsResult& result, const Style& style, int width);

/// The heads that the model needs most and least, and which cheap score says the same.
std::string importance_text(const HeadsResult& result, const Style& style, int width);

class Progress;

/// Whether heads are replaced in turn, by zero alone or in all ways.
struct AblationChoice {
  SentencePooling pooling = {};
  std::uint64_t seed = 1;
  bool zero = true, all = false;
};
/// On a part of the segments, so that it takes seconds for a model of MiniLM's size.
lens::Importance judge_importance(const HeadsResult& result, const Encoder& encoder, const AblationChoice& choice,
                                  Progress& progress, Executor* threads);

/// The same as data.
std::string heads_json(const HeadsResult& result);

/// "induction==0": true makes the command end with kFailed.
class Condition {
 public:
  /// @throws UsageError  if the text is no condition, or names no role, or "syntactic" without a gold file
  Condition(std::string_view text, bool has_gold);

  /// @throws Error  if no head could be judged for the role
  bool holds(const HeadsResult& result) const;
  /// "induction==0 (0 heads)"
  std::string found(const HeadsResult& result) const;

 private:
  index_t count(const HeadsResult& result) const;

  std::string text_;
  std::string name_;
  std::string_view comparison_;
  index_t number_ = 0;
};
constexpr int kFailed = 3;  ///< exit code

}  // namespace multihead::cli
