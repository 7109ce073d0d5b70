#include "core/usable_cpus.hpp"

#include <gtest/gtest.h>
#include <sched.h>
#include <stdlib.h>

#include <fstream>
#include <string>

#include "multihead/threads.hpp"

namespace multihead {
namespace {

namespace fs = std::filesystem;

/// A made-up file system that lasts as long as the object.
class Tree {
 public:
  Tree() {
    std::string path = (fs::temp_directory_path() / "multihead-XXXXXX").string();
    root_ = mkdtemp(path.data());
  }
  ~Tree() { fs::remove_all(root_); }

  Tree& file(const std::string& path, const std::string& text) {
    fs::create_directories((root_ / path).parent_path());
    std::ofstream(root_ / path) << text;
    return *this;
  }
  int cpus() const { return cpus_of_quota(root_); }

 private:
  fs::path root_;
};

constexpr auto kVersion2 = "25 1 0:22 / /sys/fs/cgroup rw,nosuid - cgroup2 cgroup2 rw,nsdelegate\n";
constexpr auto kVersion1 = "25 1 0:22 / /sys/fs/cgroup/cpu,cpuacct rw shared:9 - cgroup cgroup rw,cpu,cpuacct\n";

Tree& version_2(Tree& tree, const std::string& group) {
  return tree.file("proc/self/mountinfo", std::string("20 1 8:1 / / rw - ext4 /dev/sda rw\n") + kVersion2)
      .file("proc/self/cgroup", "0::" + group + "\n");
}

Tree& version_1(Tree& tree, const std::string& group) {
  return tree.file("proc/self/mountinfo", kVersion1)
      .file("proc/self/cgroup", "5:cpuset:/other\n4:cpu,cpuacct:" + group + "\n0::/\n");
}

TEST(UsableCpus, NoQuota) {
  Tree empty, unlimited, zero;
  EXPECT_EQ(empty.cpus(), 0);
  EXPECT_EQ(version_2(unlimited, "/").file("sys/fs/cgroup/cpu.max", "max 100000\n").cpus(), 0);
  EXPECT_EQ(version_1(zero, "/")
                .file("sys/fs/cgroup/cpu,cpuacct/cpu.cfs_quota_us", "-1\n")
                .file("sys/fs/cgroup/cpu,cpuacct/cpu.cfs_period_us", "100000\n")
                .cpus(),
            0);
}

TEST(UsableCpus, QuotaIsRoundedUp) {
  const auto cpus = [](const std::string& text) {
    Tree tree;
    return version_2(tree, "/").file("sys/fs/cgroup/cpu.max", text).cpus();
  };
  EXPECT_EQ(cpus("150000 100000\n"), 2);
  EXPECT_EQ(cpus("200000 100000\n"), 2);
  EXPECT_EQ(cpus("1000 100000\n"), 1);
  EXPECT_EQ(cpus("640000 10000\n"), 64);
  EXPECT_EQ(cpus("100000 0\n"), 0);
  EXPECT_EQ(cpus("nonsense\n"), 0);
  EXPECT_EQ(cpus("9000000000000000000 1\n"), 0);
}

TEST(UsableCpus, OwnGroupAndThoseAboveIt) {
  Tree tree;
  version_2(tree, "/a/b/c")
      .file("sys/fs/cgroup/a/cpu.max", "300000 100000\n")
      .file("sys/fs/cgroup/a/b/cpu.max", "max 100000\n")
      .file("sys/fs/cgroup/a/b/c/cpu.max", "500000 100000\n")
      .file("sys/fs/cgroup/other/cpu.max", "100000 100000\n");
  EXPECT_EQ(tree.cpus(), 3);
  tree.file("sys/fs/cgroup/a/b/c/cpu.max", "200000 100000\n");
  EXPECT_EQ(tree.cpus(), 2);
}

TEST(UsableCpus, Version1) {
  Tree tree;
  const std::string group = "sys/fs/cgroup/cpu,cpuacct/docker/x y/";
  version_1(tree, "/docker/x y")
      .file(group + "cpu.cfs_quota_us", "250000\n")
      .file(group + "cpu.cfs_period_us", "50000\n");
  EXPECT_EQ(tree.cpus(), 5);
}

// In a container the mount may show the container's own group while the group's name is that of the host.
TEST(UsableCpus, AMountOfTheOwnGroup) {
  const auto mount = "25 1 0:22 /docker/x\\040y /sys/fs/c\\040g rw - cgroup2 cgroup rw\n";
  Tree same, below, outside;
  const auto cpus = [&](Tree& tree, const std::string& group) {
    tree.file("proc/self/mountinfo", mount).file("proc/self/cgroup", "0::" + group + "\n");
    tree.file("sys/fs/c g/cpu.max", "400000 100000\n").file("sys/fs/c g/sub/cpu.max", "200000 100000\n");
    return tree.cpus();
  };
  EXPECT_EQ(cpus(same, "/docker/x y"), 4);
  EXPECT_EQ(cpus(below, "/docker/x y/sub"), 2);
  EXPECT_EQ(cpus(outside, "/../sub"), 4);
}

TEST(UsableCpus, AffinityOfTheCallingThread) {
  cpu_set_t before;
  ASSERT_EQ(sched_getaffinity(0, sizeof before, &before), 0);
  EXPECT_LE(usable_cpus(), CPU_COUNT(&before));
  cpu_set_t one;
  CPU_ZERO(&one);
  for (int cpu = CPU_SETSIZE; cpu-- > 0;) {
    if (!CPU_ISSET(cpu, &before)) continue;
    CPU_SET(cpu, &one);
    break;
  }
  ASSERT_EQ(sched_setaffinity(0, sizeof one, &one), 0);
  EXPECT_EQ(usable_cpus(), 1);
  EXPECT_EQ(Threads().num_threads(), 1);
  ASSERT_EQ(sched_setaffinity(0, sizeof before, &before), 0);
}

}  // namespace
}  // namespace multihead
