// Memory that the library keeps for reuse.
#pragma once

#include <cstddef>

#include "multihead/export.hpp"

namespace multihead {

/// The library keeps freed memory of tensors and workspaces for reuse: blocks of 64 KB or more, at most 32 of them and
/// 64 MB in total. This function gives all of it back to the system and returns the number of bytes. It may be called
/// at any time and from any thread; memory that is freed later is kept again. It is called automatically when the
/// process ends or the shared library is unloaded.
MULTIHEAD_API std::size_t release_kept_memory() noexcept;

}  // namespace multihead
