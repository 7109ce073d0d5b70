// Memory of tensors and workspaces. A block carries its size in front. Large ones that were let go are kept for those
// to come: pages fresh from the system cost more than many a product that is computed in them.

#include "multihead/memory.hpp"

#include <sys/mman.h>

#include <atomic>
#include <cstdint>
#include <new>

#include "core/ceil_div.hpp"
#include "multihead/tensor.hpp"

#if defined(__SANITIZE_ADDRESS__)
#define MULTIHEAD_KEEPS_BLOCKS 0
#elif defined(__has_feature)
#define MULTIHEAD_KEEPS_BLOCKS !__has_feature(address_sanitizer)
#else
#define MULTIHEAD_KEEPS_BLOCKS 1
#endif

namespace multihead {
namespace detail {
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
  void* const memory = ::operator new(bytes, std::align_val_t{alignment});
  if (alignment == kHugePage) madvise(memory, bytes, MADV_HUGEPAGE);  // fewer page walks, where the system allows
  return new (memory) Block{bytes, alignment};
}

void delete_block(Block* block) { ::operator delete(block, std::align_val_t{block->alignment}); }

// Blocks that were let go. There is no lock, since one that another thread holds at a fork() would be held for ever in
// the child. A block belongs to whoever exchanged it out of its slot; sizes and times are hints that say where to look,
// so a thread that stops between two steps leaves nothing worse than a hint that is wrong.
class KeptBlocks {
 public:
  /// The smallest that is large enough and at least half used; null if there is none.
  Block* take(std::size_t wanted) {
    int best = -1;
    std::size_t best_bytes = 2 * wanted + 1;
    for (int n = 0; n < kMostBlocks; ++n) {
      const std::size_t bytes = slots_[n].bytes.load(std::memory_order_relaxed);
      if (bytes >= wanted && bytes < best_bytes) best = n, best_bytes = bytes;
    }
    Block* const block = best < 0 ? nullptr : remove(best);
    if (block == nullptr || (block->bytes >= wanted && block->bytes <= 2 * wanted)) return block;
    delete_block(block);  // another thread had changed the slot
    return nullptr;
  }

  /// The oldest make room for a block of at most kMostBytes.
  void keep(Block* block) {
    if (closed_.load(std::memory_order_relaxed)) return delete_block(block);
    if (!insert(block)) {
      remove_oldest();
      if (!insert(block)) return delete_block(block);
    }
    while (total_bytes() > kMostBytes && remove_oldest()) {
    }
  }

  std::size_t remove_all() {
    std::size_t bytes = 0;
    for (int n = 0; n < kMostBlocks; ++n) bytes += delete_of_slot(n);
    return bytes;
  }

  /// From now on nothing is kept.
  void close() {
    closed_.store(true);
    remove_all();
  }

 private:
  struct Slot {
    std::atomic<Block*> block;
    std::atomic<std::size_t> bytes;   // of the block; 0 without one
    std::atomic<std::uint64_t> time;  // when it was put here
  };

  // The hint goes first: after the exchange another thread may put a block and its hint here.
  Block* remove(int n) {
    slots_[n].bytes.store(0, std::memory_order_relaxed);
    return slots_[n].block.exchange(nullptr, std::memory_order_acq_rel);
  }

  std::size_t delete_of_slot(int n) {
    Block* const block = remove(n);
    if (block == nullptr) return 0;
    const std::size_t bytes = block->bytes;
    delete_block(block);
    return bytes;
  }

  bool insert(Block* block) {
    const std::size_t bytes = block->bytes;
    for (Slot& slot : slots_) {
      Block* empty = nullptr;
      if (slot.block.load(std::memory_order_relaxed) != nullptr ||
          !slot.block.compare_exchange_strong(empty, block, std::memory_order_acq_rel)) {
        continue;
      }
      slot.time.store(clock_.fetch_add(1, std::memory_order_relaxed), std::memory_order_relaxed);
      slot.bytes.store(bytes, std::memory_order_relaxed);
      return true;
    }
    return false;
  }

  bool remove_oldest() {
    int oldest = -1;
    std::uint64_t oldest_time = 0;
    for (int n = 0; n < kMostBlocks; ++n) {
      if (slots_[n].bytes.load(std::memory_order_relaxed) == 0) continue;
      const std::uint64_t time = slots_[n].time.load(std::memory_order_relaxed);
      if (oldest < 0 || time < oldest_time) oldest = n, oldest_time = time;
    }
    if (oldest < 0) return false;
    delete_of_slot(oldest);
    return true;
  }

  std::size_t total_bytes() const {
    std::size_t bytes = 0;
    for (const Slot& slot : slots_) bytes += slot.bytes.load(std::memory_order_relaxed);
    return bytes;
  }

  Slot slots_[kMostBlocks]{};
  std::atomic<std::uint64_t> clock_{0};
  std::atomic<bool> closed_{false};
};

// Not destroyed: a tensor may outlive any other object. What ends with the process, or with the shared object that this
// code is part of, is the keeping.
constinit KeptBlocks kept;
struct CloseAtEnd {
  ~CloseAtEnd() { kept.close(); }
} close_at_end;

}  // namespace

void* allocate(std::size_t bytes) {
  bytes = round_up(bytes, kAlignment) + sizeof(Block);
  Block* block = nullptr;
  if (bytes >= kLarge) block = kept.take(bytes);
  if (block == nullptr) block = new_block(bytes);
  return block + 1;
}

void release(void* data) noexcept {
  if (data == nullptr) return;
  Block* const block = static_cast<Block*>(data) - 1;
  if (block->bytes < kLarge || block->bytes > kMostBytes) return delete_block(block);
  kept.keep(block);
}

}  // namespace detail

std::size_t release_kept_memory() noexcept { return detail::kept.remove_all(); }

}  // namespace multihead
