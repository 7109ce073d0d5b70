// How much a sentence encoder needs each head: what its vectors lose without it, and cheaper scores that foretell that.
//
//   u = pooled hidden states of a segment, e = u / |u|; without the head e'
//   ablation     mean over segments of 1 - <e', e>
//   g_h          <r, de / dgate_h>, r = random signs / sqrt(E), anew for each segment and draw
//   sensitivity  mean of |g_h|; of one layer, divided by their Euclidean length: sensitivity_normalised
//   fisher       F_hk = mean of g_h g_k
//   variance     sum over features c of the head of Var(Z_c) |w_o[:, c]|^2             An et al. 2024 (FLAP)
//
// 1 - <e', e> has no slope at the unchanged model, so that the score of Michel et al. 2019, mean |dloss / dgate_h|,
// would be 0; |g_h| says how far the vector moves. To second order the loss without h is E/2 F_hh.
#pragma once

#include <array>
#include <functional>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "multihead/encoder_trace.hpp"
#include "multihead/lens/bootstrap.hpp"
#include "multihead/lens/corpus.hpp"
#include "multihead/sentence_embedding.hpp"

namespace multihead::lens {

/// What takes the place of a head's output.
enum class Ablation : std::uint8_t {
  zero,     ///< 0
  mean,     ///< its mean over all tokens of the text
  uniform,  ///< what it would write if it attended to all tokens alike (Kovaleva et al. 2019)
  pattern,  ///< 0, while later layers keep their maps (Olsson et al. 2022)
};
constexpr int kNumAblations = 4;
MULTIHEAD_API std::string_view ablation_name(Ablation ablation);

struct AblationLoss {
  double value = 0;
  std::optional<Interval> interval = {};  ///< 95 %, segments drawn again; none with fewer than two
};

/// Scores of the N heads of an encoder, layer by layer.
struct Importance {
  index_t num_segments = 0;
  std::array<std::vector<AblationLoss>, kNumAblations> ablation;      ///< [N] each; empty = not asked for
  std::vector<double> sensitivity, sensitivity_normalised, variance;  ///< [N]
  Tensor<double, 2> fisher;                                           ///< [N, N]
};

struct ImportanceOptions {
  SentencePooling pooling = {};  ///< `normalize` makes no difference
  std::vector<Ablation> ablations = {Ablation::zero};
  index_t draws = 2;  ///< of r, for each segment
  std::uint64_t seed = 1;
  std::function<void(double share)> progress = {};  ///< of the work that is done
  Executor* threads = nullptr;
};

/// @throws ShapeError  as Encoder::forward, or if there are no segments or draws
///
/// Cost    a forward and 1.5 draws of it in backwards; each kind of ablation H (L + 1) / 2 forwards. Memory  what a
///         trace of 8 segments keeps. Threads  the same bits for any number.
MULTIHEAD_API Importance head_importance(const Encoder& encoder, std::span<const Segment> segments,
                                         const ImportanceOptions& options = {});

}  // namespace multihead::lens
