#include "multihead/threads.hpp"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <stdexcept>
#include <thread>
#include <vector>

#include "multihead/error.hpp"
#include "tests/support/error_text.hpp"

namespace multihead {
namespace {

void expect_each_once(Executor* executor, index_t num_tasks) {
  std::vector<std::atomic<int>> calls(static_cast<std::size_t>(num_tasks));
  run_tasks(executor, num_tasks, [&](index_t index, int) { ++calls[static_cast<std::size_t>(index)]; });
  for (index_t n = 0; n < num_tasks; ++n) ASSERT_EQ(calls[static_cast<std::size_t>(n)], 1) << n << " of " << num_tasks;
}

TEST(Threads, RunsEachTaskOnce) {
  for (int num_threads : {1, 2, 5, 16}) {
    Threads threads(num_threads);
    EXPECT_EQ(threads.num_threads(), num_threads);
    for (index_t num_tasks : {0, 1, 2, 3, 7, 1000}) expect_each_once(&threads, num_tasks);
  }
  expect_each_once(nullptr, 17);
}

TEST(Threads, ManyShortJobsBackToBack) {
  Threads threads(4);
  std::atomic<index_t> sum{0};
  for (int job = 0; job < 3000; ++job) threads.run(5, [&](index_t index, int) { sum += index; });
  EXPECT_EQ(sum, 3000 * 10);
}

TEST(Threads, WakesAfterSleep) {
  Threads threads(3);
  expect_each_once(&threads, 50);
  std::this_thread::sleep_for(std::chrono::milliseconds(30));  // longer than the workers spin
  expect_each_once(&threads, 50);
}

// A worker that is on its way to sleep while the pool ends must not sleep on. The window is narrow: the thread
// sanitizer widens it, a plain run rarely meets it.
TEST(Threads, EndsAtAnyMomentOfItsWorkers) {
  for (int round = 0; round < 500; ++round) {
    Threads threads(3);
    if (round % 2 == 0) threads.run(3, [](index_t, int) {});
    for (int wait = 0; wait < round % 50; ++wait) std::atomic_signal_fence(std::memory_order_seq_cst);
  }
}

TEST(Threads, NoTwoTasksShareAWorker) {
  Threads threads(4);
  std::vector<std::atomic<int>> inside(4);
  std::atomic<bool> shared{false};
  threads.run(200, [&](index_t, int worker) {
    if (inside[static_cast<std::size_t>(worker)]++ != 0) shared = true;
    std::this_thread::yield();
    --inside[static_cast<std::size_t>(worker)];
  });
  EXPECT_FALSE(shared);
}

TEST(Threads, RethrowsWhenAllTasksHaveEnded) {
  Threads threads(3);
  std::atomic<int> ended{0};
  EXPECT_THROW(threads.run(40,
                           [&](index_t index, int) {
                             ++ended;
                             if (index == 7) throw std::runtime_error("seven");
                           }),
               std::runtime_error);
  EXPECT_EQ(ended, 40);
  expect_each_once(&threads, 20);
}

TEST(Threads, CallsFromSeveralThreadsQueue) {
  Threads threads(2);
  std::atomic<int> sum{0};
  std::vector<std::thread> callers;
  for (int n = 0; n < 4; ++n) {
    callers.emplace_back([&] {
      for (int job = 0; job < 50; ++job) threads.run(10, [&](index_t, int) { ++sum; });
    });
  }
  for (std::thread& caller : callers) caller.join();
  EXPECT_EQ(sum, 4 * 50 * 10);
}

TEST(Threads, RefusesANegativeNumber) {
  EXPECT_EQ(test::error_of([&] { Threads(-2); }),
            "Threads: num_threads must not be negative, got num_threads=-2; 0 means one for each CPU");
}

}  // namespace
}  // namespace multihead
