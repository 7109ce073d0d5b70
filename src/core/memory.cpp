// Memory of tensors and workspaces. A block carries its size in front. Large ones that a thread lets go it keeps for
// its next ones: pages fresh from the system cost more than many a product that is computed in them.

#include <sys/mman.h>

#include <algorithm>
#include <new>

#include "multihead/tensor.hpp"

#if defined(__SANITIZE_ADDRESS__)
#define MULTIHEAD_KEEPS_BLOCKS 0
#elif defined(__has_feature)
#define MULTIHEAD_KEEPS_BLOCKS !__has_feature(address_sanitizer)
#else
#define MULTIHEAD_KEEPS_BLOCKS 1
#endif

namespace multihead::detail {
namespace {

constexpr std::size_t kAlignment = 64;
constexpr std::size_t kHugePage = std::size_t{2} << 20;
constexpr std::size_t kLarge = std::size_t{64} << 10;  // what is smaller is left to the system
// Bytes a thread keeps; none where a sanitizer shall see use after release.
constexpr std::size_t kMostBytes = MULTIHEAD_KEEPS_BLOCKS ? std::size_t{64} << 20 : 0;
constexpr int kMostBlocks = 32;

struct alignas(kAlignment) Block {
  std::size_t bytes;  // with this header
  std::size_t alignment;
};

Block* new_block(std::size_t bytes) {
  const std::size_t alignment = bytes >= 2 * kHugePage ? kHugePage : kAlignment;
  void* const memory = ::operator new (bytes, std::align_val_t{alignment});
  if (alignment == kHugePage) madvise(memory, bytes, MADV_HUGEPAGE);  // fewer page walks, where the system allows
  return new (memory) Block{bytes, alignment};
}

void delete_block(Block* block) { ::operator delete (block, std::align_val_t{block->alignment}); }

// Trivially destructible, so that tensors which outlive it can still ask.
struct KeptBlocks {
  Block* blocks[kMostBlocks];  // oldest first
  int count;
  std::size_t bytes;
  bool closed;

  Block* remove(int index) {
    Block* const block = blocks[index];
    std::copy(blocks + index + 1, blocks + count, blocks + index);
    --count;
    bytes -= block->bytes;
    return block;
  }

  /// The smallest that is large enough and at least half used; null if there is none.
  Block* take(std::size_t wanted) {
    int best = -1;
    for (int n = 0; n < count; ++n) {
      if (blocks[n]->bytes < wanted || blocks[n]->bytes / 2 > wanted) continue;
      if (best < 0 || blocks[n]->bytes < blocks[best]->bytes) best = n;
    }
    return best < 0 ? nullptr : remove(best);
  }

  /// False if it may not be kept. The oldest make room.
  bool keep(Block* block) {
    if (closed || block->bytes > kMostBytes) return false;
    while (count > 0 && (count == kMostBlocks || bytes + block->bytes > kMostBytes)) delete_block(remove(0));
    blocks[count++] = block;
    bytes += block->bytes;
    return true;
  }

  void close() {
    closed = true;
    while (count > 0) delete_block(remove(0));
  }
};

constinit thread_local KeptBlocks kept{};

struct CloseAtExit {
  ~CloseAtExit() { kept.close(); }
};

}  // namespace

void* allocate(std::size_t bytes) {
  bytes = (bytes + kAlignment - 1) / kAlignment * kAlignment + sizeof(Block);
  Block* block = bytes >= kLarge ? kept.take(bytes) : nullptr;
  if (block == nullptr) block = new_block(bytes);
  return block + 1;
}

void release(void* data) noexcept {
  if (data == nullptr) return;
  thread_local CloseAtExit at_exit;
  static_cast<void>(&at_exit);
  Block* const block = static_cast<Block*>(data) - 1;
  if (block->bytes < kLarge || !kept.keep(block)) delete_block(block);
}

}  // namespace multihead::detail
