// Statistics of one head, read from its map of probabilities.
//
//   probs [Sq, Skv]   row i: how query i spreads its attention over the keys; sums to 1, or is all zero (no key seen)
//
// Padded queries say nothing: leave their rows out by slicing the view.
#pragma once

#include <optional>
#include <vector>

#include "multihead/tensor_view.hpp"

namespace multihead::lens {

using HeadMap = TensorView<const float, 2>;    ///< probs [Sq, Skv], any strides
using TokenFlags = TensorView<const bool, 1>;  ///< one flag a token; absent = all false

/// Shannon entropy of row i in nats: -sum_j p log p, with 0 log 0 = 0.
MULTIHEAD_API double row_entropy(HeadMap probs, index_t i);

/// Mean row entropy over the rows that see a key; none = no such row. exp() of it is the "effective number of keys".
MULTIHEAD_API std::optional<double> mean_entropy(HeadMap probs);

/// Mean share of a row on the keys that are special tokens, over the rows that see a key; none = no such row.
/// @throws ShapeError  if special_keys is given and its length is not Skv
MULTIHEAD_API std::optional<double> special_share(HeadMap probs, TokenFlags special_keys);

/// One weight of a map.
struct Link {
  index_t query = 0;
  index_t key = 0;
  float prob = 0.0f;
};

/// The `count` largest weights between ordinary tokens (special queries and keys are passed over), largest first;
/// equal ones in the order of their query, then key. Zero weights are never links.
/// @throws ShapeError  if a list of flags is given and its length is not Sq or Skv, or if count < 0
MULTIHEAD_API std::vector<Link> strongest_links(HeadMap probs, TokenFlags special_queries, TokenFlags special_keys,
                                                index_t count);

/// The mean weight at each distance from the query, i.e. on key i + offset for offset = -reach .. reach, each over the
/// queries for which that key exists; 0 where none does. Self-attention only.
/// @throws ShapeError  if Sq != Skv or reach < 0
MULTIHEAD_API std::vector<double> offset_profile(HeadMap probs, index_t reach);

/// How surely ordinary tokens look at ordinary tokens: the mean, over queries that are not special and see a key, of
/// their largest weight on a key that is not special and at least `min_distance` positions away (0 for a query without
/// one); none = no such query, or no such key for any of them.
/// Source: the confidence of Voita et al. 2019, section 4, with special tokens left out on both sides.
/// @throws ShapeError  as strongest_links
MULTIHEAD_API std::optional<double> confidence(HeadMap probs, TokenFlags special_queries, TokenFlags special_keys,
                                               index_t min_distance = 0);

/// What a table says of a head.
struct HeadSummary {
  std::optional<double> entropy;
  std::optional<double> special_share;
  std::vector<Link> links;
};

MULTIHEAD_API HeadSummary summarise_head(HeadMap probs, TokenFlags special_queries, TokenFlags special_keys,
                                         index_t num_links);

}  // namespace multihead::lens
