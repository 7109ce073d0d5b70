// Checks the arguments of attention and converts them to one form, the Problem, for forward and backward.
#pragma once

#include <algorithm>
#include <cmath>
#include <string_view>

#include "core/require.hpp"
#include "kernels/kernels.hpp"
#include "multihead/attention.hpp"
#include "multihead/tensor.hpp"

namespace multihead {

/// e^(x - max). Also correct if the difference overflows.
template <class T>
T exp_minus(T x, T max) {
  constexpr T kVanishing = sizeof(T) == 8 ? 800 : 200;  // e^-x is 0 for x above this
  return x < max - kVanishing ? T{0} : std::exp(x - max);
}

/// Checked extents and options, shared by forward and backward.
struct Problem {
  const AttentionOptions* options = nullptr;
  index_t batch = 0, num_heads = 0, num_kv_heads = 0, head_dim = 0, head_dim_v = 0;
  index_t seqlen_q = 0, seqlen_kv = 0;  // extents of bias, mask and probs: the padded, or the longest packed lengths
  index_t tokens_q = 0, tokens_kv = 0;  // extents of the token axes of q and of k (rows of all pages)
  bool packed = false;
  bool f64 = false;  // arithmetic type
  double scale = 1;
  index_t lanes = 0;  // queries of a full tile, of the instruction set in use when the call began

  /// The dtype of the arithmetic, and of statistics, probs and the gradients of options.
  DType dtype() const { return f64 ? DType::f64 : DType::f32; }
};

/// One sequence of the batch.
struct Sequence {
  index_t batch_index = 0;              // row of the batch axis of q, k, v, out, row_max, ... (0 when packed)
  index_t q_begin = 0;                  // first token of q, out, row_max, ...
  index_t kv_begin = 0;                 // first token of k, v
  index_t padded_q = 0;                 // rows of out that belong to it
  index_t padded_kv = 0;                // rows of dk, dv that belong to it
  index_t seqlen_q = 0, seqlen_kv = 0;  // valid queries and keys
  index_t diagonal = 0;
};

/// Checks all arguments except the outputs. Error texts begin with `function`.
/// @throws ShapeError, UnsupportedError
Problem check_problem(std::string_view function, const AttentionInput& input, const AttentionOptions& options);

/// Checks a view with one value per row: [B, H, Sq], or [1, H, total_q] if packed, of the arithmetic type, or absent.
void check_row_values(std::string_view function, std::string_view name, const InputView<3>& view,
                      const Problem& problem);

/// Checks a view like q or v with `heads` heads and `width` features, whose last axis must be contiguous.
void check_tokens(std::string_view function, std::string_view name, const InputView<4>& view, index_t batch,
                  index_t tokens, index_t heads, index_t width, std::string_view shape_name, bool f64);

/// Checks that the data pointer is not null if there are elements. The shape has been checked before.
template <class View>
void check_data(std::string_view function, std::string_view name, const View& view) {
  const auto& shape = view.shape();
  require(view.data() != nullptr || std::count(shape.begin(), shape.end(), 0) > 0, function,
          Rule(name, " must not be a null pointer"), {{name, GotShape(shape.data(), static_cast<int>(shape.size()))}},
          "an optional view that is not wanted is left unset");
}

/// Checks that no stride of an output is 0: two indices would have the same address.
void check_writable(std::string_view function, std::string_view name, const index_t* shape, const index_t* stride,
                    int rank);

Sequence sequence_of(const Problem& problem, index_t b);

/// The query heads of each kv head, ascending.
struct HeadGroups {
  Tensor<index_t, 1> heads;  // [H] grouped by kv head
  Tensor<index_t, 1> begin;  // [Hkv + 1]

  explicit HeadGroups(const Problem& problem);
  const index_t* of(index_t g) const { return heads.data() + begin(g); }
  index_t size(index_t g) const { return begin(g + 1) - begin(g); }
};

/// The kernel arguments that forward and backward have in common. num_rows: rows of the kernel call, which decide
/// whether copying keys and values with large strides pays off.
template <class T>
kernels::HeadProblem<T> head_problem_of(const Problem& problem, const AttentionInput& input, const HeadGroups& groups,
                                        const Sequence& sequence, index_t b, index_t g, index_t num_rows);

}  // namespace multihead
