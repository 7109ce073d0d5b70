// The version of the library that is linked or loaded.
#pragma once

#include "multihead/export.hpp"

namespace multihead {

/// For example "0.1.0".
MULTIHEAD_API const char* version();

}  // namespace multihead
