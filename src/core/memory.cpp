// Memory of tensors and workspaces. A block carries its size in front. Large ones that were let go are kept for those
// to come: pages fresh from the system cost more than many a product that is computed in them.

#include <sys/mman.h>

#include <algorithm>
#include <mutex>
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
// Bytes kept at most; none where a sanitizer shall see use after release.
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

// Never destroyed: tensors may outlive any other object. Used under its mutex.
struct KeptBlocks {
  std::mutex mutex;
  Block* blocks[kMostBlocks];  // oldest first
  int count;
  std::size_t bytes;

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

  /// The oldest make room for a block of at most kMostBytes.
  void keep(Block* block) {
    while (count > 0 && (count == kMostBlocks || bytes + block->bytes > kMostBytes)) delete_block(remove(0));
    blocks[count++] = block;
    bytes += block->bytes;
  }
};

constinit KeptBlocks kept{};

}  // namespace

void* allocate(std::size_t bytes) {
  bytes = (bytes + kAlignment - 1) / kAlignment * kAlignment + sizeof(Block);
  Block* block = nullptr;
  if (bytes >= kLarge) {
    std::lock_guard lock(kept.mutex);
    block = kept.take(bytes);
  }
  if (block == nullptr) block = new_block(bytes);
  return block + 1;
}

void release(void* data) noexcept {
  if (data == nullptr) return;
  Block* const block = static_cast<Block*>(data) - 1;
  if (block->bytes < kLarge || block->bytes > kMostBytes) return delete_block(block);
  std::lock_guard lock(kept.mutex);
  kept.keep(block);
}

}  // namespace multihead::detail
