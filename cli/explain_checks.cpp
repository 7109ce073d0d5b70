// Runs the layer, and shows of each step that it is what it is said to be.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "explain.hpp"
#include "multihead/matmul.hpp"

namespace multihead::cli {
namespace {

double scale_of(const nn::MultiHeadAttention<float>& layer) {
  return layer.config().scale.value_or(1.0 / std::sqrt(static_cast<double>(layer.extents().head_dim)));
}

/// Head h of an activation [1, n, H, D] as [n, D].
TensorView<const float, 2> of_head(const Tensor<float, 4>& activation, index_t h) {
  return activation.view()[0].permute({1, 0, 2})[h];
}

double largest_difference(TensorView<const float, 2> a, TensorView<const float, 2> b) {
  double most = 0;
  for (index_t i = 0; i < a.shape(0); ++i) {
    for (index_t j = 0; j < a.shape(1); ++j) most = std::max(most, std::abs(static_cast<double>(a(i, j)) - b(i, j)));
  }
  return most;
}

double largest_magnitude(TensorView<const float, 2> a) {
  double most = 0;
  for (index_t i = 0; i < a.shape(0); ++i) {
    for (index_t j = 0; j < a.shape(1); ++j) most = std::max<double>(most, std::abs(a(i, j)));
  }
  return most;
}

/// Equal but for the rounding of f32 sums of a few hundred terms.
bool close(double difference, double magnitude) { return difference <= 1e-4 * std::max(1.0, magnitude); }

/// A layer that cut d_model into slices would not see a feature outside the head's own.
Check reads_all_features(const Explanation& e) {
  const nn::MultiHeadExtents& size = e.layer.extents();
  if (size.num_heads == 1) return {2, true, fmt::format("the one head reads all {} features of a token", size.d_model)};
  const index_t outside = e.head == 0 ? size.d_model - 1 : 0;
  Tensor<float, 3> changed = e.x.clone();
  changed(0, 0, outside) += 1.0f;
  const Explanation other = explain_layer(e.layer, std::move(changed), e.head);
  const double in_q = largest_difference(of_head(e.activations.q, e.head), of_head(other.activations.q, e.head));
  const double in_head =
      largest_difference(of_head(e.activations.heads, e.head), of_head(other.activations.heads, e.head));
  return {
      2, in_q > 0 && in_head > 0,
      fmt::format("a head is no slice: features {}..{} would be head {}'s slice, yet adding 1 to feature {} of token 0 "
                  "moves its q by up to {:.4f} and what it reads by up to {:.4f}",
                  e.head * size.head_dim, (e.head + 1) * size.head_dim - 1, e.head, outside, in_q, in_head)};
}

Check score_by_hand(const Explanation& e) {
  double dot = 0;
  const auto q = of_head(e.activations.q, e.head);
  const auto k = of_head(e.activations.k, e.layer.heads().kv_head_of[static_cast<std::size_t>(e.head)]);
  for (index_t d = 0; d < q.shape(1); ++d) dot += static_cast<double>(q(0, d)) * k(0, d);
  const double by_hand = dot * scale_of(e.layer);
  return {3, close(std::abs(by_hand - e.scores(e.head, 0, 0)), std::abs(by_hand)),
          fmt::format("by hand: dot(q[0], k[0]) = {:+.4f}, times {:.4f} = {:+.4f}; the matrix says {:+.4f}", dot,
                      scale_of(e.layer), by_hand, e.scores(e.head, 0, 0))};
}

Check rows_sum_to_one(const Explanation& e) {
  double worst = 0;
  for (index_t h = 0; h < e.probs.shape(1); ++h) {
    for (index_t i = 0; i < e.num_tokens(); ++i) {
      double sum = 0;
      for (index_t j = 0; j < e.num_tokens(); ++j) sum += e.probs(0, h, i, j);
      worst = std::max(worst, std::abs(sum - 1));
    }
  }
  return {4, worst < 1e-5,
          fmt::format("all {} rows of all {} maps sum to 1; farthest off: {:.1e}", e.probs.shape(1) * e.num_tokens(),
                      e.probs.shape(1), worst)};
}

Check softmax_by_hand(const Explanation& e) {
  double worst = 0;
  for (index_t h = 0; h < e.probs.shape(1); ++h) {
    for (index_t i = 0; i < e.num_tokens(); ++i) {
      double most = e.scores(h, i, 0), sum = 0;
      for (index_t j = 0; j < e.num_tokens(); ++j) most = std::max<double>(most, e.scores(h, i, j));
      for (index_t j = 0; j < e.num_tokens(); ++j) sum += std::exp(e.scores(h, i, j) - most);
      for (index_t j = 0; j < e.num_tokens(); ++j) {
        worst = std::max(worst, std::abs(std::exp(e.scores(h, i, j) - most) / sum - e.probs(0, h, i, j)));
      }
    }
  }
  return {4, worst < 1e-4,
          fmt::format("softmax of step 3, computed plainly, gives the engine's maps; farthest off: {:.1e}", worst)};
}

Check same_shape_as_input(const Explanation& e) {
  return {6, e.y.shape() == e.x.shape(),
          fmt::format("y has the shape of X, [{}, {}]: it can be added to it, and the next layer can read it",
                      e.y.shape(1), e.y.shape(2))};
}

/// y = sum_h head_h (W_h^O)^T + b_o: each head writes through its own columns of w_o.
Check sum_of_heads(const Explanation& e) {
  const nn::MultiHeadExtents& size = e.layer.extents();
  Tensor<float, 2> sum({e.num_tokens(), size.y_width});
  const Tensor<float, 1>& bias = e.layer.parameters().b_o;
  for (index_t i = 0; i < sum.shape(0); ++i) {
    for (index_t f = 0; bias.data() && f < sum.shape(1); ++f) sum(i, f) = bias(f);
  }
  for (index_t h = 0; h < size.num_heads; ++h) {
    matmul(of_head(e.activations.heads, h), e.layer.head(h).w_o, sum.view(), {.accumulate = true});
  }
  const double worst = largest_difference(sum.view(), e.y.view()[0]);
  return {6, close(worst, largest_magnitude(e.y.view()[0])),
          fmt::format("y is the sum of what each head writes, head_h W_h^O; farthest off: {:.1e}", worst)};
}

}  // namespace

Explanation explain_layer(const nn::MultiHeadAttention<float>& layer, Tensor<float, 3> x, index_t head) {
  const index_t n = x.shape(1);
  const index_t num_heads = layer.num_heads();
  Explanation e{.origin = {},
                .tokens = {},
                .layer = layer,
                .x = std::move(x),
                .activations = {},
                .scores = Tensor<float, 3>({num_heads, n, n}),
                .probs = Tensor<float, 4>({1, num_heads, n, n}),
                .y = Tensor<float, 3>({1, n, layer.extents().y_width}),
                .head = head};
  layer.forward({.x_q = e.x.view()}, {.y = e.y.view(), .probs = e.probs.view()}, {}, &e.activations);
  for (index_t h = 0; h < num_heads; ++h) {
    const index_t kv_head = layer.heads().kv_head_of[static_cast<std::size_t>(h)];
    matmul(of_head(e.activations.q, h), of_head(e.activations.k, kv_head), e.scores.view()[h]);
  }
  const auto scale = static_cast<float>(scale_of(layer));
  for (index_t k = 0; k < e.scores.size(); ++k) e.scores.data()[k] *= scale;
  return e;
}

std::vector<Check> checks_of(const Explanation& e) {
  const nn::MultiHeadExtents& size = e.layer.extents();
  const index_t n = e.num_tokens();
  std::vector<Check> checks;
  checks.push_back({1, n == static_cast<index_t>(e.tokens.size()),
                    fmt::format("{} tokens give {} rows; attention never changes their number", e.tokens.size(), n)});
  checks.push_back(reads_all_features(e));
  checks.push_back(score_by_hand(e));
  checks.push_back(rows_sum_to_one(e));
  checks.push_back(softmax_by_hand(e));
  checks.push_back({5, size.num_heads * size.head_dim_v == e.layer.parameters().w_o.shape(1),
                    fmt::format("{} heads x {} = {} columns, as many as W^O has rows", size.num_heads, size.head_dim_v,
                                size.num_heads * size.head_dim_v)});
  checks.push_back(same_shape_as_input(e));
  checks.push_back(sum_of_heads(e));
  const LayerCost many = layer_cost(n, size.d_model, size.num_heads, size.head_dim);
  const LayerCost one = layer_cost(n, size.d_model, 1, size.num_heads * size.head_dim);
  checks.push_back({0, many.parameters == one.parameters && many.multiply_adds == one.multiply_adds,
                    "parameters and multiply-adds are equal; what differs is how many maps they are spent on"});
  return checks;
}

LayerCost layer_cost(index_t num_tokens, index_t d_model, index_t num_heads, index_t head_dim) {
  LayerCost cost{.num_heads = num_heads, .head_dim = head_dim, .parameters = 0, .multiply_adds = 0, .map_entries = 0};
  for (index_t h = 0; h < num_heads; ++h) {
    cost.parameters += 4 * d_model * head_dim;                     // w_q, w_k, w_v and its part of w_o
    cost.multiply_adds += num_tokens * 4 * d_model * head_dim;     // the four projections
    cost.multiply_adds += 2 * num_tokens * num_tokens * head_dim;  // q k^T and probs v
    cost.map_entries += num_tokens * num_tokens;
  }
  return cost;
}

}  // namespace multihead::cli
