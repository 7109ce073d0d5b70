// Weights whose role is known, run through a real layer: positions and tokens are one-hot, so a head does what its
// matrices say.
//
//   features [E = P + 3 V]: position | token | token before | what heads read, as logits of the next token
//   q and k [D = P + V + 1]: position | token | a constant of the query against [CLS] of the key
#include <gtest/gtest.h>

#include "lens/synthetic_heads.hpp"
#include "multihead/matmul.hpp"
#include "multihead/nn/multi_head_attention.hpp"

namespace multihead::lens {
namespace {

constexpr index_t kPlaces = 49, kIds = 40, kHeadDim = kPlaces + kIds + 1;
constexpr index_t kToken = kPlaces, kBefore = kToken + kIds, kLogits = kBefore + kIds, kFeatures = kLogits + kIds;
constexpr index_t kStart = 0;  // the id of [CLS]
constexpr float kSharp = 40.0f;

using Layer = nn::MultiHeadAttention<float>;

Layer make_layer(index_t num_heads) {
  return Layer({.d_model = kFeatures, .num_heads = num_heads, .head_dim = kHeadDim, .head_dim_v = kIds, .scale = 1.0});
}

/// w[row, column] of a block of consecutive features.
void identity(TensorView<float, 2> w, index_t row, index_t column, index_t count, float value, index_t shift = 0) {
  for (index_t n = 0; n + shift < count; ++n) w(row + n + shift, column + n) = value;
}

/// The constant of the query: where nothing else matches, the key [CLS] does.
void look_at_start(nn::HeadView<float> head, float strength) {
  head.b_q(kHeadDim - 1) = strength;
  head.w_k(kHeadDim - 1, kToken + kStart) = 1;
}

/// v = the token at the key; what the head writes goes to features `to` .. `to + V - 1`.
void read_tokens(nn::HeadView<float> head, index_t to, float strength = 1) {
  identity(head.w_v, 0, kToken, kIds, 1);
  identity(head.w_o, to, 0, kIds, strength);
}

void look_at_previous(nn::HeadView<float> head) {
  identity(head.w_q, 0, 0, kPlaces, kSharp);
  identity(head.w_k, 0, 0, kPlaces, 1, 1);  // key j says "j + 1"
}

/// Token i against features `from` of the key, itself left out.
void match_token(nn::HeadView<float> head, index_t from) {
  identity(head.w_q, kPlaces, kToken, kIds, kSharp);
  identity(head.w_k, kPlaces, from, kIds, 1);
  head.w_q(kPlaces + kStart, kToken + kStart) = 0;
  look_at_start(head, kSharp / 2);
}

Tensor<float, 3> embed(const Segment& segment) {
  Tensor<float, 3> x({1, segment.num_tokens(), kFeatures});
  for (index_t i = 0; i < segment.num_tokens(); ++i)
    x(0, i, i) = x(0, i, kToken + segment.ids[static_cast<std::size_t>(i)]) = 1;
  return x;
}

struct Result {
  Tensor<float, 4> probs, heads;  // [1, H, T, T], [1, T, H, Dv]
};

/// x + y goes on to the next layer.
Result run(const Layer& layer, Tensor<float, 3>& x) {
  const index_t tokens = x.shape(1), heads = layer.num_heads();
  Result result{Tensor<float, 4>({1, heads, tokens, tokens}), Tensor<float, 4>({1, tokens, heads, kIds})};
  Tensor<float, 3> y({1, tokens, kFeatures});
  layer.forward({.x_q = x}, {.y = y, .heads = result.heads, .probs = result.probs},
                {.attention = {.mask = {.causal = Causal::top_left}}});
  for (index_t n = 0; n < x.size(); ++n) x.data()[n] += y.data()[n];
  return result;
}

/// [CLS] and 48 tokens; the repeated ones are 24 twice.
std::vector<Segment> segments(bool repeat, test::Random& random) {
  std::vector<Segment> result;
  for (int s = 0; s < 6; ++s) {
    std::vector<index_t> ids;
    for (index_t n = 1; n < kIds; ++n) ids.push_back(n);
    for (std::size_t n = 0; n < ids.size(); ++n) std::swap(ids[n], ids[n + random.bits() % (ids.size() - n)]);
    Segment segment;
    for (index_t t = 0; t < kPlaces; ++t) {
      const index_t id = t == 0   ? kStart
                         : repeat ? ids[static_cast<std::size_t>((t - 1) % 24)]
                                  : random.integer(1, kIds - 1);
      segment.ids.push_back(id);
      segment.tokens.push_back(t == 0 ? "[CLS]" : "word");
      segment.word_ids.emplace_back();
      segment.special.push_back(t == 0 ? 1 : 0);
    }
    result.push_back(std::move(segment));
  }
  return result;
}

std::vector<double> norms(TensorView<const float, 2> x, TensorView<const float, 2> w_o) {  // |x_j w_o^T|
  std::vector<double> result;
  for (index_t j = 0; j < x.shape(0); ++j) {
    double square = 0;
    for (index_t e = 0; e < w_o.shape(0); ++e) {
      double sum = 0;
      for (index_t d = 0; d < w_o.shape(1); ++d) sum += static_cast<double>(x(j, d)) * w_o(e, d);
      square += sum * sum;
    }
    result.push_back(std::sqrt(square));
  }
  return result;
}

/// The heads of two layers, as a model would be judged.
class HandBuilt {
 public:
  HandBuilt(Layer first, Layer second) : layers_{std::move(first), std::move(second)} {
    sums_[0].resize(static_cast<std::size_t>(layers_[0].num_heads()));
    sums_[1].resize(static_cast<std::size_t>(layers_[1].num_heads()));
    repeated_ = sums_;
  }

