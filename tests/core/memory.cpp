#include "multihead/memory.hpp"

#include <gtest/gtest.h>

#include <thread>
#include <vector>

#include "multihead/tensor.hpp"

namespace multihead {
namespace {

constexpr index_t kFloats = 1 << 20;  // 4 MB

bool keeps() {
  release_kept_memory();
  Tensor<float, 1>::uninitialized({kFloats});
  return release_kept_memory() > 0;
}

TEST(Memory, WhatIsKeptCanBeGivenBack) {
  if (!keeps()) GTEST_SKIP() << "nothing is kept under an address sanitizer";
  const auto made = [](index_t size) { Tensor<float, 1>::uninitialized({size}); };
  EXPECT_EQ(release_kept_memory(), 0u);
  made(kFloats);
  const std::size_t bytes = release_kept_memory();
  EXPECT_GE(bytes, kFloats * sizeof(float));
  EXPECT_LE(bytes, kFloats * sizeof(float) + 1024);
  EXPECT_EQ(release_kept_memory(), 0u);
  made(1000);  // small ones are not kept
  EXPECT_EQ(release_kept_memory(), 0u);
}

TEST(Memory, ABlockIsUsedAgain) {
  if (!keeps()) GTEST_SKIP() << "nothing is kept under an address sanitizer";
  release_kept_memory();
  for (int n = 0; n < 5; ++n) Tensor<float, 1>::uninitialized({kFloats - n});
  EXPECT_LE(release_kept_memory(), kFloats * sizeof(float) + 1024);
}

TEST(Memory, AtMostSoManyBytesAndBlocks) {
  std::vector<Tensor<float, 1>> tensors;
  for (int n = 0; n < 40; ++n) tensors.push_back(Tensor<float, 1>::uninitialized({kFloats}));
  tensors.clear();
  EXPECT_LE(release_kept_memory(), std::size_t{64} << 20);
  for (int n = 0; n < 40; ++n) tensors.push_back(Tensor<float, 1>::uninitialized({20'000}));
  tensors.clear();
  EXPECT_LE(release_kept_memory(), 32 * (20'000 * sizeof(float) + 1024));
}

// What two threads hold at once is never the same block.
TEST(Memory, ManyThreads) {
  std::vector<std::thread> threads;
  std::vector<int> faults(4);
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      for (int n = 0; n < 2000; ++n) {
        auto a = Tensor<int, 1>::uninitialized({20'000 + 7000 * ((n + t) % 5)});
        a.data()[0] = a.data()[a.size() - 1] = t;
        auto b = Tensor<int, 1>::uninitialized({20'000});
        b.data()[0] = b.data()[b.size() - 1] = -1;
        faults[static_cast<std::size_t>(t)] += a.data()[0] != t || a.data()[a.size() - 1] != t || b.data()[0] != -1;
        if (n % 500 == 0) release_kept_memory();
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(faults, std::vector<int>(4));
  EXPECT_LE(release_kept_memory(), std::size_t{64} << 20);
}

}  // namespace
}  // namespace multihead
