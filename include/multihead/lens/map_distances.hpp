// How far apart the attention maps of heads are.
//
//   J_ij = mean over queries q of JS(A_i[q], A_j[q])      in bits: 0 for equal maps, 1 for maps without a common key
//   JS(a, b) = H((a + b) / 2) - (H(a) + H(b)) / 2         H: entropy
//
// sqrt(JS) is a metric (Endres & Schindelin 2003); heads look alike by 1 - sqrt(J). Maps say where a head looks, not
// what it writes. Clark et al. 2019 (section 6) use the sum over queries in nats, of rows smoothed by 0.999 a + 0.001 /
// n.
//
// The logarithm is a polynomial in f32 (relative error 5e-7); J has an absolute error of about 1e-6, and none for equal
// maps.
#pragma once

#include <optional>
#include <span>

#include "multihead/lens.hpp"
#include "multihead/tensor.hpp"
#include "multihead/threads.hpp"

namespace multihead::lens {

class MULTIHEAD_API MapDistances {
 public:
  /// @param num_heads  N
  explicit MapDistances(index_t num_heads);

  /// @param maps     [N], of the same queries and keys [Sq, Skv]; rows sum to 1, or are 0 in all maps
  /// @param queries  the rows that count, each in [0, Sq); unset = all
  /// @throws ShapeError  if there are not N maps of one shape, or a query is out of range
  ///
  /// Cost    N (N - 1) / 2 * queries * Skv logarithms of about 1 ns. Memory  N * queries * Skv floats.
  /// Threads the same bits for any number.
  void add(std::span<const HeadMap> maps, std::optional<std::span<const index_t>> queries = {},
           Executor* threads = nullptr);

  /// Adds the queries that another has seen.
  /// @throws ShapeError  if N is another
  void add(const MapDistances& other);

  index_t num_queries() const { return num_queries_; }

  /// J [N, N], symmetric; 0 without a query.
  Tensor<double, 2> mean() const;

 private:
  index_t num_queries_ = 0;
  Tensor<double, 2> sums_;  // above the diagonal
};

}  // namespace multihead::lens
