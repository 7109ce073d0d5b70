// One attention problem of the tests: a description of sizes and options, and the random tensors that go with it.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "multihead/attention.hpp"
#include "tests/support/any_tensor.hpp"
#include "tests/support/random.hpp"

namespace multihead::test {

enum class Arrangement { bshd, bhsd, gaps, expanded_kv, packed, paged };
enum class Mixture { same, bf16_cache, f16_cache, f32_cache };  ///< dtype of k and v beside that of q; f64 never mixes
enum class Values { centred, offset, peaked };
enum class Scale { unset, negative, zero, large };
enum class Bias { none, full, rank2, per_head, per_query, per_key, with_infinite, lowest };
enum class Visible { none, full, rank2, per_query, per_key };
enum class Lengths { none, kv, q_and_kv };
enum class Offsets { none, given };  ///< with Causal::at_offset they are always given
enum class Sinks { none, given, some_infinite };
enum class KvHeads { equal, one, grouped, mapped };
enum class Probs { none, all, heads, heads_and_rows };

/// Everything that decides a problem but its numbers. Combinations that the library refuses are brought to the nearest
/// allowed one by normalised().
struct AttentionConfig {
  index_t batch = 2, seqlen_q = 5, seqlen_kv = 7, num_heads = 4, head_dim = 8, head_dim_v = 8;
  DType dtype = DType::f32;
  Mixture mixture = Mixture::same;
  Arrangement arrangement = Arrangement::bshd;
  Values values = Values::centred;
  Scale scale = Scale::unset;
  std::optional<double> softcap = {};
  Bias bias = Bias::none;
  DType bias_dtype = DType::f32;  ///< f64 with f64
  bool alibi = false;
  Causal causal = Causal::off;
  Offsets offsets = Offsets::none;
  std::optional<index_t> window_left = {}, window_right = {};
  Visible visible = Visible::none;
  Lengths lengths = Lengths::none;
  Sinks sinks = Sinks::none;
  double dropout = 0;
  KvHeads kv_heads = KvHeads::equal;
  Probs probs = Probs::none;
  bool dlse = false;

  AttentionConfig normalised() const;
  std::string text() const;
};

/// The results of a forward.
struct ForwardResult {
  AnyTensor<4> out, probs;
  AnyTensor<3> row_max, row_sum, lse;
};

/// The results of a backward.
struct BackwardResult {
  AnyTensor<4> dq, dk, dv, dbias;
  AnyTensor<1> dsinks, dslopes;
};

/// An implementation under test.
struct Engine {
  std::function<void(const AttentionInput&, const AttentionOutput&, const AttentionOptions&)> forward;
  std::function<void(const AttentionBackwardInput&, const AttentionGradients&, const AttentionOptions&)> backward;
};

Engine core_engine();
template <class Real>
Engine reference_engine();

class AttentionProblem {
 public:
  AttentionProblem(const AttentionConfig& config, std::uint64_t seed);

  AttentionConfig config;
  AnyTensor<4> q, k, v, bias, visible, dout;
  AnyTensor<3> dlse;
  AnyTensor<1> sinks, slopes;
  std::vector<index_t> cu_q, cu_kv, seqlen_q, seqlen_kv, offsets, sequence_ids, page_table, kv_head_of;
  std::vector<index_t> probs_heads, probs_rows;
  index_t num_kv_heads = 1, pages = 0;  ///< pages of each sequence
  Executor* threads = nullptr;

  /// Queries and keys of sequence b that are present.
  index_t num_queries(index_t b) const;
  index_t num_keys(index_t b) const;

  AttentionInput input() const { return {q.in(), k.in(), v.in()}; }
  AttentionOptions options() const;

  /// Runs the engine into fresh outputs of the problem's dtypes, or all of `dtype`.
  ForwardResult forward(const Engine& engine, std::optional<DType> dtype = {}) const;
  BackwardResult backward(const Engine& engine, const ForwardResult& saved, std::optional<DType> dtype = {}) const;

  DType out_dtype() const { return config.dtype; }
  DType cache_dtype() const;
  DType bias_dtype() const { return config.dtype == DType::f64 ? DType::f64 : config.bias_dtype; }
  /// The dtype of statistics, sinks, slopes, and the gradient of a bias.
  DType wide_dtype() const { return config.dtype == DType::f64 ? DType::f64 : DType::f32; }

 private:
  void lay_out(Random& random);
  void draw_lengths(Random& random);
  void draw_masks(Random& random);
  void draw_numbers(Random& random);
  Layout<4> token_layout() const;
};

}  // namespace multihead::test
