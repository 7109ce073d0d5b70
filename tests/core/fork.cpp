// The child of a fork() has the memory of its parent and one of its threads: it must be able to use all that is there.
#include <gtest/gtest.h>

#include <atomic>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "multihead/memory.hpp"
#include "multihead/tensor.hpp"
#include "multihead/threads.hpp"
#include "tests/support/child_process.hpp"
#include "tests/support/error_text.hpp"

#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
#define MULTIHEAD_SANITIZED 1
#elif defined(__has_feature)
#define MULTIHEAD_SANITIZED (__has_feature(thread_sanitizer) || __has_feature(address_sanitizer))
#else
#define MULTIHEAD_SANITIZED 0
#endif

namespace multihead {
namespace {

using test::end_of_child;

void expect_sum(Threads& threads) {
  std::atomic<index_t> sum{0};
  threads.run(100, [&](index_t index, int) { sum += index; });
  if (sum != 4950) _exit(1);
}

/// Threads that do `work` again and again while the object lives.
template <class Work>
class Busy {
 public:
  Busy(int num_threads, Work work) {
    for (int n = 0; n < num_threads; ++n) {
      threads_.emplace_back([this, work] {
        while (!stop_) work();
      });
    }
  }
  ~Busy() {
    stop_ = true;
    for (std::thread& thread : threads_) thread.join();
  }

 private:
  std::atomic<bool> stop_{false};
  std::vector<std::thread> threads_;
};

TEST(Fork, TensorsWhileOtherThreadsMakeTensors) {
  if (MULTIHEAD_SANITIZED) GTEST_SKIP() << "the address sanitizer's own allocator hangs";
  const Busy busy(4, [] { Tensor<float, 1>::uninitialized({40'000}); });
  for (int round = 0; round < 60; ++round) {
    ASSERT_EQ(end_of_child([] {
                for (int n = 0; n < 100; ++n) Tensor<float, 1>::uninitialized({40'000 + 1000 * (n % 9)});
                release_kept_memory();
              }),
              "exit 0");
  }
}

TEST(Fork, AnInheritedPoolComputesAndEnds) {
  auto threads = std::make_unique<Threads>(4);
  expect_sum(*threads);
  EXPECT_EQ(end_of_child([&] {
              expect_sum(*threads);
              expect_sum(*threads);
              threads.reset();
            }),
            "exit 0");
  expect_sum(*threads);
}

TEST(Fork, AnInheritedPoolEndsWithTheProcess) {
  static Threads threads(3);
  expect_sum(threads);
  EXPECT_EQ(end_of_child([] { std::exit(5); }), "exit 5");
  EXPECT_EQ(end_of_child([] {
              expect_sum(threads);
              std::exit(6);
            }),
            "exit 6");
}

TEST(Fork, WhileThePoolWorksForAnotherThread) {
  auto threads = std::make_unique<Threads>(3);
  const Busy busy(2, [&] { threads->run(5, [](index_t, int) {}); });
  for (int round = 0; round < 60; ++round) {
    ASSERT_EQ(end_of_child([&] {
                expect_sum(*threads);
                threads.reset();
              }),
              "exit 0");
  }
}

TEST(Fork, APoolMadeInTheChild) {
  if (MULTIHEAD_SANITIZED) GTEST_SKIP() << "the thread sanitizer ends such a child";
  Threads threads(2);
  expect_sum(threads);
  EXPECT_EQ(end_of_child([&] {
              Threads own(3);
              for (int n = 0; n < 100; ++n) expect_sum(own);
              own.run(4, [&](index_t, int) { expect_sum(threads); });
              std::string again = end_of_child([&] { expect_sum(own), expect_sum(threads); });
              if (again != "exit 0") _exit(2);
            }),
            "exit 0");
}

TEST(Fork, ByATask) {
  Threads threads(2);
  std::vector<std::string> ends(4);
  threads.run(4, [&](index_t index, int) {
    ends[static_cast<std::size_t>(index)] = end_of_child([&] { expect_sum(threads); });
  });
  EXPECT_EQ(ends, std::vector<std::string>(4, "exit 0"));
}

// The child cannot end what its parent's other threads had begun.
TEST(Fork, AChildThatReturnsFromATaskIsToldSo) {
  if (MULTIHEAD_SANITIZED) GTEST_SKIP() << "the thread sanitizer ends such a child";
  const auto work = [] {
    Threads threads(2);
    std::atomic<int> inside{0};
    pid_t child = -1;
    std::atomic<bool> forked{false};
    const auto task = [&](index_t, int worker) {
      ++inside;
      while (inside != 2) std::this_thread::yield();
      if (worker == 0) {
        child = fork();
        if (child == 0) alarm(30);
        forked = true;
      }
      while (!forked) std::this_thread::yield();
    };
    const std::string text = test::error_of<Error>([&] { threads.run(2, task); });
    if (child == 0) {
      _exit(text == "Threads::run: a process that was forked by a task cannot end the job that the task is part of, "
                    "got tasks=2, done=1; the other threads do not exist in it; leave such a process with _exit() or "
                    "exec()"
                ? 0
                : 1);
    }
    int status = 0;
    waitpid(child, &status, 0);
    if (text != "nothing was thrown") _exit(2);
    if (!WIFEXITED(status) || WEXITSTATUS(status) != 0) _exit(3);
  };
  EXPECT_EQ(end_of_child(work), "exit 0");
}

}  // namespace
}  // namespace multihead
