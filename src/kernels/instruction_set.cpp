#include "kernels/instruction_set.hpp"

#include <atomic>
#include <cctype>
#include <cstdlib>

#include "core/require.hpp"
#include "kernels/kernels.hpp"
#include "multihead/instruction_set.hpp"

namespace multihead {
namespace {

constexpr const char* kVariable = "MULTIHEAD_INSTRUCTION_SET";

std::atomic<std::int64_t> chosen_bit{0};  // 0 = not chosen yet

std::string upper_case(std::string_view text) {
  std::string result(text);
  for (char& c : result) c = static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
  return result;
}

/// Bits of Highway that are compiled in and can run, best first: lower bits are better.
std::vector<std::int64_t> runnable() {
  const std::int64_t bits = hwy::SupportedTargets() & static_cast<std::int64_t>(HWY_TARGETS);
  std::vector<std::int64_t> result;
  for (int bit = 0; bit < 63; ++bit) {
    if ((bits >> bit & 1) != 0) result.push_back(std::int64_t{1} << bit);
  }
  return result;
}

std::int64_t bit_of(std::string_view function, std::string_view variable, std::string_view name) {
  std::string known;
  for (const std::int64_t bit : runnable()) {
    const std::string candidate = upper_case(hwy::TargetName(bit));
    if (candidate == upper_case(name)) return bit;
    known += (known.empty() ? "" : ", ") + candidate;
  }
  throw UnsupportedError(error_text(function, std::string(variable) + " must be an instruction set that can run here",
                                    {{variable, name}}, "known: " + known));
}

}  // namespace

std::int64_t kernels::chosen_target() {
  std::int64_t bit = chosen_bit.load(std::memory_order_relaxed);
  if (bit != 0) return bit;
  const char* const wanted = std::getenv(kVariable);
  const std::int64_t first =
      wanted == nullptr || *wanted == '\0' ? runnable().front() : bit_of("instruction_set", kVariable, wanted);
  return chosen_bit.compare_exchange_strong(bit, first) ? first : bit;  // another thread may have chosen meanwhile
}

std::string instruction_set() {
  const std::string target = kernels::table<float>().target;  // as "N_AVX2"
  return target.substr(target.find('_') + 1);
}

std::vector<std::string> instruction_sets() {
  std::vector<std::string> names;
  for (const std::int64_t bit : runnable()) names.push_back(upper_case(hwy::TargetName(bit)));
  return names;
}

void set_instruction_set(std::string_view name) { chosen_bit.store(bit_of("set_instruction_set", "name", name)); }

}  // namespace multihead
