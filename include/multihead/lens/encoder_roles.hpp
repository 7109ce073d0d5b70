// The roles of all heads of an encoder on a corpus.
//
//   variability = sum_x sum_ij |A_x[i,j] - M[i,j]| / (2 sum_x sum_ij A_x[i,j])     M = mean of A_x over segments x
//
// 0: the map depends on positions alone, towards 1: on what stands there (Vig & Belinkov 2019, section 4.2).
#pragma once

#include <functional>
#include <optional>
#include <span>
#include <vector>

#include "multihead/lens/observe.hpp"
#include "multihead/lens/role_labels.hpp"

namespace multihead::lens {

struct EncoderHead {
  index_t layer = 0;
  index_t head = 0;    ///< index within the layer
  index_t number = 0;  ///< original number
  HeadRoles roles;
  std::optional<double> variability = {};  ///< none with fewer than two segments of one length
};

struct EncoderRolesOptions {
  std::uint64_t seed = 1;                    ///< of the resamples behind the intervals
  index_t variability_segments = 32;         ///< at most; they are run a second time. 0 = no variability
  std::span<const Observer> observers = {};  ///< called in the same pass over the text
  /// Segments that have been run, of num_runs().
  std::function<void(index_t done)> progress = {};
  Executor* threads = nullptr;
};

/// Layer by layer.
/// @param repeated  sequences of repeated tokens; may be empty: duplicate and induction are then judged on the text
/// @throws as observe
///
/// Cost    a forward over the text, the repeated sequences and the segments of the variability; O(T^2 + T E Dv) a head
///         and segment beside. Memory  the maps of a few segments, and one more map a head.
/// Threads the same bits for any number.
MULTIHEAD_API std::vector<EncoderHead> encoder_roles(const Encoder& encoder, const Corpus& corpus,
                                                     std::span<const Segment> repeated,
                                                     const EncoderRolesOptions& options = {});

/// How many segments encoder_roles runs in all.
MULTIHEAD_API index_t num_runs(const Corpus& corpus, std::span<const Segment> repeated,
                               const EncoderRolesOptions& options = {});

}  // namespace multihead::lens
