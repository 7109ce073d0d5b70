// Rotary position embedding: each pair of features is rotated by an angle that grows with the token's position.
//
//   angle[p] = position * inv_freq[p]              inv_freq[p] = base^(-2p/R), changed by the scaling     p < R/2
//   (x_a, x_b) -> (x_a*cos - x_b*sin, x_b*cos + x_a*sin)
//
//   half_split   pairs (p, p + R/2)      interleaved   pairs (2p, 2p + 1)      features from R on are unchanged
//
// Angles, cosines and sines are computed in double; cosines and sines are then rounded once to the type of the layer.
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
  dynamic,  ///< ntk with a factor that grows with the length beyond original_max_position
  yarn,     ///< high frequencies kept, low ones divided by factor, a ramp in between; scales cosines and sines too
  llama3,   ///< depends on the ratio of wavelength and original_max_position
};

struct RopeConfig {
  double base = 10000.0;
  std::optional<index_t> rotary_dim = {};  ///< R: number of rotated leading features, even; unset = head_dim
  RopePairing pairing = RopePairing::half_split;
  RopeScaling scaling = RopeScaling::none;
  double factor = 1.0;                          ///< at least 1
  index_t original_max_position = 0;            ///< sequence length in training; for dynamic, yarn, llama3
  std::optional<double> attention_factor = {};  ///< yarn; unset = 0.1*ln(factor) + 1
  double beta_fast = 32.0;                      ///< yarn: kept from this many rotations in original_max_position on
  double beta_slow = 1.0;                       ///< yarn: divided up to this many rotations
  double low_freq_factor = 1.0;                 ///< llama3
  double high_freq_factor = 4.0;                ///< llama3
};

/// Cosines and sines for N tokens, multiplied by the attention factor of the scaling.
template <class T>
struct RopeTable {
  Tensor<T, 2> cos;  ///< [N, R/2]
  Tensor<T, 2> sin;  ///< [N, R/2]
};

/// The frequencies of one configuration.
class MULTIHEAD_API Rope {
 public:
  /// @throws ShapeError  if rotary_dim is odd, below 2 or above head_dim, or a number is out of range
  Rope(const RopeConfig& config, index_t head_dim);

  const RopeConfig& config() const { return config_; }
  index_t rotary_dim() const { return rotary_dim_; }
  double attention_factor() const { return attention_factor_; }

  /// [R/2], in radians per position. Only RopeScaling::dynamic uses `seqlen`, the largest position plus 1.
  std::vector<double> inv_freq(index_t seqlen = 0) const;

  /// Row n is for positions(n), which may be negative. RopeScaling::dynamic uses the largest one plus 1 as length.
  template <class T>
  RopeTable<T> table(TensorView<const index_t, 1> positions) const;

 private:
  RopeConfig config_;
  index_t rotary_dim_;
  double attention_factor_;
};

/// Cosines and sines [B or 1, S, R/2]; an axis of extent 1 is broadcast. Last axis contiguous.
template <class T>
struct RopeAngles {
  TensorView<const T, 3> cos;
  TensorView<const T, 3> sin;
  RopePairing pairing = RopePairing::half_split;
};

/// Rotates the first R = 2 * (last extent of cos) features of every head: y = rotation(x).
/// @param x  [B, S, H, D], last axis contiguous
/// @param y  [B, S, H, D], last axis contiguous; may be x itself, must not overlap it otherwise
/// @throws ShapeError  if extents disagree or R is above D, before anything is written
/// Cost 3*B*S*H*R flops.
template <class T>
MULTIHEAD_API void rope_apply(TensorView<const T, 4> x, TensorView<T, 4> y, const RopeAngles<T>& angles);

/// The gradient: dx = rotation^T(dy), the rotation by the opposite angle. dx may be dy itself.
template <class T>
MULTIHEAD_API void rope_backward(TensorView<const T, 4> dy, TensorView<T, 4> dx, const RopeAngles<T>& angles);

/// Shifts the positions of tokens [begin, length) of a cached sequence by `delta`: rotates their keys, which have the
/// rotation of the old positions, by the difference and adds `delta` to next_position. Repeated shifts add up.
/// @throws ShapeError, UnsupportedError  before anything is rotated: if begin is not in [0, length], head_dim is below
///         rotary_dim, the scaling is dynamic, or too few pages are free to copy shared ones
MULTIHEAD_API void rope_shift(const Rope& rope, KvCache& cache, index_t sequence, index_t begin, index_t delta);

}  // namespace multihead::nn
