// How the rows of a matrix are shared out to panels of lanes.
#pragma once

#include <algorithm>

#include "multihead/types.hpp"

namespace multihead {

/// The lanes in whole vectors, shared out evenly to panels of up to three: no panel of one vector where two of two do.
struct Panels {
  index_t vectors, vector_lanes, count;

  /// @param lanes      most lanes of a panel
  /// @param of_vector  lanes of a vector
  Panels(index_t num_lanes, index_t lanes, index_t of_vector)
      : vectors((num_lanes + of_vector - 1) / of_vector),
        vector_lanes(of_vector),
        count((num_lanes + lanes - 1) / lanes) {}
  /// First lane of a panel; begin(count) is past the last lane.
  index_t begin(index_t panel) const { return panel * vectors / count * vector_lanes; }
  index_t lanes(index_t panel) const { return begin(panel + 1) - begin(panel); }
  /// Lanes of a panel that hold one of the first `num_lanes` rows.
  index_t live(index_t panel, index_t num_lanes) const { return std::min(lanes(panel), num_lanes - begin(panel)); }
};

}  // namespace multihead
