// MultiHeadAttention with a KvCache: decoding token by token is the full causal forward.
#include <gtest/gtest.h>

#include <cmath>

#include "tests/support/error_text.hpp"
#include "tests/support/layer_problem.hpp"

namespace multihead::nn {
namespace {

using test::error_of;
using test::Random;
using test::random_tensor;
using test::y_of;

MultiHeadConfig decoder() {
  return {.d_model = 16, .num_heads = 4, .num_kv_heads = 2, .q_norm = true, .k_norm = true, .rope = RopeConfig{}};
}

KvCacheShape shape_for(const MultiHeadConfig& config, index_t num_sequences, DType dtype = DType::f32) {
  const MultiHeadExtents e = MultiHeadAttention<float>(config).extents();
  return {num_sequences, e.num_kv_heads, e.head_dim, e.head_dim_v, dtype};
}

template <class T>
MultiHeadOptions<T> causal(KvCache* cache = nullptr) {
  MultiHeadOptions<T> options;
  options.attention.mask.causal = Causal::bottom_right;
  options.cache = cache;
  return options;
}

// Feeds tokens [begin, end) of x and returns y of them.
template <class T>
Tensor<T, 3> feed(const MultiHeadAttention<T>& layer, KvCache& cache, const Tensor<T, 3>& x, index_t begin,
                  index_t end) {
  return y_of<T>(layer, {.x_q = x.view().slice(1, begin, end)}, causal<T>(&cache));
}

template <class T>
double largest_difference(TensorView<const T, 3> a, TensorView<const T, 3> b) {
  double largest = 0;
  for (index_t n = 0; n < a.shape(0); ++n) {
    for (index_t i = 0; i < a.shape(1); ++i) {
      for (index_t d = 0; d < a.shape(2); ++d)
        largest = std::max(largest, std::abs(static_cast<double>(a(n, i, d) - b(n, i, d))));
    }
  }
  return largest;
}

TEST(MultiHeadCache, DecodingIsTheFullForward) {
  const std::uint64_t seed = test::run_seed();
  for (std::uint64_t round = 0; round < 20; ++round) {
    Random random(seed + round);
    MultiHeadConfig config = decoder();
    config.bias_kv = random.chance(0.5);
    config.sinks = random.chance(0.5);
    const auto layer = test::random_layer<double>(config, random);
    const index_t seqlen = random.integer(1, 40);
    const auto x = random_tensor<double, 3>(random, {2, seqlen, 16});
    const Tensor<double, 3> full = y_of(layer, {.x_q = x.view()}, causal<double>());
    const KvCacheShape shape = shape_for(config, 2, DType::f64);
    KvCache cache =
        random.chance(0.5) ? KvCache::contiguous(shape, 40) : KvCache::paged(shape, random.integer(1, 9), 100);
    for (index_t begin = 0, end = 0; begin < seqlen; begin = end) {
      end = std::min(seqlen, begin + random.integer(1, 6));
      const Tensor<double, 3> y = feed(layer, cache, x, begin, end);
      EXPECT_LE((largest_difference<double>(y, full.view().slice(1, begin, end))), 1e-13) << "round " << round;
    }
    EXPECT_EQ(cache.length(1), seqlen);
  }
}

TEST(MultiHeadCache, SequencesOfDifferentLengthsGoTogether) {
  Random random(test::run_seed());
  const auto layer = test::random_layer<double>(decoder(), random);
  const auto x = random_tensor<double, 3>(random, {2, 9, 16});
  const Tensor<double, 3> full = y_of(layer, {.x_q = x.view()}, causal<double>());
  KvCache cache = KvCache::paged(shape_for(decoder(), 2, DType::f64), 4, 8);
  const index_t first[2] = {3, 5};
  MultiHeadOptions<double> options = causal<double>(&cache);
  options.attention.mask.seqlen_q = {first, {2}};
  y_of<double>(layer, {.x_q = x.view().slice(1, 0, 5)}, options);
  EXPECT_EQ(cache.length(0), 3);
  EXPECT_EQ(cache.length(1), 5);
  Tensor<double, 3> next({2, 1, 16});
  std::copy_n(&x(0, 3, 0), 16, &next(0, 0, 0));
  std::copy_n(&x(1, 5, 0), 16, &next(1, 0, 0));
  const Tensor<double, 3> y = y_of<double>(layer, {.x_q = next.view()}, causal<double>(&cache));
  for (index_t d = 0; d < 16; ++d) {
    EXPECT_NEAR(y(0, 0, d), full(0, 3, d), 1e-13);
    EXPECT_NEAR(y(1, 0, d), full(1, 5, d), 1e-13);
  }
}

// Attention case 41: after truncation the next token takes the freed position and matches a fresh run.
TEST(MultiHeadCache, TruncationIsAsIfNeverFed) {
  Random random(test::run_seed());
  const auto layer = test::random_layer<float>(decoder(), random);
  const auto x = random_tensor<float, 3>(random, {1, 6, 16});
  for (KvCache cache = KvCache::paged(shape_for(decoder(), 1), 2, 8); const index_t keep : {2, 0, 1}) {
    cache.truncate_to(0, 0);
    KvCache fresh = KvCache::contiguous(shape_for(decoder(), 1), 8);
    feed(layer, cache, x, 0, 3);
    cache.truncate_to(0, keep);
    if (keep > 0) feed(layer, fresh, x, 0, keep);
    const Tensor<float, 3> a = feed(layer, cache, x, 4, 5), b = feed(layer, fresh, x, 4, 5);
    for (index_t d = 0; d < 16; ++d) EXPECT_EQ(a(0, 0, d), b(0, 0, d));
  }
}

TEST(MultiHeadCache, ForksDecodeOnTheirOwn) {
  Random random(test::run_seed());
  const auto layer = test::random_layer<float>(decoder(), random);
  const auto x = random_tensor<float, 3>(random, {2, 7, 16});
  KvCache cache = KvCache::paged(shape_for(decoder(), 2), 3, 8);
  MultiHeadOptions<float> first_alone = causal<float>(&cache);
  const index_t counts[2] = {4, 0};
  first_alone.attention.mask.seqlen_q = {counts, {2}};
  y_of<float>(layer, {.x_q = x.view().slice(1, 0, 4)}, first_alone);
  cache.fork(0, 1);
  const Tensor<float, 3> y = feed(layer, cache, x, 4, 7);
  Tensor<float, 3> both({2, 7, 16});  // what each sequence has seen in all
  for (index_t b = 0; b < 2; ++b) {
    std::copy_n(&x(0, 0, 0), 4 * 16, &both(b, 0, 0));
    std::copy_n(&x(b, 4, 0), 3 * 16, &both(b, 4, 0));
  }
  const Tensor<float, 3> full = y_of(layer, {.x_q = both.view()}, causal<float>());
  EXPECT_LE((largest_difference<float>(y, full.view().slice(1, 4, 7))), 1e-5);
}

// A ring sees its sinks and the last tokens: the full forward under just that mask. One by one or many at once.
TEST(MultiHeadCache, RingIsAWindowWithSinks) {
  const std::uint64_t seed = test::run_seed();
  for (std::uint64_t round = 0; round < 20; ++round) {
    Random random(seed + round);
    const auto layer = test::random_layer<double>(decoder(), random);
    const index_t seqlen = 24, sinks = random.integer(0, 3), window = random.integer(1, 8);
    const auto x = random_tensor<double, 3>(random, {2, seqlen, 16});
    Tensor<bool, 2> visible({seqlen, seqlen});
    for (index_t i = 0; i < seqlen; ++i) {
      // the ring is full only once sinks + window tokens are there
      for (index_t j = 0; j <= i; ++j) visible(i, j) = j < sinks || j > i - window || i < sinks + window;
    }
    MultiHeadOptions<double> masked;
    masked.attention.mask.visible = visible.view();
    const Tensor<double, 3> full = y_of(layer, {.x_q = x.view()}, masked);
    KvCache cache = KvCache::ring(shape_for(decoder(), 2, DType::f64), sinks, window);
    for (index_t begin = 0, end = 0; begin < seqlen; begin = end) {
      end = std::min(seqlen, begin + random.integer(1, 12));
      const Tensor<double, 3> y = feed(layer, cache, x, begin, end);
      EXPECT_LE((largest_difference<double>(y, full.view().slice(1, begin, end))), 1e-13) << "round " << round;
    }
  }
}

// Halves the memory: no worse than the layer on keys and values that were rounded by hand.
TEST(MultiHeadCache, HalfWidthCachesStayClose) {
  Random random(test::run_seed());
  const auto layer = test::random_layer<float>(decoder(), random);
  const auto x = random_tensor<float, 3>(random, {1, 12, 16});
  const Tensor<float, 3> full = y_of(layer, {.x_q = x.view()}, causal<float>());
  double scale = 0;
  for (index_t n = 0; n < full.size(); ++n) scale = std::max(scale, std::abs(static_cast<double>(full.data()[n])));
  for (const auto& [dtype, epsilon] : {std::pair{DType::bf16, 0x1p-8}, std::pair{DType::f16, 0x1p-11}}) {
    KvCache cache = KvCache::contiguous(shape_for(decoder(), 1, dtype), 12);
    const Tensor<float, 3> y = feed(layer, cache, x, 0, 12);
    const double error = largest_difference<float>(y, full.view());
    EXPECT_LE(error, 16 * epsilon * scale);
    EXPECT_GT(error, 0.0);
  }
}

TEST(MultiHeadCache, CrossAttentionReadsAFilledCache) {
  Random random(test::run_seed());
  const MultiHeadConfig config{.d_model = 8, .num_heads = 2, .k_width = 6, .v_width = 5};
  const auto layer = test::random_layer<double>(config, random);
  const auto x_q = random_tensor<double, 3>(random, {2, 3, 8}), x_k = random_tensor<double, 3>(random, {2, 5, 6}),
             x_v = random_tensor<double, 3>(random, {2, 5, 5});
  const index_t lengths[2] = {5, 2};
  MultiHeadOptions<double> options;
  options.attention.mask.seqlen_kv = {lengths, {2}};
  const Tensor<double, 3> direct = y_of(layer, {x_q.view(), x_k.view(), x_v.view()}, options);
  KvCache cache = KvCache::paged(shape_for(config, 2, DType::f64), 4, 6);
  layer.fill_cache(x_k.view(), x_v.view(), cache, options);
  EXPECT_EQ(cache.length(1), 2);
  const Tensor<double, 3> cached = y_of(layer, {.x_q = x_q.view()}, {.cache = &cache, .append_to_cache = false});
  EXPECT_LE((largest_difference<double>(direct, cached)), 1e-13);
  EXPECT_EQ(cache.length(0), 5);
}

// What is refused leaves the cache as it was.
TEST(MultiHeadCache, RefusesInWordsAndAppendsNothing) {
  Random random(test::run_seed());
  const auto layer = test::random_layer<float>(decoder(), random);
  const auto x = random_tensor<float, 3>(random, {1, 5, 16});
  Tensor<float, 3> y({1, 5, 16});
  KvCache cache = KvCache::contiguous(shape_for(decoder(), 1), 4);
  const auto forward = [&](const MultiHeadOptions<float>& options) {
    layer.forward({.x_q = x.view()}, {.y = y.view()}, options);
  };
  EXPECT_EQ(error_of([&] { forward(causal<float>(&cache)); }),
            "MultiHeadAttention::forward: the tokens must fit into the cache, got sequence=0, length=0, new_tokens=5, "
            "capacity=4");
  KvCache roomy = KvCache::contiguous(shape_for(decoder(), 1), 8);
  MultiHeadOptions<float> options = causal<float>(&roomy);
  options.attention.softcap = -1;
  EXPECT_EQ(error_of([&] { forward(options); }),
            "attention_forward: softcap must be positive and finite, got softcap=-1; leave it unset to turn it off");
  EXPECT_EQ(roomy.length(0), 0);
  EXPECT_EQ(roomy.num_free_pages(), 1);

  const index_t length[1] = {3};
  options = causal<float>(&roomy);
  options.attention.mask.seqlen_kv = {length, {1}};
  EXPECT_EQ(error_of([&] { forward(options); }), "MultiHeadAttention::forward: seqlen_kv must be left to the cache");
  EXPECT_EQ(
      error_of([&] { layer.forward({.x_q = x.view(), .x_k = x.view()}, {.y = y.view()}, causal<float>(&roomy)); }),
      "MultiHeadAttention::forward: x_k and x_v must not go with a cache; fill_cache appends other tokens than "
      "x_q");
  EXPECT_EQ(error_of([&] { forward({.append_to_cache = false}); }),
            "MultiHeadAttention::forward: append_to_cache=false must go with a cache");
  const index_t cu[2] = {0, 5};
  options = causal<float>(&roomy);
  options.attention.packed = {{cu, {2}}, {cu, {2}}};
  EXPECT_EQ(error_of<UnsupportedError>([&] { forward(options); }),
            "MultiHeadAttention::forward: packed sequences must not go with a cache");

  KvCache other = KvCache::contiguous({1, 2, 8, 4, DType::f32}, 8);
  EXPECT_EQ(error_of([&] { forward(causal<float>(&other)); }),
            "MultiHeadAttention::forward: the cache must be [batch, num_kv_heads, head_dim, head_dim_v], got cache=[1, "
            "2, 8, 4], expected=[1, 2, 4, 4]");
  KvCache wide = KvCache::contiguous(shape_for(decoder(), 1, DType::f64), 8);
  EXPECT_EQ(error_of<UnsupportedError>([&] { forward(causal<float>(&wide)); }),
            "MultiHeadAttention::forward: an f64 cache must go with an f64 layer, and only with one, got cache=f64, "
            "layer=f32");
  KvCache ring = KvCache::ring(shape_for(decoder(), 1), 1, 2);
  EXPECT_EQ(error_of<UnsupportedError>([&] { forward({.cache = &ring}); }),
            "MultiHeadAttention::forward: more tokens than a ring has room for must go with Causal::bottom_right and "
            "without bias, visible and probs, got tokens=5, room=3; give one token at a time");

  MultiHeadConfig dropping = decoder();
  dropping.dropout = 0.1;
  options = causal<float>(&roomy);
  options.training = true;
  EXPECT_EQ(error_of<UnsupportedError>(
                [&] { MultiHeadAttention<float>(dropping).forward({.x_q = x.view()}, {.y = y.view()}, options); }),
            "MultiHeadAttention::forward: dropout in training must not go with a cache");
  MultiHeadConfig dynamic = decoder();
  dynamic.rope = RopeConfig{.scaling = RopeScaling::dynamic, .original_max_position = 4};
  EXPECT_EQ(error_of<UnsupportedError>([&] {
              MultiHeadAttention<float>(dynamic).forward({.x_q = x.view()}, {.y = y.view()}, causal<float>(&roomy));
            }),
            "MultiHeadAttention::forward: dynamic rope scaling must not go with a cache; its angles change with the "
            "length, those of cached keys would be stale");
  MultiHeadConfig uneven = decoder();
  uneven.k_width = 3;
  EXPECT_EQ(error_of([&] {
              MultiHeadAttention<float>(uneven).forward({.x_q = x.view()}, {.y = y.view()}, causal<float>(&roomy));
            }),
            "MultiHeadAttention::forward: x_k's last axis must be k_width, got x_k=[1, 5, 16], k_width=3; x_k is x_q "
            "where it is not given");
  EXPECT_EQ(error_of([&] { layer.fill_cache({}, {}, roomy); }), "MultiHeadAttention::fill_cache: x_k must be given");
  EXPECT_EQ(roomy.length(0), 0);
}

}  // namespace
}  // namespace multihead::nn
