// The instruction sets that kernels are compiled for, and the one that is used. Included before Highway's headers.
#pragma once

#include <cstddef>
#include <cstdint>

// Vectors of unknown length cannot be members of arrays; their CPUs run the 128-bit targets. SSSE3 has no CPU that
// matters.
#define HWY_DISABLED_TARGETS (HWY_SVE | HWY_SVE2 | HWY_SVE_256 | HWY_SVE2_128 | HWY_RVV | HWY_SSSE3)
#include "hwy/targets.h"

namespace multihead::kernels {

/// Highway's bit of the instruction set in use.
/// @throws UnsupportedError  if MULTIHEAD_INSTRUCTION_SET names none that can run
std::int64_t chosen_target();

/// The function of the instruction set in use, out of the table that HWY_EXPORT makes. Highway's own choice is shared
/// by all libraries of the process; this one is ours.
template <class Function, std::size_t N>
Function chosen(const Function (&functions)[N]) {
  hwy::ChosenTarget target;
  target.Update(chosen_target());
  return functions[N == 1 ? 0 : target.GetIndex()];
}

}  // namespace multihead::kernels
