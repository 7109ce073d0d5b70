#include "io/temporary_name.hpp"

#include <unistd.h>

#include <atomic>
#include <chrono>

namespace multihead {

std::string temporary_name() {
  static std::atomic<unsigned> count{0};
  const auto now = std::chrono::steady_clock::now().time_since_epoch().count();
  return ".multihead." + std::to_string(::getpid()) + "." + std::to_string(now) + "." + std::to_string(++count);
}

}  // namespace multihead
