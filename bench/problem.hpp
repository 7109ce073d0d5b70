// A line of bench/shapes/*.txt as a call of the library: inputs filled at random, outputs, options.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "multihead/attention.hpp"
#include "multihead/tensor.hpp"

namespace multihead::bench {

struct Line {
  std::string name;
  std::vector<std::string> words;
};

/// @throws Error  if the file cannot be read
std::vector<Line> read_lines(const std::string& file);

/// B Sq Skv H Hkv D options, the latter as masks.txt explains them: "causal", "window=255".
struct Shape {
  explicit Shape(const std::vector<std::string>& words);

  index_t batch = 0, seqlen_q = 0, seqlen_kv = 0, num_heads = 0, num_kv_heads = 0, head_dim = 0;
  std::map<std::string, std::string> options;

  bool has(const char* option) const { return options.contains(option); }
};

class Problem {
 public:
  /// @param cache_layout  k and v lie as [B, Hkv, Skv, D]
  Problem(const Shape& shape, bool cache_layout, Executor* threads);

  void forward();
  /// After a forward.
  void backward();

  /// Of one product over the pairs that the rules of the mask leave.
  double flops_of_product() const;
  double bytes_of_cache() const { return 4.0 * static_cast<double>(k_.size() + v_.size()); }

 private:
  TensorView<float, 4> keys(Tensor<float, 4>& tensor) const;

  Shape shape_;
  bool cache_layout_;
  Tensor<float, 4> q_, k_, v_, out_, probs_, dout_, dq_, dk_, dv_;
  Tensor<float, 3> row_max_, row_sum_, lse_, bias_;
  Tensor<bool, 2> visible_;
  Tensor<index_t, 1> seqlen_kv_;
  AttentionOptions options_;
};

}  // namespace multihead::bench
