// Rotary position embedding: each pair of features is rotated by an angle that grows with the token's position.
//
//   angle[p] = position * inv_freq[p]              inv_freq[p] = base^(-2p/R), changed by the scaling     p < R/2
//   (x_a, x_b) -> (x_a*cos - x_b*sin, x_b*cos + x_a*sin)
//
//   half_split   pairs (p, p + R/2)      interleaved   pairs (2p, 2p + 1)      features from R on are left alone
//
// Angles are computed in double and rounded once, as cosines and sines, to the type of the layer.
// Source: Su et al. 2021, eq. 34; scalings: Chen et al. 2023 (linear), Peng et al. 2023 (ntk, dynamic, yarn, eq.
// 16-22), Llama 3 (Meta 2024).
#pragma once

#include <optional>
#include <vector>

#include "multihead/kv_cache.hpp"
#include "multihead/tensor.hpp"
#include "multihead/tensor_view.hpp"

namespace multihead::nn {

enum class RopePairing : std::uint8_t { half_split, interleaved };

enum class RopeScaling : std::uint8_t {
  none,
  linear,   ///< every frequency divided by factor
  ntk,      ///< base * factor^(R/(R-2)), whatever the length
  dynamic,  ///< ntk whose factor grows with the length, from original_max_position on
  yarn,     ///< high frequencies kept, low ones divided by factor, a ramp between; cosines and sines are scaled too
  llama3,   ///< by wavelength against original_max_position
};

struct RopeConfig {
  double base = 10000.0;
  std::optional<index_t> rotary_dim = {};  ///< R: leading features that turn, even; unset = head_dim
  RopePairing pairing = RopePairing::half_split;
  RopeScaling scaling = RopeScaling::none;
  double factor = 1.0;                          ///< at least 1
  index_t original_max_position = 0;            ///< tokens the model was trained on; for dynamic, yarn, llama3
  std::optional<double> attention_factor = {};  ///< yarn; unset = 0.1*ln(factor) + 1
  double beta_fast = 32.0;                      ///< yarn: turns over the trained length from where nothing is divided
  double beta_slow = 1.0;                       ///< yarn: turns below which all is divided
  double low_freq_factor = 1.0;                 ///< llama3
  double high_freq_factor = 4.0;                ///< llama3
};

/// Cosines and sines of N tokens, multiplied by the attention factor of the scaling.
template <class T>
struct RopeTable {
  Tensor<T, 2> cos;  ///< [N, R/2]
  Tensor<T, 2> sin;  ///< [N, R/2]
};

/// The frequencies of one configuration.
class MULTIHEAD_API Rope {
 public:
  /// @throws ShapeError  if rotary_dim is odd, below 2 or above head_dim, or a number is out of its range
  Rope(const RopeConfig& config, index_t head_dim);

  const RopeConfig& config() const { return config_; }
  index_t rotary_dim() const { return rotary_dim_; }
  double attention_factor() const { return attention_factor_; }

  /// [R/2], radians per position. `seqlen` matters to RopeScaling::dynamic alone: the largest position plus 1.
  std::vector<double> inv_freq(index_t seqlen = 0) const;

  /// Row n is for positions(n), which may be negative. RopeScaling::dynamic takes the largest one for its length.
  template <class T>
  RopeTable<T> table(TensorView<const index_t, 1> positions) const;

 private:
  RopeConfig config_;
  index_t rotary_dim_;
  double attention_factor_;
};

/// Cosines and sines [B or 1, S, R/2]; an axis of extent 1 stands for every index. Last axis contiguous.
template <class T>
struct RopeAngles {
  TensorView<const T, 3> cos;
  TensorView<const T, 3> sin;
  RopePairing pairing = RopePairing::half_split;
};

/// Turns the first R = 2 * (extent of cos) features of every head: y = rotation(x).
/// @param x  [B, S, H, D], last axis contiguous
/// @param y  [B, S, H, D], last axis contiguous; may be x itself, must not overlap it otherwise
/// @throws ShapeError  if extents disagree or 2 * extent of cos is above D, before anything is written
/// Cost 3*B*S*H*R flops.
template <class T>
MULTIHEAD_API void rope_apply(TensorView<const T, 4> x, TensorView<T, 4> y, const RopeAngles<T>& angles);

/// The gradient: dx = rotation^T(dy), the turn by the opposite angle. dx may be dy itself.
template <class T>
MULTIHEAD_API void rope_backward(TensorView<const T, 4> dy, TensorView<T, 4> dx, const RopeAngles<T>& angles);

/// Moves cached keys that were rotated for their positions to other ones: those of tokens [begin, length) of a sequence
/// by `delta` positions, and next_position with them. Shifts add up, as angles do.
/// @throws ShapeError, UnsupportedError  before anything is rotated: a begin that is not in [0, length], a head_dim
///         below rotary_dim, dynamic scaling, too few free pages to copy shared ones
MULTIHEAD_API void rope_shift(const Rope& rope, KvCache& cache, index_t sequence, index_t begin, index_t delta);

}  // namespace multihead::nn
