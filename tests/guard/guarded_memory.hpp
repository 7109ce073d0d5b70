// While an object of this kind lives, memory that tensors and workspaces ask the system for ends at a page that nobody
// may touch: a read or write behind it ends the program.
#pragma once

#include <cstddef>

namespace multihead::test {

class GuardedMemory {
 public:
  GuardedMemory();
  ~GuardedMemory();
  GuardedMemory(const GuardedMemory&) = delete;
  GuardedMemory& operator=(const GuardedMemory&) = delete;

  /// Blocks that were guarded so far; 0 where the library does not take them from operator new of this program.
  static int count();
  /// The most bytes that were asked for and held at once in this object's life, guarded or not.
  static std::size_t most_bytes();
};

}  // namespace multihead::test
