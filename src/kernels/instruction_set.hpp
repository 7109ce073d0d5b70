// The instruction sets that kernels are compiled for, and the one that is used. Included before Highway's headers.
#pragma once

#include <cstddef>
#include <cstdint>

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
