// How many CPUs this process may use.
#pragma once

#include <filesystem>

namespace multihead {

/// CPUs of the calling thread's affinity mask, at most the CPU quota of its control groups; at least 1.
int usable_cpus();

/// The smallest CPU quota of the process's control groups and of those above them (version 2: cpu.max; version 1:
/// cpu.cfs_quota_us and cpu.cfs_period_us), in CPUs, rounded up; 0 without a quota or if it cannot be read.
/// @param root  the folder that contains /proc; mount points found there are relative to it
int cpus_of_quota(const std::filesystem::path& root = "/");

}  // namespace multihead