  void add(const Segment& segment, bool repeated) {
    const TokenFrequencies none = rank_tokens(std::vector<index_t>(kIds));
    const RoleTargets targets(segment, none, {.causal = true});
    Tensor<float, 3> x = embed(segment);
    for (std::size_t l = 0; l < 2; ++l) {
      const Layer& layer = layers_[l];
      const Tensor<float, 3> input = x.clone();
      const Result result = run(layer, x);
      for (index_t h = 0; h < layer.num_heads(); ++h) {
        const auto at = static_cast<std::size_t>(h);
        const HeadMap map = result.probs.view()[0][h];
        if (repeated) {
          repeated_[l][at].add(targets, {.probs = map});
          continue;
        }
        Tensor<float, 2> values({segment.num_tokens(), kIds});
        matmul(input.view()[0], layer.head(h).w_v, values);
        const std::vector<double> value_norms = norms(values, layer.head(h).w_o);
        const std::vector<double> output_norms = norms(result.heads.view()[0].permute({1, 0, 2})[h], layer.head(h).w_o);
        sums_[l][at].add(targets, {.probs = map, .value_norms = value_norms, .output_norms = output_norms});
      }
    }
    last_ = std::move(x);
  }

  HeadRoles roles(std::size_t layer, std::size_t head) const {
    double mean = 0;
    for (const RoleSums& each : sums_[layer]) mean += *each.output_norm() / static_cast<double>(sums_[layer].size());
    return judge_roles({.text = &sums_[layer][head], .repeated = &repeated_[layer][head], .layer_output_norm = mean});
  }

  /// What the last segment's queries have in the features of logits.
  index_t predicted(index_t i) const {
    index_t best = 0;
    for (index_t n = 1; n < kIds; ++n) {
      if (last_(0, i, kLogits + n) > last_(0, i, kLogits + best)) best = n;
    }
    return best;
  }

 private:
  std::array<Layer, 2> layers_;
  std::array<std::vector<RoleSums>, 2> sums_, repeated_;
  Tensor<float, 3> last_;
};

TEST(HandBuiltHeads, AreLabelledExactly) {
  Layer first = make_layer(5);
  look_at_previous(first.head(0)), read_tokens(first.head(0), kBefore);
  match_token(first.head(1), kToken), read_tokens(first.head(1), kLogits, 0.25f);
  for (index_t n = 0; n < kPlaces; ++n) {  // the copy at the query itself: kSharp - kSharp
    first.head(1).w_q(n, n) = kSharp, first.head(1).w_k(n, n) = -1;
  }
  read_tokens(first.head(2), kLogits, 0.25f);                                        // no scores at all
  look_at_start(first.head(3), kSharp), read_tokens(first.head(3), kLogits, 0.25f);  // a sink that writes
  look_at_start(first.head(4), kSharp);                                              // a sink that writes nothing
  Layer second = make_layer(1);
  match_token(second.head(0), kBefore), read_tokens(second.head(0), kLogits);  // keys by the token before them

  test::Random random(test::run_seed());
  HandBuilt model(std::move(first), std::move(second));
  for (const Segment& segment : segments(false, random)) model.add(segment, false);
  const std::vector<Segment> repeated = segments(true, random);
  for (const Segment& segment : repeated) model.add(segment, true);

  EXPECT_EQ(model.roles(0, 0).labels, std::vector{Role::previous});
  EXPECT_EQ(model.roles(0, 1).labels, (std::vector{Role::duplicate, Role::first})) << "it parks where there is no copy";
  EXPECT_EQ(model.roles(0, 2).labels, std::vector{Role::broad});
  EXPECT_EQ(model.roles(0, 3).labels, std::vector{Role::first});
  EXPECT_EQ(model.roles(0, 4).labels, (std::vector{Role::parked, Role::first}));
  EXPECT_EQ(model.roles(1, 0).labels, (std::vector{Role::induction, Role::first}));
  EXPECT_GE(model.roles(0, 0).score(Role::previous)->lift, 0.999);
  EXPECT_GE(model.roles(1, 0).score(Role::induction)->lift, 0.95);
  EXPECT_EQ(model.roles(0, 4).score(Role::parked)->value_share, 0);
  EXPECT_NEAR(*model.roles(0, 3).score(Role::first)->value_share, 1, 1e-6);

  // Copying: what the induction head reads is the token that comes next.
  const std::vector<index_t>& ids = repeated.back().ids;
  for (index_t i = 25; i + 1 < kPlaces; ++i) EXPECT_EQ(model.predicted(i), ids[static_cast<std::size_t>(i + 1)]) << i;
}

}  // namespace
}  // namespace multihead::lens
