// One line of a table of heads.
#include "multihead/lens.hpp"

namespace multihead::lens {

HeadSummary summarise_head(HeadMap probs, TokenFlags special_queries, TokenFlags special_keys, index_t num_links) {
  return {.entropy = mean_entropy(probs),
          .special_share = special_share(probs, special_keys),
          .links = strongest_links(probs, special_queries, special_keys, num_links)};
}

}  // namespace multihead::lens
