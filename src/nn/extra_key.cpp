#include "nn/extra_key.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "attention/problem.hpp"
#include "nn/query_rows.hpp"

namespace multihead::nn {
namespace {

// The index of the extra key for dropout: one that no ordinary key has.
constexpr index_t kExtraKeyIndex = index_t{1} << 32;

template <class T>
T dot(const T* a, const T* b, index_t n) {
  T sum = 0;
  for (index_t d = 0; d < n; ++d) sum += a[d] * b[d];
  return sum;
}

// The factor of dropout: 0 or 1/(1-p), or 1 without dropout.
double keep_factor(const Dropout& dropout, index_t sequence, index_t h, index_t i) {
  const double p = dropout.probability;
  if (p == 0) return 1;
  const index_t id = dropout.sequence_ids ? dropout.sequence_ids(sequence) : sequence;
  return dropout_keeps(p, dropout.seed, id, h, i, kExtraKeyIndex) ? 1 / (1 - p) : 0;
}

template <class T>
T extra_score(const ExtraKey<T>& extra, const T* q, index_t g, std::optional<double> softcap) {
  const T s = static_cast<T>(extra.scale) * dot(q, extra.bias_k.view()[g].data(), extra.bias_k.shape(1));
  if (!softcap) return s;
  constexpr T kFar = 20, kMost = std::numeric_limits<T>::max() / kFar;  // tanh is 1 from there on
  const T cap = static_cast<T>(*softcap), far = std::min(cap, kMost) * kFar;
  return cap * std::tanh(std::clamp(s, -far, far) / cap);  // s / cap itself may overflow
}

// The index of each head or row n of `size` among the selected ones, -1 if it is not selected.
std::vector<index_t> selected(const TensorView<const index_t, 1>& selection, index_t size) {
  std::vector<index_t> index(static_cast<std::size_t>(size), -1);
  const index_t count = selection ? selection.shape(0) : size;
  for (index_t n = 0; n < count; ++n) index[static_cast<std::size_t>(selection ? selection(n) : n)] = n;
  return index;
}

}  // namespace

template <class T>
void join_extra_key(const ExtraKey<T>& extra, TensorView<const T, 4> q, const AttentionOptions& options,
                    const ExtraKeyRows<T>& rows) {
  const index_t num_heads = q.shape(2), head_dim_v = extra.bias_v.shape(1);
  const std::vector<index_t> probs_head = selected(options.probs.heads, num_heads);
  const std::vector<index_t> probs_row = selected(options.probs.rows, q.shape(1));
  for_each_sequence(options, q.shape(0), q.shape(1), [&](const QueryRows& s) {
    for (index_t i = 0; i < s.count; ++i) {
      const index_t at = s.begin + i;
      for (index_t h = 0; h < num_heads; ++h) {
        const index_t g = extra.kv_head_of[static_cast<std::size_t>(h)];
        T& row_max = rows.row_max(s.batch, h, at);
        T& row_sum = rows.row_sum(s.batch, h, at);
        const T score = extra_score(extra, q[s.batch][at][h].data(), g, options.softcap);
        const T top = row_sum == 0 || row_max < score ? score : row_max;
        const T others = row_sum == 0 ? T{0} : exp_minus(row_max, top) * row_sum;
        const T own = exp_minus(score, top), sum = others + own;
        const T value_factor = own / sum * static_cast<T>(keep_factor(options.dropout, s.sequence, h, i));
        T* out = rows.out[s.batch][at][h].data();
        const T* bias_v = extra.bias_v.view()[g].data();
        for (index_t d = 0; d < head_dim_v; ++d) out[d] = out[d] * (others / sum) + value_factor * bias_v[d];
        row_max = top;
        row_sum = sum;
        if (rows.probs && probs_head[static_cast<std::size_t>(h)] >= 0 && probs_row[static_cast<std::size_t>(i)] >= 0) {
          const auto probs =
              rows.probs[s.sequence][probs_head[static_cast<std::size_t>(h)]][probs_row[static_cast<std::size_t>(i)]];
          for (index_t j = 0; j < probs.shape(0); ++j) probs(j) *= others / sum;
        }
      }
    }
  });
}

template <class T>
void extra_key_backward(const ExtraKey<T>& extra, TensorView<const T, 4> q, TensorView<const T, 4> dout,
                        const AttentionOptions& options, const ExtraKeyRows<const T>& rows,
                        const ExtraKeyGradients<T>& gradients) {
  const index_t num_heads = q.shape(2), head_dim = q.shape(3), head_dim_v = dout.shape(3);
  for_each_sequence(options, q.shape(0), q.shape(1), [&](const QueryRows& s) {
    for (index_t i = 0; i < s.count; ++i) {
      const index_t at = s.begin + i;
      for (index_t h = 0; h < num_heads; ++h) {
        const index_t g = extra.kv_head_of[static_cast<std::size_t>(h)];
        const T* query = q[s.batch][at][h].data();
        const T* grad = dout[s.batch][at][h].data();
        const T* bias_k = extra.bias_k.view()[g].data();
        const T* bias_v = extra.bias_v.view()[g].data();
        const T score = extra_score(extra, query, g, options.softcap);
        const T p = exp_minus(score, rows.row_max(s.batch, h, at)) / rows.row_sum(s.batch, h, at);
        const T keep = static_cast<T>(keep_factor(options.dropout, s.sequence, h, i));
        const T delta = dot(grad, rows.out[s.batch][at][h].data(), head_dim_v);
        const T slope = options.softcap ? 1 - (score / static_cast<T>(*options.softcap)) *
                                                  (score / static_cast<T>(*options.softcap))
                                        : T{1};
        const T ds = p * (keep * dot(grad, bias_v, head_dim_v) - delta) * slope * static_cast<T>(extra.scale);
        if (gradients.dq) {
          T* dq = gradients.dq[s.batch][at][h].data();
          for (index_t d = 0; d < head_dim; ++d) dq[d] += ds * bias_k[d];
        }
        if (gradients.dbias_k) {
          for (index_t d = 0; d < head_dim; ++d) (*gradients.dbias_k)(g, d) += ds * query[d];
        }
        if (gradients.dbias_v) {
          for (index_t d = 0; d < head_dim_v; ++d) (*gradients.dbias_v)(g, d) += p * keep * grad[d];
        }
      }
    }
  });
}

template void join_extra_key(const ExtraKey<float>&, TensorView<const float, 4>, const AttentionOptions&,
                             const ExtraKeyRows<float>&);
template void join_extra_key(const ExtraKey<double>&, TensorView<const double, 4>, const AttentionOptions&,
                             const ExtraKeyRows<double>&);
template void extra_key_backward(const ExtraKey<float>&, TensorView<const float, 4>, TensorView<const float, 4>,
                                 const AttentionOptions&, const ExtraKeyRows<const float>&,
                                 const ExtraKeyGradients<float>&);
template void extra_key_backward(const ExtraKey<double>&, TensorView<const double, 4>, TensorView<const double, 4>,
                                 const AttentionOptions&, const ExtraKeyRows<const double>&,
                                 const ExtraKeyGradients<double>&);

}  // namespace multihead::nn
