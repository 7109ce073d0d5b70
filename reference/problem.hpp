// One attention problem in local coordinates [sequence b, head h, query i, key j]: its sizes, what is visible, what a
// score is. Padded, packed and paged inputs differ only in where a token lies.
#pragma once

#include "multihead/attention.hpp"
#include "reference/array.hpp"

namespace multihead::reference {

/// Where a token lies: in q, out, dout and the row statistics for a query; in k and v for a key.
struct Place {
  index_t batch, token;
};

template <class Real>
class Problem {
 public:
  Problem(const InputView<4>& q, const InputView<4>& k, const InputView<4>& v, const AttentionOptions& options);

  index_t batch() const { return batch_; }
  index_t num_heads() const { return q.shape[2]; }
  index_t head_dim() const { return q.shape[3]; }
  index_t head_dim_v() const { return v.shape[3]; }
  Real scale() const { return scale_; }

  /// Present queries and keys of a sequence.
  index_t num_queries(index_t b) const;
  index_t num_keys(index_t b) const;
  /// Extents of the local coordinates: the most queries and keys that a sequence can have.
  index_t max_queries() const;
  index_t max_keys() const;

  Place query_place(index_t b, index_t i) const;
  Place key_place(index_t b, index_t j) const;
  index_t kv_head(index_t h) const;

  bool visible(index_t b, index_t h, index_t i, index_t j) const;
  /// |i + offset_b - j|, the distance that ALiBi speaks of.
  Real distance(index_t b, index_t i, index_t j) const;

  struct Score {
    Real value;  ///< after scale, softcap, bias and ALiBi
    Real slope;  ///< d value / d raw: 1 without softcap
  };
  Score score(index_t b, index_t h, index_t i, index_t j) const;

  /// A sink of -infinity is none.
  bool has_sink(index_t h) const;
  Real sink(index_t h) const { return sinks_(h); }

  /// What dropout multiplies a probability by: 0 or 1 / (1 - p).
  Real dropout_factor(index_t b, index_t h, index_t i, index_t j) const;

  const Array<Real, 4> q, k, v;

 private:
  index_t offset(index_t b) const;
  __int128 from_diagonal(index_t b, index_t i, index_t j) const;

  const AttentionOptions& options_;
  const Array<Real, 4> bias_, visible_;
  const Array<Real, 1> slopes_, sinks_;
  index_t batch_;
  Real scale_;
};

/// An entry of a broadcast array: an axis of extent 1 stands for every index.
template <class Real>
std::array<index_t, 4> broadcast_index(const Array<Real, 4>& array, std::array<index_t, 4> index) {
  for (int axis = 0; axis < 4; ++axis) {
    if (array.shape[axis] == 1) index[axis] = 0;
  }
  return index;
}

}  // namespace multihead::reference
