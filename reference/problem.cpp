#include "reference/problem.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

#include "reference/philox.hpp"

namespace multihead::reference {

using std::abs;
using std::sqrt;
using std::tanh;

template <class Real>
Problem<Real>::Problem(const InputView<4>& q_view, const InputView<4>& k_view, const InputView<4>& v_view,
                       const AttentionOptions& options)
    : q(read<Real>(q_view)),
      k(read<Real>(k_view)),
      v(read<Real>(v_view)),
      options_(options),
      bias_(read<Real, 4>(options.bias)),
      visible_(read<Real, 4>(options.mask.visible)),
      slopes_(read<Real>(options.alibi_slopes)),
      sinks_(read<Real>(options.sinks)) {
  batch_ = options.packed.cu_seqlens_q ? options.packed.cu_seqlens_q.shape(0) - 1 : q.shape[0];
  scale_ = options.scale ? static_cast<Real>(*options.scale) : 1 / sqrt(static_cast<Real>(head_dim()));
}

template <class Real>
index_t Problem<Real>::num_queries(index_t b) const {
  if (const auto& cu = options_.packed.cu_seqlens_q) return cu(b + 1) - cu(b);
  return options_.mask.seqlen_q ? options_.mask.seqlen_q(b) : q.shape[1];
}

template <class Real>
index_t Problem<Real>::num_keys(index_t b) const {
  if (const auto& cu = options_.packed.cu_seqlens_kv) return cu(b + 1) - cu(b);
  return options_.mask.seqlen_kv ? options_.mask.seqlen_kv(b) : k.shape[1];
}

template <class Real>
index_t Problem<Real>::max_queries() const {
  if (!options_.packed.cu_seqlens_q) return q.shape[1];
  index_t most = 0;
  for (index_t b = 0; b < batch_; ++b) most = std::max(most, num_queries(b));
  return most;
}

template <class Real>
index_t Problem<Real>::max_keys() const {
  if (options_.page_table) return options_.page_table.shape(1) * k.shape[1];
  if (!options_.packed.cu_seqlens_kv) return k.shape[1];
  index_t most = 0;
  for (index_t b = 0; b < batch_; ++b) most = std::max(most, num_keys(b));
  return most;
}

template <class Real>
Place Problem<Real>::query_place(index_t b, index_t i) const {
  if (const auto& cu = options_.packed.cu_seqlens_q) return {0, cu(b) + i};
  return {b, i};
}

template <class Real>
Place Problem<Real>::key_place(index_t b, index_t j) const {
  if (const auto& cu = options_.packed.cu_seqlens_kv) return {0, cu(b) + j};
  if (options_.page_table) return {options_.page_table(b, j / k.shape[1]), j % k.shape[1]};
  return {b, j};
}

template <class Real>
index_t Problem<Real>::kv_head(index_t h) const {
  return options_.kv_head_of ? options_.kv_head_of(h) : h / (num_heads() / k.shape[2]);
}

template <class Real>
index_t Problem<Real>::offset(index_t b) const {
  if (options_.mask.causal == Causal::top_left) return 0;
  if (options_.mask.diagonal_offset) return options_.mask.diagonal_offset(b);
  return num_keys(b) - num_queries(b);
}

// Wide, because an explicit offset may be any number.
template <class Real>
__int128 Problem<Real>::from_diagonal(index_t b, index_t i, index_t j) const {
  return static_cast<__int128>(i) + offset(b) - j;
}

template <class Real>
Real Problem<Real>::distance(index_t b, index_t i, index_t j) const {
  return abs(static_cast<Real>(from_diagonal(b, i, j)));
}

template <class Real>
bool Problem<Real>::visible(index_t b, index_t h, index_t i, index_t j) const {
  const Mask& mask = options_.mask;
  const __int128 before = from_diagonal(b, i, j);  // keys from j to the diagonal; negative beyond it
  if (j >= num_keys(b)) return false;
  if (mask.causal != Causal::off && before < 0) return false;
  if (mask.window_left && before > *mask.window_left) return false;
  if (mask.window_right && -before > *mask.window_right) return false;
  const std::array<index_t, 4> at{b, h, i, j};
  if (mask.visible && visible_.values[visible_.offset(broadcast_index(visible_, at))] == 0) return false;
  return !options_.bias ||
         bias_.values[bias_.offset(broadcast_index(bias_, at))] != -std::numeric_limits<Real>::infinity();
}

template <class Real>
typename Problem<Real>::Score Problem<Real>::score(index_t b, index_t h, index_t i, index_t j) const {
  const Place query = query_place(b, i), key = key_place(b, j);
  const Real* const q_row = &q(query.batch, query.token, h, 0);
  const Real* const k_row = &k(key.batch, key.token, kv_head(h), 0);
  Real dot = 0;
  for (index_t d = 0; d < head_dim(); ++d) dot += q_row[d] * k_row[d];

  Score score{scale_ * dot, 1};
  if (options_.softcap) {
    const Real cap = static_cast<Real>(*options_.softcap);
    const Real t = tanh(score.value / cap);
    score = {cap * t, 1 - t * t};
  }
  if (options_.bias) score.value += bias_.values[bias_.offset(broadcast_index(bias_, {b, h, i, j}))];
  if (options_.alibi_slopes) score.value -= slopes_(h) * distance(b, i, j);
  return score;
}

template <class Real>
bool Problem<Real>::has_sink(index_t h) const {
  return options_.sinks && sinks_(h) != -std::numeric_limits<Real>::infinity();
}

template <class Real>
Real Problem<Real>::dropout_factor(index_t b, index_t h, index_t i, index_t j) const {
  const Dropout& dropout = options_.dropout;
  if (dropout.probability == 0) return 1;
  const index_t id = dropout.sequence_ids ? dropout.sequence_ids(b) : b;
  if (!dropout_keeps(dropout.probability, dropout.seed, id, h, i, j)) return 0;
  return 1 / (1 - static_cast<Real>(dropout.probability));
}

template class Problem<float>;
template class Problem<double>;
template class Problem<long double>;
template class Problem<Rounding<float>>;
template class Problem<Rounding<double>>;

}  // namespace multihead::reference
