// Options and shapes from arbitrary bytes. A call that is valid must agree with the reference; one that is spoilt must
// throw an Error or be valid all the same. Nothing may crash, read beside a view, or overflow.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <limits>

#include "multihead/error.hpp"
#include "multihead/threads.hpp"
#include "tests/support/attention_problem.hpp"
#include "tests/support/edit_view.hpp"

namespace multihead::test {
namespace {

/// The fuzzer's bytes as a stream of choices; zeros after its end.
class Choices {
 public:
  Choices(const std::uint8_t* data, std::size_t size) : data_(data), size_(size) {}

  std::uint8_t byte() { return at_ < size_ ? data_[at_++] : std::uint8_t{0}; }
  /// In [0, count).
  int below(int count) { return byte() % count; }
  template <class Enum>
  Enum any(Enum last) {
    return static_cast<Enum>(below(static_cast<int>(last) + 1));
  }
  template <class T>
  T raw() {
    std::uint64_t bits = 0;
    for (int n = 0; n < 8; ++n) bits = bits << 8 | byte();
    return static_cast<T>(bits);
  }
  bool yes() { return byte() % 2 == 1; }

 private:
  const std::uint8_t* data_;
  std::size_t size_, at_ = 0;
};

AttentionConfig choose_config(Choices& from) {
  AttentionConfig c;
  c.batch = from.below(4);
  c.seqlen_q = from.yes() ? from.below(4) : from.below(70);
  c.seqlen_kv = from.yes() ? from.below(150) : from.yes() ? 1000 + from.below(100) : from.below(6);
  c.num_heads = 1 + from.below(4);
  c.head_dim = 1 + from.below(from.yes() ? 4 : 40);
  c.head_dim_v = 1 + from.below(from.yes() ? 4 : 40);
  if (c.seqlen_kv >= 1000) c.seqlen_q = std::min<index_t>(c.seqlen_q, 9);
  c.dtype = from.any(DType::f16);
  c.mixture = from.any(Mixture::f32_cache);
  c.arrangement = from.any(Arrangement::paged);
  c.values = from.any(Values::peaked);
  c.scale = from.any(Scale::large);
  if (from.yes()) c.softcap = 0.1 + from.byte();
  c.bias = from.any(Bias::lowest);
  c.alibi = from.yes();
  c.causal = from.any(Causal::at_offset);
  c.offsets = from.any(Offsets::given);
  if (from.yes()) c.window_left = from.byte();
  if (from.yes()) c.window_right = from.byte();
  c.visible = from.any(Visible::per_key);
  c.lengths = from.any(Lengths::q_and_kv);
  c.sinks = from.any(Sinks::some_infinite);
  c.dropout = from.yes() ? 0 : from.byte() / 255.0;
  c.kv_heads = from.any(KvHeads::mapped);
  c.probs = from.any(Probs::heads_and_rows);
  c.dlse = from.yes();
  return c;
}

[[noreturn]] void fail(const char* what, const AttentionProblem& problem) {
  std::fprintf(stderr, "%s: %s\n", what, problem.config.text().c_str());
  std::abort();
}

/// Whether two results are the same but for rounding.
template <int R>
void compare(const char* name, const AnyTensor<R>& result, const AnyTensor<R>& truth, const AttentionProblem& problem) {
  if (!result) return;
  if (!result.outside_untouched()) fail(name, problem);
  const auto x = result.values(), t = truth.values();
  double largest = 1;
  for (double value : t) {
    if (std::isfinite(value)) largest = std::max(largest, std::abs(value));
  }
  const double tolerance = (result.dtype() == DType::f64 ? 1e-9 : result.dtype() == DType::f32 ? 5e-3 : 5e-2) * largest;
  for (std::size_t n = 0; n < t.size(); ++n) {
    const bool same = std::isfinite(t[n]) ? std::abs(x[n] - t[n]) <= tolerance
                      : std::isnan(t[n])  ? std::isnan(x[n])
                                          : x[n] == t[n];
    if (!same) fail(name, problem);
  }
}

void check_valid(const AttentionProblem& problem) {
  const ForwardResult result = problem.forward(core_engine());
  const ForwardResult truth = problem.forward(reference_engine<double>(), DType::f64);
  compare("out", result.out, truth.out, problem);
  compare("probs", result.probs, truth.probs, problem);
  compare("lse", result.lse, truth.lse, problem);
  if (problem.config.arrangement == Arrangement::paged) return;
  const BackwardResult gradients = problem.backward(core_engine(), result);
  const BackwardResult true_gradients = problem.backward(reference_engine<double>(), truth, DType::f64);
  compare("dq", gradients.dq, true_gradients.dq, problem);
  compare("dk", gradients.dk, true_gradients.dk, problem);
  compare("dv", gradients.dv, true_gradients.dv, problem);
  compare("dbias", gradients.dbias, true_gradients.dbias, problem);
  compare("dsinks", gradients.dsinks, true_gradients.dsinks, problem);
  compare("dslopes", gradients.dslopes, true_gradients.dslopes, problem);
}

/// Changes one entry of a list, if it has any.
void spoil_list(std::vector<index_t>& list, Choices& from) {
  if (list.empty()) return;
  list[static_cast<std::size_t>(from.byte()) % list.size()] = from.yes() ? from.raw<index_t>() : from.below(20) - 4;
}

/// Changes values of the problem that need not be valid, none of which makes a view larger than its memory.
void spoil(AttentionProblem& problem, AttentionInput& input, AttentionOptions& options, Choices& from) {
  spoil_list(problem.cu_q, from);
  spoil_list(problem.cu_kv, from);
  spoil_list(problem.seqlen_q, from);
  spoil_list(problem.seqlen_kv, from);
  spoil_list(problem.offsets, from);
  spoil_list(problem.page_table, from);
  spoil_list(problem.kv_head_of, from);
  spoil_list(problem.sequence_ids, from);
  spoil_list(problem.probs_heads, from);
  spoil_list(problem.probs_rows, from);
  options = problem.options();
  if (from.yes()) options.mask.window_left = from.raw<index_t>();
  if (from.yes()) options.mask.window_right = from.raw<index_t>();
  if (from.yes()) options.scale = std::ldexp(from.byte() - 128.0, from.byte() - 128);
  if (from.yes()) options.softcap = std::ldexp(from.byte() - 128.0, from.byte() - 128);
  if (from.yes()) options.dropout.probability = from.byte() / 200.0 - 0.1;
  if (from.yes()) options.mask.causal = from.any(Causal::at_offset);
  const auto spoil_view = [&](auto& view) {
    const int axis = from.below(4);
    const DType dtype = from.any(DType::i64);
    switch (from.below(4)) {
      case 0: set_extent(view, axis, std::min<index_t>(view.shape(axis), from.below(9) - 1)); break;
      case 1: set_dtype(view, dtype_bytes(dtype) <= dtype_bytes(view.dtype()) ? dtype : view.dtype()); break;
      case 2: view = {}; break;
      default: break;
    }
  };
  switch (from.below(5)) {
    case 0: spoil_view(input.q); break;
    case 1: spoil_view(input.k); break;
    case 2: spoil_view(input.v); break;
    case 3: spoil_view(options.bias); break;
    default: spoil_view(options.mask.visible);
  }
}

}  // namespace
}  // namespace multihead::test

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace multihead;
  using namespace multihead::test;
  static Threads threads(2);
  Choices from(data, size);
  const bool valid = from.yes();
  AttentionProblem problem(choose_config(from), from.raw<std::uint64_t>());
  if (from.yes()) problem.threads = &threads;
  if (valid) {
    check_valid(problem);
    return 0;
  }
  AttentionInput input = problem.input();
  AttentionOptions options;
  Engine spoilt;
  AttentionProblem changed = problem;
  spoil(changed, input, options, from);
  spoilt.forward = [&](const AttentionInput&, const AttentionOutput& output, const AttentionOptions&) {
    attention_forward(input, output, options);
  };
  spoilt.backward = [&](const AttentionBackwardInput& given, const AttentionGradients& gradients,
                        const AttentionOptions&) {
    AttentionBackwardInput backward = given;
    backward.q = input.q, backward.k = input.k, backward.v = input.v;
    attention_backward(backward, gradients, options);
  };
  try {
    const ForwardResult result = problem.forward(spoilt);
    problem.backward(spoilt, result);
  } catch (const Error&) {
    // Refused in words.
  }
  return 0;
}
