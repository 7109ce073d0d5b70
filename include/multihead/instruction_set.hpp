// Which instruction set the kernels run on.
//
// The library is compiled for several and uses the best that this CPU has. To compare results or speed another one can
// be chosen: by the environment variable MULTIHEAD_INSTRUCTION_SET, read when the first kernel is needed, or by
// set_instruction_set(). Results of different instruction sets differ by rounding; those of one are always the same.
//
// Names are Highway's, in any case: AVX3, AVX3_DL and AVX3_ZEN4 (kinds of AVX-512), AVX2 (with FMA), SSE4, NEON, ..
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "multihead/export.hpp"

namespace multihead {

/// The one that runs now.
/// @throws UnsupportedError  if MULTIHEAD_INSTRUCTION_SET names none of instruction_sets(); so do all functions that
///         compute, until set_instruction_set() has been called
MULTIHEAD_API std::string instruction_set();

/// Those that this library was compiled for and this CPU has, best first.
MULTIHEAD_API std::vector<std::string> instruction_sets();

/// From now on, in all threads; calls that have begun end as they began. It overrides the environment variable.
/// @throws UnsupportedError  if the name is none of instruction_sets(), which the text lists; nothing is changed then
MULTIHEAD_API void set_instruction_set(std::string_view name);

}  // namespace multihead
