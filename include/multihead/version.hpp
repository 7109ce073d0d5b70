// The version of the library that a program runs with.
#pragma once

#include "multihead/export.hpp"

namespace multihead {

/// "0.1.0"
MULTIHEAD_API const char* version();

}  // namespace multihead
