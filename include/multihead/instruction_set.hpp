// Which instruction set the kernels use.
//
// The kernels are compiled for several and use the best one that this CPU has. To compare results or speed, another can
// be chosen: by the environment variable MULTIHEAD_INSTRUCTION_SET, read when the first kernel is needed, or by
// set_instruction_set(). Results of two instruction sets differ by rounding; those of one are always bit-identical.
//
// Names are those of Highway, in any case: AVX3, AVX3_DL, AVX3_ZEN4 (variants of AVX-512), AVX2 (with FMA), SSE4, ...
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "multihead/export.hpp"

namespace multihead {

/// The name of the instruction set in use.
/// @throws UnsupportedError  if MULTIHEAD_INSTRUCTION_SET names none of instruction_sets(); all functions that compute
///         throw it too, until set_instruction_set() has been called
MULTIHEAD_API std::string instruction_set();

/// The instruction sets that the library was compiled for and this CPU has, best first.
MULTIHEAD_API std::vector<std::string> instruction_sets();

/// Chooses it for all later calls of all threads, in place of the environment variable. Running calls do not change.
/// @throws UnsupportedError  if the name is none of instruction_sets(), which the text lists; nothing is changed then
MULTIHEAD_API void set_instruction_set(std::string_view name);

}  // namespace multihead
