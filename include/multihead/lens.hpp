// Statistics of one head, computed from its attention probabilities.
//
//   probs [Sq, Skv]   row i: probabilities of query i over the keys; they sum to 1, or are all 0 if it sees no key
//
// Rows of padding queries carry no information: exclude them by slicing the view.
#pragma once

#include <optional>
#include <vector>

#include "multihead/tensor_view.hpp"

namespace multihead::lens {

using HeadMap = TensorView<const float, 2>;    ///< probs [Sq, Skv], any strides
using TokenFlags = TensorView<const bool, 1>;  ///< one flag per token; absent = all false

/// Shannon entropy of row i in nats: -sum_j p log p, with 0 log 0 = 0.
MULTIHEAD_API double row_entropy(HeadMap probs, index_t i);

/// Mean row entropy over the rows that see a key; nullopt = no such row. Its exp() is the "effective number of keys".
MULTIHEAD_API std::optional<double> mean_entropy(HeadMap probs);

/// Mean over the rows that see a key of their total probability on special tokens; nullopt = no such row.
/// @throws ShapeError  if special_keys is given and its length is not Skv
MULTIHEAD_API std::optional<double> special_share(HeadMap probs, TokenFlags special_keys);

/// One element of probs.
struct Link {
  index_t query = 0;
  index_t key = 0;
  float prob = 0.0f;
};

/// The `count` largest probabilities between tokens that are not special, largest first; equal ones are ordered by
/// query, then by key. Zeros are left out.
/// @throws ShapeError  if a list of flags is given and its length is not Sq or Skv, or if count < 0
MULTIHEAD_API std::vector<Link> strongest_links(HeadMap probs, TokenFlags special_queries, TokenFlags special_keys,
                                                index_t count);

/// The mean probability of key i + offset over all queries i for which this key exists, one number for each offset =
/// -reach .. reach; 0 if it exists for none. For self-attention only.
/// @throws ShapeError  if Sq != Skv or reach < 0
MULTIHEAD_API std::vector<double> offset_profile(HeadMap probs, index_t reach);

/// How strongly tokens attend to one other token: the mean, over the queries that are not special and see a key, of the
/// largest probability of a key that is not special and at least `min_distance` positions away (0 for a query without
/// such a key); nullopt = there is no such query, or no such key for any of them.
/// Source: the confidence of Voita et al. 2019, section 4, with special tokens left out on both sides.
/// @throws ShapeError  as strongest_links
MULTIHEAD_API std::optional<double> confidence(HeadMap probs, TokenFlags special_queries, TokenFlags special_keys,
                                               index_t min_distance = 0);

/// The statistics of a head that a table lists.
struct HeadSummary {
  std::optional<double> entropy;
  std::optional<double> special_share;
  std::vector<Link> links;
};

MULTIHEAD_API HeadSummary summarise_head(HeadMap probs, TokenFlags special_queries, TokenFlags special_keys,
                                         index_t num_links);

}  // namespace multihead::lens
