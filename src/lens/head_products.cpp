#include "multihead/lens/head_products.hpp"

#include "core/require.hpp"
#include "multihead/matmul.hpp"

namespace multihead::lens {

HeadProducts::HeadProducts(index_t features) : sums_({features}), products_({features, features}) {}

void HeadProducts::add(TensorView<const float, 2> z, Executor* threads) {
  const index_t rows = z.shape(0), features = z.shape(1);
  require(features == this->features(), "HeadProducts::add", "z must have the features of the layer",
          {{"features", features}, {"expected", this->features()}});
  if (rows == 0 || features == 0) return;
  auto exact = Tensor<double, 2>::uninitialized({rows, features});
  for (index_t i = 0; i < rows; ++i) {
    for (index_t f = 0; f < features; ++f) {
      exact(i, f) = z(i, f);
      sums_(f) += exact(i, f);
    }
  }
  const TensorView<const double, 2> columns = exact.view().permute({1, 0});
  matmul(columns, columns, products_, {.accumulate = true, .threads = threads});
  num_tokens_ += rows;
}

void HeadProducts::add(const HeadProducts& other) {
  require(other.features() == features(), "HeadProducts::add", "both must have the same features",
          {{"features", other.features()}, {"expected", features()}});
  for (index_t n = 0; n < sums_.size(); ++n) sums_.data()[n] += other.sums_.data()[n];
  for (index_t n = 0; n < products_.size(); ++n) products_.data()[n] += other.products_.data()[n];
  num_tokens_ += other.num_tokens_;
}

std::vector<HeadProducts> make_head_products(const Encoder& encoder) {
  std::vector<HeadProducts> products;
  for (const EncoderLayer& layer : encoder.layers()) {
    const nn::MultiHeadExtents& extents = layer.attention.extents();
    products.emplace_back(extents.num_heads * extents.head_dim_v);
  }
  return products;
}

void add_head_outputs(std::vector<HeadProducts>& products, const ObservedBatch& batch) {
  require(batch.output.heads.size() == products.size(), "add_head_outputs",
          "head_outputs of all layers must be captured",
          {{"layers", batch.output.heads.size()}, {"expected", products.size()}});
  for (std::size_t layer = 0; layer < products.size(); ++layer) {
    const Tensor<float, 4>& outputs = batch.output.heads[layer].outputs;  // [B, S, H, Dv]
    const index_t seqlen = outputs.shape(1), features = products[layer].features();
    require(outputs.shape(2) * outputs.shape(3) == features, "add_head_outputs",
            "the outputs of all heads must be captured",
            {{"features", outputs.shape(2) * outputs.shape(3)}, {"expected", features}});
    if (features == 0) continue;
    // The tokens of all segments without what fills up the shorter ones.
    index_t tokens = 0;
    for (const Segment& segment : batch.segments) tokens += segment.num_tokens();
    auto rows = Tensor<float, 2>::uninitialized({tokens, features});
    float* to = rows.data();
    for (std::size_t b = 0; b < batch.segments.size(); ++b) {
      const float* const from = outputs.data() + static_cast<index_t>(b) * seqlen * features;
      to = std::copy_n(from, batch.segments[b].num_tokens() * features, to);
    }
    products[layer].add(rows, batch.threads);
  }
}

}  // namespace multihead::lens
