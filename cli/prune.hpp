// What `multihead prune` hands to its outputs.
#pragma once

#include <array>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "heads.hpp"
#include "multihead/lens/prune.hpp"
#include "multihead/lens/vector_agreement.hpp"
#include "multihead/save_encoder.hpp"
#include "terminal.hpp"

namespace multihead::cli {

/// The values of --method, --select and --storage, in the order of their types.
constexpr std::array<std::string_view, 4> kMethods = {"none", "mean", "scale", "fold"};
constexpr std::array<std::string_view, 4> kSelections = {"loss", "error", "output", "random"};
constexpr std::array<std::string_view, 2> kStorages = {"sliced", "zeroed"};

/// One point of the curve.
struct PrunePoint {
  index_t removed = 0;                             ///< heads that are gone by then
  std::vector<LayerHead> heads;                    ///< those of this step, by their original numbers
  lens::VectorAgreement agreement;                 ///< with the unpruned model, on held-out sentences
  bool compensated = true;                         ///< false: making up for the heads was worse than not
  std::vector<lens::VectorAgreement> random = {};  ///< as many heads drawn at random, one entry a seed
};

/// A model before or after.
struct ModelSize {
  index_t parameters = 0, file_bytes = 0;
  double flops_per_token = 0;           ///< at the mean length of the sentences
  std::optional<index_t> memory_bytes;  ///< most that a forward of 64 sentences took beside the weights
};

struct PruneSpeed {
  index_t batch = 0;                    ///< sentences at once
  double before = 0, after = 0;         ///< tokens a second, medians
  double ratio = 0, low = 0, high = 0;  ///< after / before of neighbouring runs: median, least, most
};

struct PruneRole {
  std::string name;
  index_t before = 0, after = 0;   ///< heads that have it
  std::vector<LayerHead> removed;  ///< of those before
};

struct PruneResult {
  std::string folder, output;
  lens::Compensation method = lens::Compensation::fold;
  lens::Selection selection = lens::Selection::loss;
  HeadStorage storage = HeadStorage::sliced;
  index_t num_heads = 0;  ///< before
  index_t calibration_sentences = 0, calibration_tokens = 0, sentences = 0;
  std::vector<PrunePoint> curve = {};
  std::vector<std::vector<index_t>> kept = {};  ///< original numbers, by layer
  ModelSize before = {}, after = {};
  std::vector<PruneSpeed> speed = {};
  std::vector<PruneRole> roles = {};
  double seconds = 0;
};

/// Tokens a second at 1, 4, 16 and 64 sentences at once, the two models in turn.
std::vector<PruneSpeed> compare_speed(const Encoder& before, const Encoder& after,
                                      const std::vector<std::vector<index_t>>& sentences, Executor* threads);

ModelSize size_of(const Encoder& encoder, const std::vector<std::vector<index_t>>& sentences, Executor* threads);

std::string prune_report(const PruneResult& result, const Style& style, int width);
std::string prune_json(const PruneResult& result);

}  // namespace multihead::cli
