// Runs the layer, and shows of each step that it is what it is said to be.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <numeric>

#include "explain.hpp"
#include "multihead/matmul.hpp"

namespace multihead::cli {
namespace {

double scale_of(const nn::MultiHeadAttention<float>& layer) {
  return layer.config().scale.value_or(1.0 / std::sqrt(static_cast<double>(layer.extents().head_dim)));
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

/// What head h reads, [1, n, 1, Dv], from the activations with other q, k and v for token 0.
Tensor<float, 4> head_with_other_token(const Explanation& e, const nn::MultiHeadActivations<float>& token) {
  const index_t n = e.num_tokens(), kv_head = e.layer.heads().kv_head_of[static_cast<std::size_t>(e.head)];
  const auto changed = [&](const Tensor<float, 4>& all, const Tensor<float, 4>& first, index_t h) {
    Tensor<float, 4> one({1, n, 1, all.shape(3)});
    for (index_t i = 0; i < n; ++i) {
      for (index_t d = 0; d < all.shape(3); ++d) one(0, i, 0, d) = i == 0 ? first(0, 0, h, d) : all(0, i, h, d);
    }
    return one;
  };
  const Tensor<float, 4> q = changed(e.activations.q, token.q, e.head);
  const Tensor<float, 4> k = changed(e.activations.k, token.k, kv_head);
  const Tensor<float, 4> v = changed(e.activations.v, token.v, kv_head);
  Tensor<float, 4> out({1, n, 1, v.shape(3)});
  attention_forward({.q = q.view(), .k = k.view(), .v = v.view()}, {.out = out.view()}, {.scale = scale_of(e.layer)});
  return out;
}

/// A layer that cut d_model into slices would not see a feature outside the head's own.
Check reads_all_features(const Explanation& e) {
  const nn::MultiHeadExtents& size = e.layer.extents();
  if (size.num_heads == 1) return {2, true, fmt::format("the one head reads all {} features of a token", size.d_model)};
  const index_t number = e.original_head(e.head), outside = number == 0 ? size.d_model - 1 : 0;
  Tensor<float, 3> token({1, 1, size.d_model}), y({1, 1, size.y_width});
  for (index_t f = 0; f < size.d_model; ++f) token(0, 0, f) = e.x(0, 0, f) + (f == outside ? 1.0f : 0.0f);
  nn::MultiHeadActivations<float> other;
  e.layer.forward({.x_q = token.view()}, {.y = y.view()}, {}, &other);
  const auto q = of_head(e.activations.q, e.head);
  const double in_q = largest_difference(q.slice(0, 0, 1), of_head(other.q, e.head));
  const Tensor<float, 4> read = head_with_other_token(e, other);
  const double in_head = largest_difference(of_head(e.activations.heads, e.head), of_head(read, 0));
  return {
      2, in_q > 0 && in_head > 0,
      fmt::format("a head is no slice: features {}..{} would be head {}'s slice, yet adding 1 to feature {} of token 0 "
                  "moves its q by up to {:.4f} and what it reads by up to {:.4f}",
                  number * size.head_dim, (number + 1) * size.head_dim - 1, number, outside, in_q, in_head)};
}

Check score_by_hand(const Explanation& e) {
  double dot = 0;
  const auto q = of_head(e.activations.q, e.head);
  const auto k = of_head(e.activations.k, e.layer.heads().kv_head_of[static_cast<std::size_t>(e.head)]);
  for (index_t d = 0; d < q.shape(1); ++d) dot += static_cast<double>(q(0, d)) * k(0, d);
  const double by_hand = dot * scale_of(e.layer);
  return {3, close(std::abs(by_hand - e.scores(0, 0)), std::abs(by_hand)),
          fmt::format("by hand: dot(q[0], k[0]) = {:+.4f}, times {:.4f} = {:+.4f}; the matrix says {:+.4f}", dot,
                      scale_of(e.layer), by_hand, e.scores(0, 0))};
}

/// The worst of some rows of all maps.
struct Worst {
  double sum = 0;      // |sum of a row - 1|
  double softmax = 0;  // |softmax of the scores, computed plainly - probs|
};

Worst worst_of_row(TensorView<const float, 1> scores, TensorView<const float, 1> probs) {
  double most = scores(0), sum = 0, sum_of_probs = 0;
  for (index_t j = 1; j < scores.shape(0); ++j) most = std::max<double>(most, scores(j));
  std::vector<double> weights(static_cast<std::size_t>(scores.shape(0)));
  for (index_t j = 0; j < scores.shape(0); ++j) {
    const double weight = std::exp(scores(j) - most);
    weights[static_cast<std::size_t>(j)] = weight;
    sum += weight;
    sum_of_probs += probs(j);
  }
  Worst worst{.sum = std::abs(sum_of_probs - 1)};
  for (index_t j = 0; j < scores.shape(0); ++j) {
    worst.softmax = std::max(worst.softmax, std::abs(weights[static_cast<std::size_t>(j)] / sum - probs(j)));
  }
  return worst;
}

/// Rows are taken one by one where all maps have more than 2^22 weights, so that as many are computed at most.
struct CheckedRows {
  static constexpr index_t kMostWeights = index_t{1} << 22;
  index_t count, step;  // 0, step, 2 step ..

  CheckedRows(index_t num_tokens, index_t num_heads)
      : count(std::clamp(kMostWeights / (num_heads * num_tokens), index_t{1}, num_tokens)), step(num_tokens / count) {}
};

std::vector<Check> checks_of_maps(const Explanation& e, Executor* threads) {
  const index_t n = e.num_tokens(), num_heads = e.layer.num_heads();
  const CheckedRows rows(n, num_heads);
  const index_t block = rows.step == 1 ? std::min<index_t>(rows.count, 64) : 1;
  std::vector<Worst> worst(static_cast<std::size_t>(num_heads));
  for (index_t begin = 0; begin < rows.count; begin += block) {
    const index_t end = std::min(begin + block, rows.count);
    const Maps maps = maps_of(e, begin * rows.step, begin * rows.step + (end - begin), threads);
    run_tasks(threads, num_heads, [&](index_t h, int) {
      Worst& all = worst[static_cast<std::size_t>(h)];
      for (index_t i = 0; i < end - begin; ++i) {
        const Worst row = worst_of_row(maps.scores.view()[h][i], maps.probs.view()[0][h][i]);
        all = {std::max(all.sum, row.sum), std::max(all.softmax, row.softmax)};
      }
    });
  }
  Worst all;
  for (const Worst& head : worst) all = {std::max(all.sum, head.sum), std::max(all.softmax, head.softmax)};
  const std::string some = rows.count < n ? fmt::format("{} of ", rows.count * num_heads) : "all ";
  return {
      {4, all.sum < 1e-5,
       fmt::format("{}{} rows of all {} maps sum to 1; farthest off: {:.1e}", some, n * num_heads, num_heads, all.sum)},
      {4, all.softmax < 1e-4,
       fmt::format("softmax of step 3, computed plainly, gives the engine's maps; farthest off: {:.1e}", all.softmax)}};
}

Check same_shape_as_input(const Explanation& e) {
  return {6, e.y.shape() == e.x.shape(),
          fmt::format("y has the shape of X, [{}, {}]: it can be added to it, and the next layer can read it",
                      e.y.shape(1), e.y.shape(2))};
}

/// y = sum_h head_h (W_h^O)^T + b_o: each head writes through its own columns of w_o.
Check sum_of_heads(const Explanation& e, Executor* threads) {
  const nn::MultiHeadExtents& size = e.layer.extents();
  Tensor<float, 2> sum({e.num_tokens(), size.y_width});
  const Tensor<float, 1>& bias = e.layer.parameters().b_o;
  for (index_t i = 0; i < sum.shape(0); ++i) {
    for (index_t f = 0; bias.data() && f < sum.shape(1); ++f) sum(i, f) = bias(f);
  }
  for (index_t h = 0; h < size.num_heads; ++h) {
    matmul(of_head(e.activations.heads, h), e.layer.head(h).w_o, sum.view(), {.accumulate = true, .threads = threads});
  }
  const double worst = largest_difference(sum.view(), e.y.view()[0]);
  return {6, close(worst, largest_magnitude(e.y.view()[0])),
          fmt::format("y is the sum of what each head writes, head_h W_h^O; farthest off: {:.1e}", worst)};
}

}  // namespace

TensorView<const float, 2> of_head(const Tensor<float, 4>& activation, index_t h) {
  return activation.view()[0].permute({1, 0, 2})[h];
}

Maps maps_of(const Explanation& e, index_t begin, index_t end, Executor* threads) {
  const index_t rows = end - begin, num_heads = e.layer.num_heads();
  const std::vector<index_t>& kv_head_of = e.layer.heads().kv_head_of;
  Maps maps{.scores = Tensor<float, 3>({num_heads, rows, e.num_tokens()}),
            .probs = Tensor<float, 4>({1, num_heads, rows, e.num_tokens()})};
  const auto q = e.activations.q.view().slice(1, begin, end);
  Tensor<float, 4> out({1, rows, num_heads, e.activations.v.shape(3)});
  attention_forward({.q = q, .k = e.activations.k.view(), .v = e.activations.v.view()},
                    {.out = out.view(), .probs = maps.probs.view()},
                    {.scale = scale_of(e.layer), .kv_head_of = {kv_head_of.data(), {num_heads}}, .threads = threads});
  const auto scale = static_cast<float>(scale_of(e.layer));
  run_tasks(threads, num_heads, [&](index_t h, int) {
    const TensorView<float, 2> scores = maps.scores.view()[h];
    matmul(q[0].permute({1, 0, 2})[h], of_head(e.activations.k, kv_head_of[static_cast<std::size_t>(h)]), scores);
    for (index_t k = 0; k < scores.size(); ++k) scores.data()[k] *= scale;
  });
  return maps;
}

Explanation explain_layer(const nn::MultiHeadAttention<float>& layer, Tensor<float, 3> x, index_t head,
                          Executor* threads) {
  const index_t n = x.shape(1), shown = std::min(n, kMostShown);
  Explanation e{.origin = {},
                .tokens = {},
                .layer = layer,
                .x = std::move(x),
                .activations = {},
                .y = Tensor<float, 3>({1, n, layer.extents().y_width}),
                .head = head,
                .scores = Tensor<float, 2>({shown, n})};
  const std::array<index_t, 1> heads = {head};
  std::array<index_t, kMostShown> rows{};
  std::iota(rows.begin(), rows.end(), index_t{0});
  Tensor<float, 4> probs({1, 1, shown, n});
  layer.forward(
      {.x_q = e.x.view()}, {.y = e.y.view(), .probs = probs.view()},
      {.attention = {.probs = {.heads = {heads.data(), {1}}, .rows = {rows.data(), {shown}}}, .threads = threads}},
      &e.activations);
  e.probs = Tensor<float, 2>({shown, n});
  std::copy_n(probs.data(), probs.size(), e.probs.data());
  const index_t kv_head = layer.heads().kv_head_of[static_cast<std::size_t>(head)];
  matmul(of_head(e.activations.q, head).slice(0, 0, shown), of_head(e.activations.k, kv_head), e.scores.view());
  const auto scale = static_cast<float>(scale_of(layer));
  for (index_t k = 0; k < e.scores.size(); ++k) e.scores.data()[k] *= scale;
  return e;
}

std::vector<Check> checks_of(const Explanation& e, Executor* threads) {
  const nn::MultiHeadExtents& size = e.layer.extents();
  const index_t n = e.num_tokens();
  std::vector<Check> checks;
  checks.push_back({1, n == static_cast<index_t>(e.tokens.size()),
                    fmt::format("{} tokens give {} rows; attention never changes their number", e.tokens.size(), n)});
  checks.push_back(reads_all_features(e));
  checks.push_back(score_by_hand(e));
  for (const Check& check : checks_of_maps(e, threads)) checks.push_back(check);
  checks.push_back({5, size.num_heads * size.head_dim_v == e.layer.parameters().w_o.shape(1),
                    fmt::format("{} heads x {} = {} columns, as many as W^O has rows", size.num_heads, size.head_dim_v,
                                size.num_heads * size.head_dim_v)});
  checks.push_back(same_shape_as_input(e));
  checks.push_back(sum_of_heads(e, threads));
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
