// Floating-point modes of a thread, to copy them to the worker threads that run its tasks.
#pragma once

#include <cfenv>
#include <cstdint>

namespace multihead {

/// Rounding mode, flush-to-zero, denormals-are-zero, and which exceptions trap. Exception flags are not included: they
/// stay in the thread that raised them.
class FloatingModes {
 public:
  static FloatingModes of_this_thread() {
    FloatingModes modes;
#if defined(__x86_64__)
    modes.mxcsr_ = __builtin_ia32_stmxcsr() & ~kMxcsrFlags;
    asm volatile("fnstcw %0" : "=m"(modes.x87_));  // std::fegetround reads this one
#elif defined(__aarch64__)
    asm volatile("mrs %0, fpcr" : "=r"(modes.fpcr_));
#else
    modes.rounding_ = std::fegetround();
#endif
    return modes;
  }

  void set_in_this_thread() const {
#if defined(__x86_64__)
    __builtin_ia32_ldmxcsr(mxcsr_ | (__builtin_ia32_stmxcsr() & kMxcsrFlags));
    asm volatile("fldcw %0" : : "m"(x87_));
#elif defined(__aarch64__)
    asm volatile("msr fpcr, %0" : : "r"(fpcr_));
#else
    std::fesetround(rounding_);
#endif
  }

  bool operator==(const FloatingModes&) const = default;

 private:
#if defined(__x86_64__)
  static constexpr std::uint32_t kMxcsrFlags = 0x3f;
  std::uint32_t mxcsr_ = 0;
  std::uint16_t x87_ = 0;
#elif defined(__aarch64__)
  std::uint64_t fpcr_ = 0;
#else
  int rounding_ = FE_TONEAREST;
#endif
};

/// Sets modes in this thread; the destructor restores the previous ones.
class FloatingModesScope {
 public:
  explicit FloatingModesScope(const FloatingModes& modes) { change_to(modes); }
  ~FloatingModesScope() { change_to(before_); }
  FloatingModesScope(const FloatingModesScope&) = delete;
  FloatingModesScope& operator=(const FloatingModesScope&) = delete;

 private:
  static void change_to(const FloatingModes& modes) {
    if (FloatingModes::of_this_thread() != modes) modes.set_in_this_thread();  // reading is far cheaper than setting
  }

  const FloatingModes before_ = FloatingModes::of_this_thread();
};

}  // namespace multihead
