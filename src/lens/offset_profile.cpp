// profile[o] = mean of p[i, i+o] over the i with 0 <= i+o < S
#include "core/require.hpp"
#include "multihead/lens.hpp"

namespace multihead::lens {

std::vector<double> offset_profile(HeadMap probs, index_t reach) {
  const index_t seqlen = probs.shape(0);
  require(seqlen == probs.shape(1), "offset_profile", "a distance needs as many queries as keys",
          {{"seqlen_q", seqlen}, {"seqlen_kv", probs.shape(1)}});
  require(reach >= 0, "offset_profile", "reach must not be negative", {{"reach", reach}});
  std::vector<double> profile;
  for (index_t offset = -reach; offset <= reach; ++offset) {
    double sum = 0.0;
    index_t pairs = 0;
    for (index_t i = 0; i < seqlen; ++i) {
      if (i + offset < 0 || i + offset >= seqlen) continue;
      sum += probs(i, i + offset);
      ++pairs;
    }
    profile.push_back(pairs == 0 ? 0.0 : sum / static_cast<double>(pairs));
  }
  return profile;
}

}  // namespace multihead::lens
