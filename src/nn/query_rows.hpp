// Where the queries of each sequence are, for the parts of the layer that handle rows one by one.
#pragma once

#include <algorithm>

#include "multihead/attention_options.hpp"

namespace multihead::nn {

struct QueryRows {
  index_t sequence;      ///< row of `gates` gradients, lengths, ids
  index_t batch;         ///< first index of q
  index_t begin, count;  ///< tokens [begin, begin + count) of that batch entry; query i is begin + i
};

/// Calls visit(QueryRows) for each sequence of q [batch, seqlen_q, ..]: packed, or padded with seqlen_q, or neither.
template <class Visit>
void for_each_sequence(const AttentionOptions& options, index_t batch, index_t seqlen_q, Visit&& visit) {
  if (const auto& cu = options.packed.cu_seqlens_q) {
    for (index_t s = 0; s + 1 < cu.shape(0); ++s) visit(QueryRows{s, 0, cu(s), cu(s + 1) - cu(s)});
    return;
  }
  const auto& lengths = options.mask.seqlen_q;
  for (index_t b = 0; b < batch; ++b) visit(QueryRows{b, b, 0, lengths ? lengths(b) : seqlen_q});
}

/// Number of sequences: of the packed ones, or the batch.
inline index_t num_sequences(const AttentionOptions& options, index_t batch) {
  const auto& cu = options.packed.cu_seqlens_q;
  return cu ? std::max<index_t>(cu.shape(0) - 1, 0) : batch;
}

}  // namespace multihead::nn
