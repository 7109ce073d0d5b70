// The largest p[i,j] with neither i nor j special, kept in a heap of `count`: O(Sq Skv log count).
#include <algorithm>

#include "lens/rows.hpp"
#include "multihead/lens.hpp"

namespace multihead::lens {
namespace {

/// True when a is the stronger link; equal weights go by query, then key, so the order is total.
bool stronger(const Link& a, const Link& b) {
  if (a.prob != b.prob) return a.prob > b.prob;
  return a.query != b.query ? a.query < b.query : a.key < b.key;
}

}  // namespace

std::vector<Link> strongest_links(HeadMap probs, TokenFlags special_queries, TokenFlags special_keys, index_t count) {
  constexpr auto kName = "strongest_links";
  require(count >= 0, kName, "count must not be negative", {{"count", count}});
  check_flags(kName, probs, special_queries, special_keys);

  std::vector<Link> links;  // a heap whose front is the weakest link kept
  for (index_t i = 0; count > 0 && i < probs.shape(0); ++i) {
    if (special_queries && special_queries(i)) continue;
    for (index_t j = 0; j < probs.shape(1); ++j) {
      const Link link{i, j, probs(i, j)};
      if (!(link.prob > 0.0f) || (special_keys && special_keys(j))) continue;
      const bool full = static_cast<index_t>(links.size()) == count;
      if (full && !stronger(link, links.front())) continue;
      if (full) {
        std::pop_heap(links.begin(), links.end(), stronger);
        links.pop_back();
      }
      links.push_back(link);
      std::push_heap(links.begin(), links.end(), stronger);
    }
  }
  std::sort_heap(links.begin(), links.end(), stronger);
  return links;
}

}  // namespace multihead::lens
