#include "multihead/version.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "command.hpp"
#include "multihead/instruction_set.hpp"
#include "multihead/threads.hpp"

namespace multihead::cli {

std::string version_text() {
  return fmt::format("multihead {}\ninstruction set {} (of {})\nthreads {}\n", version(), instruction_set(),
                     fmt::join(instruction_sets(), ", "), Threads().num_threads());
}

}  // namespace multihead::cli
