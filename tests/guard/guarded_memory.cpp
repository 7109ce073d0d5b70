#include "tests/guard/guarded_memory.hpp"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <map>
#include <mutex>
#include <new>

#include "core/ceil_div.hpp"
#include "multihead/memory.hpp"

namespace multihead::test {
namespace {

std::atomic<bool> guarding = false;
std::atomic<int> num_guarded = 0;

/// A block: start and size of its pages, null where it is not guarded but only counted, and what was asked for.
struct Pages {
  void* start;
  std::size_t size, bytes;
};
std::mutex mutex;
std::size_t bytes_now = 0, bytes_most = 0;  // under the mutex
std::map<void*, Pages>& guarded() {
  static auto* const map = new std::map<void*, Pages>;  // for ever: the library lets go of its blocks at the very end
  return *map;
}

void count(void* data, const Pages& pages) {
  std::lock_guard lock(mutex);
  guarded()[data] = pages;
  bytes_now += pages.bytes;
  bytes_most = std::max(bytes_most, bytes_now);
}

void* new_guarded(std::size_t bytes, std::size_t alignment) {
  const auto page = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
  const std::size_t used = round_up(bytes, page), size = used + page;
  void* const start = mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (start == MAP_FAILED) throw std::bad_alloc();
  char* const end = static_cast<char*>(start) + used;
  mprotect(end, page, PROT_NONE);
  void* const data = end - round_up(bytes, alignment);
  count(data, {start, size, bytes});
  ++num_guarded;
  return data;
}

void* new_aligned(std::size_t bytes, std::size_t alignment) {
  constexpr std::size_t kLargest = 4096;  // the blocks of larger alignment are those of huge pages
  if (guarding && alignment <= kLargest) return new_guarded(bytes, alignment);
  void* const data = std::aligned_alloc(alignment, round_up(bytes, alignment));
  if (data == nullptr) throw std::bad_alloc();
  if (guarding) count(data, {nullptr, 0, bytes});
  return data;
}

void delete_aligned(void* data) {
  {
    std::lock_guard lock(mutex);
    if (const auto block = guarded().find(data); block != guarded().end()) {
      const Pages pages = block->second;
      bytes_now -= pages.bytes;
      guarded().erase(block);
      if (pages.start == nullptr) std::free(data);
      if (pages.start != nullptr) munmap(pages.start, pages.size);
      return;
    }
  }
  std::free(data);
}

}  // namespace

GuardedMemory::GuardedMemory() {
  release_kept_memory();  // blocks from before would have no page behind them
  {
    std::lock_guard lock(mutex);
    bytes_most = bytes_now = 0;
  }
  guarding = true;
}
GuardedMemory::~GuardedMemory() { guarding = false; }

int GuardedMemory::count() { return num_guarded; }

std::size_t GuardedMemory::most_bytes() {
  std::lock_guard lock(mutex);
  return bytes_most;
}

}  // namespace multihead::test

void* operator new(std::size_t bytes, std::align_val_t alignment) {
  return multihead::test::new_aligned(bytes, static_cast<std::size_t>(alignment));
}
void operator delete(void* data, std::align_val_t) noexcept { multihead::test::delete_aligned(data); }
void operator delete(void* data, std::size_t, std::align_val_t) noexcept { multihead::test::delete_aligned(data); }
