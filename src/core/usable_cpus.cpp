#include "core/usable_cpus.hpp"

#include <sched.h>

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <fstream>
#include <limits>
#include <sstream>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "core/ceil_div.hpp"

namespace multihead {
namespace {

namespace fs = std::filesystem;

int cpus_of_affinity() {
  // The mask must have room for all CPUs that the kernel supports.
  for (std::size_t cpus = CPU_SETSIZE; cpus <= std::size_t{1} << 20; cpus *= 2) {
    std::vector<cpu_set_t> set(ceil_div(cpus, CPU_SETSIZE));
    const std::size_t bytes = set.size() * sizeof(cpu_set_t);
    if (sched_getaffinity(0, bytes, set.data()) == 0) return std::max(1, CPU_COUNT_S(bytes, set.data()));
    if (errno != EINVAL) break;
  }
  return std::max(1, static_cast<int>(std::thread::hardware_concurrency()));
}

std::vector<std::string> split(const std::string& text, char separator) {
  std::vector<std::string> parts;
  std::istringstream stream(text);
  for (std::string part; std::getline(stream, part, separator);) parts.push_back(part);
  return parts;
}

bool contains(const std::vector<std::string>& parts, const std::string& part) {
  return std::find(parts.begin(), parts.end(), part) != parts.end();
}

// mountinfo has spaces and backslashes as \ and three octal digits.
std::string unescape(const std::string& text) {
  std::string result;
  for (std::size_t n = 0; n < text.size(); ++n) {
    const bool escape = text[n] == '\\' && n + 3 < text.size() &&
                        std::all_of(&text[n + 1], &text[n + 4], [](char c) { return c >= '0' && c <= '7'; });
    result += escape ? static_cast<char>(std::stoi(text.substr(n + 1, 3), nullptr, 8)) : text[n];
    if (escape) n += 3;
  }
  return result;
}

// A mounted hierarchy of control groups, whose `group` is visible at `mount_point`.
struct Hierarchy {
  bool version_2;
  fs::path group, mount_point;
};

// Lines of mountinfo: id parent major:minor root mount_point options [optional ..] - type source super_options
std::vector<Hierarchy> hierarchies(const fs::path& root) {
  std::vector<Hierarchy> found;
  std::ifstream file(root / "proc/self/mountinfo");
  for (std::string line; std::getline(file, line);) {
    const std::vector<std::string> fields = split(line, ' ');
    const auto dash = std::find(fields.begin(), fields.end(), "-");
    if (fields.size() < 6 || fields.end() - dash < 4) continue;
    const bool version_2 = dash[1] == "cgroup2";
    if (!version_2 && !(dash[1] == "cgroup" && contains(split(dash[3], ','), "cpu"))) continue;
    found.push_back({version_2, unescape(fields[3]), unescape(fields[4])});
  }
  return found;
}

// The process's own group in the hierarchy. Lines: id:controllers:path, for version 2 0::path
fs::path own_group(const fs::path& root, bool version_2) {
  std::ifstream file(root / "proc/self/cgroup");
  for (std::string line; std::getline(file, line);) {
    const std::size_t first = line.find(':'), second = line.find(':', first + 1);
    if (first == std::string::npos || second == std::string::npos) continue;
    const std::string controllers = line.substr(first + 1, second - first - 1);
    const bool wanted = version_2 ? line.compare(0, 3, "0::") == 0 : contains(split(controllers, ','), "cpu");
    if (wanted) return line.substr(second + 1);
  }
  return {};
}

// The quota in CPUs; infinity if there is none.
double quota_of_group(const fs::path& folder, bool version_2) {
  double quota = 0, period = 0;  // microseconds
  bool read = false;
  if (version_2) {
    std::ifstream file(folder / "cpu.max");  // "150000 100000"; "max 100000": none
    read = static_cast<bool>(file >> quota >> period);
  } else {
    std::ifstream quota_file(folder / "cpu.cfs_quota_us"), period_file(folder / "cpu.cfs_period_us");  // -1: none
    read = quota_file >> quota && period_file >> period;
  }
  return read && quota > 0 && period > 0 ? quota / period : std::numeric_limits<double>::infinity();
}

double smallest_quota(const fs::path& root, const Hierarchy& hierarchy) {
  const fs::path own = own_group(root, hierarchy.version_2);
  fs::path inside = own.lexically_relative(hierarchy.group);    // "." if the mount point is the group of this process
  if (inside.empty() || *inside.begin() == "..") inside = ".";  // outside of the mounted part: use its root
  const fs::path top = root / hierarchy.mount_point.relative_path();
  double smallest = quota_of_group(top, hierarchy.version_2);
  fs::path folder = top;
  for (const fs::path& name : inside) {
    folder /= name;
    smallest = std::min(smallest, quota_of_group(folder, hierarchy.version_2));
  }
  return smallest;
}

}  // namespace

int cpus_of_quota(const fs::path& root) {
  double smallest = std::numeric_limits<double>::infinity();
  for (const Hierarchy& hierarchy : hierarchies(root)) smallest = std::min(smallest, smallest_quota(root, hierarchy));
  constexpr double kMost = std::numeric_limits<int>::max();
  return smallest < kMost ? static_cast<int>(std::ceil(smallest)) : 0;
}

int usable_cpus() {
  const int affinity = cpus_of_affinity(), quota = cpus_of_quota();
  return quota > 0 ? std::min(affinity, quota) : affinity;
}

}  // namespace multihead
