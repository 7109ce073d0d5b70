// Memory of tensors and workspaces. A block begins with its size. Freed large blocks are kept for reuse, as getting new
// pages from the operating system often costs more than the product that is computed in them.

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
constexpr std::size_t kLarge = std::size_t{64} << 10;  // smaller blocks are not kept
// Most bytes that are kept; 0 with AddressSanitizer, so that it detects use after release.
constexpr std::size_t kMostBytes = MULTIHEAD_KEEPS_BLOCKS ? std::size_t{64} << 20 : 0;
constexpr int kMostBlocks = 32;

struct alignas(kAlignment) Block {
  std::size_t bytes;  // including this header
  std::size_t alignment;
};

Block* new_block(std::size_t bytes) {
  const std::size_t alignment = bytes >= 2 * kHugePage ? kHugePage : kAlignment;
  void* const memory = ::operator new(bytes, std::align_val_t{alignment});
  if (alignment == kHugePage) madvise(memory, bytes, MADV_HUGEPAGE);  // fewer page walks, if the system permits
  return new (memory) Block{bytes, alignment};
}

void delete_block(Block* block) { ::operator delete(block, std::align_val_t{block->alignment}); }

// Freed blocks. There is no lock: if another thread held it at a fork(), it would stay locked in the child process. A
// block belongs to the thread that took it out of its slot by an atomic exchange. Sizes and times are only hints where
// to look, so a thread that is stopped between two steps leaves at worst a wrong hint.
class KeptBlocks {
 public:
  /// The smallest block that is large enough and at most twice the wanted size; null if there is none.
  Block* take(std::size_t wanted) {
    int best = -1;
    std::size_t best_bytes = 2 * wanted + 1;
    for (int n = 0; n < kMostBlocks; ++n) {
      const std::size_t bytes = slots_[n].bytes.load(std::memory_order_relaxed);
      if (bytes >= wanted && bytes < best_bytes) best = n, best_bytes = bytes;
    }
    Block* const block = best < 0 ? nullptr : remove(best);
    if (block == nullptr || (block->bytes >= wanted && block->bytes <= 2 * wanted)) return block;
    delete_block(block);  // another thread has changed the slot
    return nullptr;
  }

  /// Keeps a block of at most kMostBytes; the oldest ones are freed to make room.
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

  /// Later blocks are not kept.
  void close() {
    closed_.store(true);
    remove_all();
  }

 private:
  struct Slot {
    std::atomic<Block*> block;
    std::atomic<std::size_t> bytes;   // of the block; 0 if the slot is empty
    std::atomic<std::uint64_t> time;  // when the block was put here
  };

  // The hint is cleared first: after the exchange another thread may put a block and its hint here.
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

// Never destroyed, as a tensor may outlive any other object. At the end of the process, or when the shared library that
// contains this code is unloaded, the kept blocks are freed and no more are kept.
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
