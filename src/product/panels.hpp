// The division of the rows of a matrix into panels of lanes, and of products into tasks.
#pragma once

#include <algorithm>

#include "core/ceil_div.hpp"
#include "multihead/types.hpp"

namespace multihead {

// Measured in docs/ladder.md, "Layer and projections".
constexpr index_t kPanelDepth = 1536;  // k of a panel at a time: 24 x 1536 f32 are 144 KB, read in order from the L2
constexpr index_t kProductTasksPerWorker = 8;  // few, so that each is long, but enough to end together

/// Divides lanes evenly into panels of one to three whole vectors: four vectors become 2 + 2, not 3 + 1.
struct Panels {
  index_t vectors, vector_lanes, count;

  /// @param lanes      most lanes of a panel
  /// @param of_vector  lanes of a vector
  Panels(index_t num_lanes, index_t lanes, index_t of_vector)
      : vectors(ceil_div(num_lanes, of_vector)), vector_lanes(of_vector), count(ceil_div(num_lanes, lanes)) {}
  /// First lane of a panel; begin(count) is past the last lane.
  index_t begin(index_t panel) const { return panel * vectors / count * vector_lanes; }
  index_t lanes(index_t panel) const { return begin(panel + 1) - begin(panel); }
  /// Lanes of a panel that hold one of the first `num_lanes` rows.
  index_t live(index_t panel, index_t num_lanes) const { return std::min(lanes(panel), num_lanes - begin(panel)); }
};

}  // namespace multihead
