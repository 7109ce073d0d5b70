// Memory that the library keeps.
#pragma once

#include <cstddef>

#include "multihead/export.hpp"

namespace multihead {

/// Tensors and workspaces that end leave their memory with the library for those to come: blocks of 64 KB and more, at
/// most 32 of them and 64 MB together. This gives all of it back to the system and returns the bytes given back. It may
/// be called at any time, from any thread; what is released later is kept again. When the process ends, or the shared
/// object that holds the library is unloaded, it happens by itself.
MULTIHEAD_API std::size_t release_kept_memory() noexcept;

}  // namespace multihead
