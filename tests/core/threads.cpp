#include "multihead/threads.hpp"

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "multihead/error.hpp"
#include "tests/support/child_process.hpp"
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

TEST(Threads, CallsFromSeveralThreadsAtOnce) {
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

// A call that finds the workers taken runs its tasks itself; two calls that each need the other to go on both do.
TEST(Threads, CallsDoNotWaitForEachOther) {
  EXPECT_EQ(test::end_of_child([] {
              Threads threads(3);
              std::atomic<int> inside{0};
              const auto meet = [&](index_t index, int) {
                if (index == 0) ++inside;
                while (inside != 2) std::this_thread::yield();
              };
              std::thread other([&] { threads.run(2, meet); });
              threads.run(2, meet);
              other.join();
            }),
            "exit 0");
}

// The tasks of the innermost of `depth` nested calls.
void run_nested(Executor* executor, int depth, std::atomic<int>& count) {
  if (depth == 0) {
    ++count;
    return;
  }
  run_tasks(executor, 3, [&](index_t, int) { run_nested(executor, depth - 1, count); });
}

TEST(Threads, ATaskMayUseThePoolThatRunsIt) {
  EXPECT_EQ(test::end_of_child([] {
              for (int num_threads : {1, 2, 4}) {
                Threads threads(num_threads);
                std::atomic<int> count{0};
                run_nested(&threads, 4, count);
                if (count != 81) _exit(1);
                threads.run(4, [&](index_t, int) {
                  const auto outer = std::this_thread::get_id();
                  threads.run(5, [&](index_t, int) {
                    if (std::this_thread::get_id() != outer) _exit(2);
                  });
                });
              }
            }),
            "exit 0");
}

TEST(Threads, PoolsMayUseEachOther) {
  EXPECT_EQ(test::end_of_child([] {
              Threads a(2), b(3);
              std::atomic<int> count{0};
              const auto cross = [&](Threads& first, Threads& second) {
                for (int round = 0; round < 100; ++round) {
                  first.run(3, [&](index_t, int) {
                    second.run(3, [&](index_t, int) { first.run(2, [&](index_t, int) { ++count; }); });
                  });
                }
              };
              std::thread other([&] { cross(b, a); });
              cross(a, b);
              other.join();
              if (count != 2 * 100 * 18) _exit(1);
            }),
            "exit 0");
}

TEST(Threads, AThreadOfATaskMayUseThePool) {
  EXPECT_EQ(test::end_of_child([] {
              Threads threads(2);
              std::atomic<int> count{0};
              threads.run(2, [&](index_t, int) {
                std::thread([&] { threads.run(2, [&](index_t, int) { ++count; }); }).join();
              });
              if (count != 4) _exit(1);
            }),
            "exit 0");
}

TEST(Threads, ANestedExceptionPassesThrough) {
  EXPECT_EQ(test::end_of_child([] {
              Threads threads(3);
              std::atomic<int> ended{0};
              const auto inner = [&](index_t index, int) {
                ++ended;
                if (index == 2) throw std::runtime_error("two");
              };
              const auto outer = [&](index_t, int) { threads.run(5, inner); };
              for (int round = 0; round < 20; ++round) {
                try {
                  threads.run(4, outer);
                  _exit(1);
                } catch (const std::runtime_error&) {
                }
              }
              if (ended != 20 * 4 * 5) _exit(2);
            }),
            "exit 0");
}

TEST(Threads, WaitsForATaskThatIsLongerThanItSpins) {
  Threads threads(2);
  for (int round = 0; round < 3; ++round) {
    std::atomic<int> inside{0};
    std::atomic<int> ended{0};
    threads.run(2, [&](index_t, int worker) {
      ++inside;
      while (inside != 2) std::this_thread::yield();
      if (worker == 1) std::this_thread::sleep_for(std::chrono::milliseconds(20));
      ++ended;
    });
    EXPECT_EQ(ended, 2);
  }
}

// A task of a pool that lives until the process ends may end it, in whichever thread it runs.
TEST(Threads, ATaskMayEndTheProcess) {
  for (const int ending : {0, 1}) {
    EXPECT_EQ(test::end_of_child([&] {
                static Threads threads(2);
                std::atomic<int> inside{0};
                threads.run(2, [&](index_t, int worker) {
                  ++inside;
                  while (inside != 2) std::this_thread::yield();
                  if (worker == ending) std::exit(7);
                });
              }),
              "exit 7");
  }
}

/// In a child: more threads than a limit leaves room for are an error that leaves no thread; without it they work.
void expect_fewer_than_asked_for(__rlimit_resource resource, rlim_t most) {
  rlimit before{};
  getrlimit(resource, &before);
  const rlimit limit{most, before.rlim_max};
  setrlimit(resource, &limit);
  const std::string text = test::error_of<Error>([] { Threads(200); });
  const std::string start =
      "Threads: the system must be able to start num_threads - 1 threads, got num_threads=200, started=";
  const std::string end =
      ", error=Resource temporarily unavailable; "
      "ask for fewer, or raise the limits on processes or memory (ulimit -u, ulimit -v)";
  if (text.compare(0, start.size(), start) != 0) _exit(1);
  const std::size_t digits = text.find_first_not_of("0123456789", start.size());
  if (digits == start.size() || text.substr(digits) != end) _exit(2);
  index_t left = 0;
  for (const auto& thread : std::filesystem::directory_iterator("/proc/self/task")) left += thread.exists();
  if (left != 1) _exit(3);
  setrlimit(resource, &before);
  expect_each_once(std::make_unique<Threads>(2).get(), 20);
}

#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)  // they need more memory than the limit
TEST(Threads, FewerThanMemoryHasRoomForIsAnError) {
  EXPECT_EQ(test::end_of_child([] { expect_fewer_than_asked_for(RLIMIT_AS, rlim_t{256} << 20); }), "exit 0");
}
#endif

TEST(Threads, FewerThanTheUserMayHaveIsAnError) {
  EXPECT_EQ(test::end_of_child([] {
              constexpr uid_t kNobody = 65534;
              if (geteuid() == 0 && setuid(kNobody) != 0) _exit(77);  // the limit does not bind root
              expect_fewer_than_asked_for(RLIMIT_NPROC, 50);
            }),
            "exit 0");
}

TEST(Threads, RefusesANegativeNumber) {
  EXPECT_EQ(test::error_of([&] { Threads(-2); }),
            "Threads: num_threads must not be negative, got num_threads=-2; 0 means one for each CPU");
}

}  // namespace
}  // namespace multihead
