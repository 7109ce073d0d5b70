#include "bench/problem.hpp"

#include <algorithm>
#include <fstream>
#include <random>
#include <sstream>

#include "multihead/error.hpp"

namespace multihead::bench {
namespace {

template <int R>
Tensor<float, R> random_tensor(std::array<index_t, R> shape, std::mt19937& random) {
  Tensor<float, R> tensor(shape);
  std::normal_distribution<float> normal;
  std::generate_n(tensor.data(), tensor.size(), [&] { return normal(random); });
  return tensor;
}

}  // namespace

std::vector<Line> read_lines(const std::string& file) {
  std::ifstream in(file);
  if (!in) throw Error("read_lines: the file must be readable, got file=\"" + file + "\"");
  std::vector<Line> lines;
  for (std::string text; std::getline(in, text);) {
    if (text.empty() || text[0] == '#') continue;
    std::istringstream words(text);
    Line line;
    words >> line.name;
    for (std::string word; words >> word;) line.words.push_back(word);
    lines.push_back(std::move(line));
  }
  return lines;
}

Shape::Shape(const std::vector<std::string>& words) {
  index_t* const extents[] = {&batch, &seqlen_q, &seqlen_kv, &num_heads, &num_kv_heads, &head_dim};
  for (std::size_t n = 0; n < std::size(extents); ++n) *extents[n] = std::stoll(words.at(n));
  for (std::size_t n = std::size(extents); n < words.size(); ++n) {
    const std::size_t equals = std::min(words[n].find('='), words[n].size());
    options[words[n].substr(0, equals)] = equals < words[n].size() ? words[n].substr(equals + 1) : "";
  }
}

Problem::Problem(const Shape& shape, bool cache_layout, Executor* threads)
    : shape_(shape), cache_layout_(cache_layout) {
  const Shape& s = shape_;
  std::mt19937 random(1);
  const std::array<index_t, 4> q_shape{s.batch, s.seqlen_q, s.num_heads, s.head_dim};
  std::array<index_t, 4> k_shape{s.batch, s.seqlen_kv, s.num_kv_heads, s.head_dim};
  if (cache_layout) std::swap(k_shape[1], k_shape[2]);
  const std::array<index_t, 3> rows{s.batch, s.num_heads, s.seqlen_q};
  q_ = random_tensor<4>(q_shape, random), k_ = random_tensor<4>(k_shape, random),
  v_ = random_tensor<4>(k_shape, random);
  dout_ = random_tensor<4>(q_shape, random);
  out_ = Tensor<float, 4>(q_shape), dq_ = Tensor<float, 4>(q_shape);
  dk_ = Tensor<float, 4>(k_shape), dv_ = Tensor<float, 4>(k_shape);
  row_max_ = Tensor<float, 3>(rows), row_sum_ = Tensor<float, 3>(rows);
  if (s.has("lse")) lse_ = Tensor<float, 3>(rows);
  if (s.has("probs")) probs_ = Tensor<float, 4>({s.batch, s.num_heads, s.seqlen_q, s.seqlen_kv});

  options_.threads = threads;
  if (s.has("causal")) options_.mask.causal = Causal::bottom_right;
  if (s.has("window")) options_.mask.window_left = std::stoll(s.options.at("window"));
  if (s.has("bias")) {
    bias_ = random_tensor<3>({s.options.at("bias") == "heads" ? s.num_heads : 1, s.seqlen_q, s.seqlen_kv}, random);
    options_.bias = bias_.view();
  }
  if (s.has("visible")) {
    visible_ = Tensor<bool, 2>({s.seqlen_q, s.seqlen_kv});
    std::generate_n(visible_.data(), visible_.size(), [&] { return random() % 5 != 0; });
    options_.mask.visible = visible_.view();
  }
  if (s.has("padding")) {  // from half to all of the keys
    seqlen_kv_ = Tensor<index_t, 1>({s.batch});
    const index_t steps = std::max<index_t>(1, s.batch - 1);
    for (index_t b = 0; b < s.batch; ++b) seqlen_kv_(b) = s.seqlen_kv / 2 + s.seqlen_kv / 2 * b / steps;
    options_.mask.seqlen_kv = seqlen_kv_;
  }
}

TensorView<float, 4> Problem::keys(Tensor<float, 4>& tensor) const {
  return cache_layout_ ? tensor.view().permute({0, 2, 1, 3}) : tensor.view();
}

void Problem::forward() {
  const auto if_wanted = [](auto& tensor) { return tensor.data() ? tensor.view() : decltype(tensor.view())(); };
  attention_forward({.q = q_.view(), .k = keys(k_), .v = keys(v_)},
                    {.out = out_.view(),
                     .probs = if_wanted(probs_),
                     .row_max = row_max_.view(),
                     .row_sum = row_sum_.view(),
                     .lse = if_wanted(lse_)},
                    options_);
}

void Problem::backward() {
  attention_backward({.q = q_.view(),
                      .k = keys(k_),
                      .v = keys(v_),
                      .out = out_.view(),
                      .row_max = row_max_.view(),
                      .row_sum = row_sum_.view(),
                      .dout = dout_.view()},
                     {.dq = dq_.view(), .dk = keys(dk_), .dv = keys(dv_)}, options_);
}

double Problem::flops_of_product() const {
  const index_t left = options_.mask.window_left.value_or(shape_.seqlen_kv);
  double pairs = 0;
  for (index_t i = 0; i < shape_.seqlen_q; ++i) {
    const index_t at = i + shape_.seqlen_kv - shape_.seqlen_q;
    const index_t end = shape_.has("causal") ? at + 1 : shape_.seqlen_kv;
    pairs += static_cast<double>(std::max<index_t>(0, end - std::max<index_t>(0, at - left)));
  }
  double sequences = static_cast<double>(shape_.batch);
  if (seqlen_kv_.data()) {
    sequences = 0;
    for (index_t b = 0; b < shape_.batch; ++b)
      sequences += static_cast<double>(seqlen_kv_(b)) / static_cast<double>(shape_.seqlen_kv);
  }
  return 2.0 * sequences * static_cast<double>(shape_.num_heads * shape_.head_dim) * pairs;
}

}  // namespace multihead::bench
