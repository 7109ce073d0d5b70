#include "multihead/nn/rope.hpp"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "core/require.hpp"

namespace multihead::nn {
namespace {

bool needs_trained_length(RopeScaling scaling) {
  return scaling == RopeScaling::dynamic || scaling == RopeScaling::yarn || scaling == RopeScaling::llama3;
}

// ntk changes the base so that the lowest frequency is divided by `stretch` and the highest is kept.
double ntk_base(double base, double stretch, index_t rotary_dim) {
  return base * std::pow(stretch, static_cast<double>(rotary_dim) / static_cast<double>(rotary_dim - 2));
}

// Peng et al. 2023: the pair whose angle makes `turns` full rotations over original_max_position.
double yarn_pair(double turns, const RopeConfig& c, index_t rotary_dim) {
  const double length = static_cast<double>(c.original_max_position);
  return static_cast<double>(rotary_dim) * std::log(length / (turns * 2 * std::numbers::pi)) / (2 * std::log(c.base));
}

void scale_yarn(std::vector<double>& inv_freq, const RopeConfig& c, index_t rotary_dim) {
  const double low = std::max(std::floor(yarn_pair(c.beta_fast, c, rotary_dim)), 0.0);
  double high = std::min(std::ceil(yarn_pair(c.beta_slow, c, rotary_dim)), static_cast<double>(rotary_dim - 1));
  if (high == low) high += 0.001;
  for (std::size_t p = 0; p < inv_freq.size(); ++p) {
    const double ramp = std::clamp((static_cast<double>(p) - low) / (high - low), 0.0, 1.0);  // 0 keeps, 1 divides
    inv_freq[p] = inv_freq[p] / c.factor * ramp + inv_freq[p] * (1 - ramp);
  }
}

void scale_llama3(std::vector<double>& inv_freq, const RopeConfig& c) {
  for (double& f : inv_freq) {
    const double turns = static_cast<double>(c.original_max_position) * f / (2 * std::numbers::pi);
    const double keep = (turns - c.low_freq_factor) / (c.high_freq_factor - c.low_freq_factor);  // 1 keeps, 0 divides
    const double smooth = std::clamp(keep, 0.0, 1.0);
    f = (1 - smooth) * f / c.factor + smooth * f;
  }
}

template <class T>
void check_rotation(const char* function, TensorView<const T, 4> x, TensorView<T, 4> y, const RopeAngles<T>& angles) {
  const auto text = [](const auto& view) {
    return GotShape(view.shape().data(), static_cast<int>(view.shape().size()));
  };
  require(x.shape() == y.shape(), function, "input and output must have one shape",
          {{"input", text(x)}, {"output", text(y)}});
  require(angles.cos.shape() == angles.sin.shape(), function, "cos and sin must have one shape",
          {{"cos", text(angles.cos)}, {"sin", text(angles.sin)}});
  const index_t batch = angles.cos.shape(0), seqlen = angles.cos.shape(1), rotary_dim = 2 * angles.cos.shape(2);
  require((batch == 1 || batch == x.shape(0)) && (seqlen == 1 || seqlen == x.shape(1)) && rotary_dim <= x.shape(3),
          function, "cos must be [batch or 1, seqlen or 1, at most head_dim/2]",
          {{"cos", text(angles.cos)}, {"input", text(x)}});
  const auto contiguous = [](const auto& view) { return view.shape().back() <= 1 || view.stride().back() == 1; };
  require(contiguous(x) && contiguous(y) && contiguous(angles.cos) && contiguous(angles.sin), function,
          "the last axis of every view must be contiguous",
          {{"input stride", x.stride(3)},
           {"output stride", y.stride(3)},
           {"cos stride", angles.cos.stride(2)},
           {"sin stride", angles.sin.stride(2)}});
}

// One head of one token. sign = 1 rotates forward, -1 back.
template <class T>
void rotate(const T* x, T* y, const T* cos, const T* sin, T sign, index_t half, index_t head_dim, RopePairing pairing) {
  const index_t step = pairing == RopePairing::interleaved ? 2 : 1;
  const index_t apart = pairing == RopePairing::interleaved ? 1 : half;
  for (index_t p = 0; p < half; ++p) {
    const T a = x[p * step], b = x[p * step + apart], s = sign * sin[p];
    y[p * step] = a * cos[p] - b * s;
    y[p * step + apart] = b * cos[p] + a * s;
  }
  if (x != y) std::copy(x + 2 * half, x + head_dim, y + 2 * half);
}

template <class T>
void rotate_all(TensorView<const T, 4> x, TensorView<T, 4> y, const RopeAngles<T>& angles, T sign) {
  const index_t half = angles.cos.shape(2);
  const auto row = [](TensorView<const T, 3> table, index_t b, index_t i) {
    return table.data() + (table.shape(0) == 1 ? 0 : b * table.stride(0)) +
           (table.shape(1) == 1 ? 0 : i * table.stride(1));
  };
  for (index_t b = 0; b < x.shape(0); ++b) {
    for (index_t i = 0; i < x.shape(1); ++i) {
      const T* cos = row(angles.cos, b, i);
      const T* sin = row(angles.sin, b, i);
      for (index_t h = 0; h < x.shape(2); ++h) {
        rotate(x[b][i][h].data(), y[b][i][h].data(), cos, sin, sign, half, x.shape(3), angles.pairing);
      }
    }
  }
}

}  // namespace

Rope::Rope(const RopeConfig& config, index_t head_dim)
    : config_(config), rotary_dim_(config.rotary_dim.value_or(head_dim)), attention_factor_(1.0) {
  require(rotary_dim_ >= 2 && rotary_dim_ % 2 == 0 && rotary_dim_ <= head_dim, "Rope",
          "rotary_dim must be even and in [2, head_dim]", {{"rotary_dim", rotary_dim_}, {"head_dim", head_dim}});
  require(config.base > 1 && std::isfinite(config.base), "Rope", "base must be above 1", {{"base", config.base}});
  require(config.factor >= 1 && std::isfinite(config.factor), "Rope", "factor must be at least 1",
          {{"factor", config.factor}});
  const bool ntk = config.scaling == RopeScaling::ntk || config.scaling == RopeScaling::dynamic;
  require(!ntk || rotary_dim_ > 2, "Rope", "ntk scaling must have a rotary_dim above 2", {{"rotary_dim", rotary_dim_}});
  require(!needs_trained_length(config.scaling) || config.original_max_position > 0, "Rope",
          "original_max_position must be above 0 with dynamic, yarn and llama3 scaling",
          {{"original_max_position", config.original_max_position}});
  require(config.beta_fast > config.beta_slow && config.beta_slow > 0, "Rope", "beta_fast > beta_slow > 0 must hold",
          {{"beta_fast", config.beta_fast}, {"beta_slow", config.beta_slow}});
  require(config.high_freq_factor > config.low_freq_factor, "Rope", "high_freq_factor must be above low_freq_factor",
          {{"high_freq_factor", config.high_freq_factor}, {"low_freq_factor", config.low_freq_factor}});
  if (config.scaling == RopeScaling::yarn) {
    attention_factor_ = config.attention_factor.value_or(0.1 * std::log(config.factor) + 1.0);
  }
}

std::vector<double> Rope::inv_freq(index_t seqlen) const {
  const RopeConfig& c = config_;
  double base = c.base;
  if (c.scaling == RopeScaling::ntk) base = ntk_base(base, c.factor, rotary_dim_);
  if (c.scaling == RopeScaling::dynamic && seqlen > c.original_max_position) {
    const double stretch =
        c.factor * static_cast<double>(seqlen) / static_cast<double>(c.original_max_position) - (c.factor - 1);
    base = ntk_base(base, stretch, rotary_dim_);
  }
  std::vector<double> result(static_cast<std::size_t>(rotary_dim_ / 2));
  for (std::size_t p = 0; p < result.size(); ++p)
    result[p] = std::pow(base, -2.0 * static_cast<double>(p) / static_cast<double>(rotary_dim_));
  if (c.scaling == RopeScaling::linear) {
    for (double& f : result) f /= c.factor;
  }
  if (c.scaling == RopeScaling::yarn) scale_yarn(result, c, rotary_dim_);
  if (c.scaling == RopeScaling::llama3) scale_llama3(result, c);
  return result;
}

template <class T>
RopeTable<T> Rope::table(TensorView<const index_t, 1> positions) const {
  const index_t num_tokens = positions.shape(0), half = rotary_dim_ / 2;
  index_t seqlen = 0;
  for (index_t n = 0; n < num_tokens; ++n) seqlen = std::max(seqlen, positions(n) + 1);
  const std::vector<double> freq = inv_freq(seqlen);
  RopeTable<T> result{Tensor<T, 2>({num_tokens, half}), Tensor<T, 2>({num_tokens, half})};
  for (index_t n = 0; n < num_tokens; ++n) {
    for (index_t p = 0; p < half; ++p) {
      const double angle = static_cast<double>(positions(n)) * freq[static_cast<std::size_t>(p)];
      result.cos(n, p) = static_cast<T>(std::cos(angle) * attention_factor_);
      result.sin(n, p) = static_cast<T>(std::sin(angle) * attention_factor_);
    }
  }
  return result;
}

template <class T>
void rope_apply(TensorView<const T, 4> x, TensorView<T, 4> y, const RopeAngles<T>& angles) {
  check_rotation("rope_apply", x, y, angles);
  rotate_all(x, y, angles, T{1});
}

template <class T>
void rope_backward(TensorView<const T, 4> dy, TensorView<T, 4> dx, const RopeAngles<T>& angles) {
  check_rotation("rope_backward", dy, dx, angles);
  rotate_all(dy, dx, angles, T{-1});
}

template RopeTable<float> Rope::table(TensorView<const index_t, 1>) const;
template RopeTable<double> Rope::table(TensorView<const index_t, 1>) const;
template void rope_apply(TensorView<const float, 4>, TensorView<float, 4>, const RopeAngles<float>&);
template void rope_apply(TensorView<const double, 4>, TensorView<double, 4>, const RopeAngles<double>&);
template void rope_backward(TensorView<const float, 4>, TensorView<float, 4>, const RopeAngles<float>&);
template void rope_backward(TensorView<const double, 4>, TensorView<double, 4>, const RopeAngles<double>&);

}  // namespace multihead::nn
