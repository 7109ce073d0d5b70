#include "multihead/threads.hpp"

#include <sched.h>

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <exception>
#include <mutex>
#include <thread>
#include <vector>

#include "core/require.hpp"

namespace multihead {
namespace {

void pause() {
#if defined(__x86_64__) || defined(__i386__)
  __builtin_ia32_pause();
#else
  std::this_thread::yield();
#endif
}

int cpus_of_process() {
  cpu_set_t set;
  if (sched_getaffinity(0, sizeof set, &set) == 0) return std::max(1, CPU_COUNT(&set));
  return std::max(1, static_cast<int>(std::thread::hardware_concurrency()));
}

// About 50 microseconds of pauses before a waiting thread sleeps: longer than the gap between two calls of a layer,
// far shorter than a person or a scheduler notices.
constexpr int kSpins = 20'000;

}  // namespace

// A job is open while `tickets_` holds its epoch: tickets_ = epoch << 32 | tasks still to be given out. A thread takes
// a task by lowering that number with a compare-and-swap, so a worker that wakes late, or sleeps through a whole job,
// can neither take a task of a closed job nor hold one up. The caller waits for tasks that were taken, never for
// workers.
class Threads::Impl {
 public:
  explicit Impl(int num_threads) : num_threads_(num_threads) {
    for (int worker = 1; worker < num_threads; ++worker) workers_.emplace_back([this, worker] { work(worker); });
  }

  ~Impl() {
    {
      std::lock_guard lock(sleep_mutex_);
      stop_.store(true);
    }
    wake_.notify_all();
    for (std::thread& thread : workers_) thread.join();
  }

  int num_threads() const { return num_threads_; }

  void run(index_t num_tasks, const std::function<void(index_t, int)>& task) {
    std::lock_guard one_job(job_mutex_);
    for (index_t begin = 0; begin < num_tasks; begin += kMaxTasks) {
      run_batch(begin, std::min(num_tasks - begin, kMaxTasks), task);
    }
  }

 private:
  static constexpr index_t kMaxTasks = index_t{1} << 31;

  void run_batch(index_t begin, index_t count, const std::function<void(index_t, int)>& task) {
    task_ = &task;
    begin_ = begin;
    count_ = count;
    failure_ = nullptr;
    done_.store(0, std::memory_order_relaxed);
    {
      std::lock_guard lock(sleep_mutex_);
      const std::uint64_t epoch = (tickets_.load(std::memory_order_relaxed) >> 32) + 1;
      tickets_.store(epoch << 32 | static_cast<std::uint64_t>(count), std::memory_order_release);
    }
    if (sleepers_.load() > 0 && count > 1) wake_.notify_all();
    take_tasks(0);
    for (int spin = 0; done_.load(std::memory_order_acquire) != count; ++spin) {
      if (spin < kSpins) {
        pause();
      } else {
        std::this_thread::yield();
      }
    }
    if (failure_) std::rethrow_exception(failure_);
  }

  void take_tasks(int worker) {
    std::uint64_t seen = tickets_.load(std::memory_order_acquire);
    while ((seen & 0xffffffffu) != 0) {
      if (!tickets_.compare_exchange_weak(seen, seen - 1, std::memory_order_acq_rel)) continue;
      // A ticket was taken, so the job cannot end before done_ counts it: its fields are safe to read.
      const index_t index = begin_ + count_ - static_cast<index_t>(seen & 0xffffffffu);
      try {
        (*task_)(index, worker);
      } catch (...) {
        std::lock_guard lock(failure_mutex_);
        if (!failure_) failure_ = std::current_exception();
      }
      done_.fetch_add(1, std::memory_order_acq_rel);
      seen = tickets_.load(std::memory_order_acquire);
    }
  }

  void work(int worker) {
    while (!stop_.load()) {
      // Read before tasks are looked for: a job that opens in between is then seen as news, not slept through.
      const std::uint64_t epoch = tickets_.load(std::memory_order_acquire) >> 32;
      take_tasks(worker);
      const auto news = [&] { return stop_.load() || tickets_.load() >> 32 != epoch; };
      bool woken = news();
      for (int spin = 0; spin < kSpins && !woken; ++spin) {
        pause();
        woken = news();
      }
      if (woken) continue;
      std::unique_lock lock(sleep_mutex_);
      sleepers_.fetch_add(1);
      wake_.wait(lock, news);
      sleepers_.fetch_sub(1);
    }
  }

  const int num_threads_;
  std::vector<std::thread> workers_;
  std::mutex job_mutex_;

  alignas(64) std::atomic<std::uint64_t> tickets_{0};
  alignas(64) std::atomic<index_t> done_{0};
  const std::function<void(index_t, int)>* task_ = nullptr;
  index_t begin_ = 0, count_ = 0;

  std::mutex failure_mutex_;
  std::exception_ptr failure_;

  std::mutex sleep_mutex_;
  std::condition_variable wake_;
  std::atomic<int> sleepers_{0};
  std::atomic<bool> stop_{false};
};

Threads::Threads(int num_threads) {
  require(num_threads >= 0, "Threads", "num_threads must not be negative", {{"num_threads", num_threads}},
          "0 means one for each CPU");
  impl_ = std::make_unique<Impl>(num_threads == 0 ? cpus_of_process() : num_threads);
}

Threads::~Threads() = default;

int Threads::num_threads() const { return impl_->num_threads(); }

void Threads::run(index_t num_tasks, const std::function<void(index_t, int)>& task) { impl_->run(num_tasks, task); }

void run_tasks(Executor* executor, index_t num_tasks, const std::function<void(index_t, int)>& task) {
  if (executor != nullptr && num_tasks > 1) {
    executor->run(num_tasks, task);
    return;
  }
  for (index_t index = 0; index < num_tasks; ++index) task(index, 0);
}

int num_workers(const Executor* executor) { return executor == nullptr ? 1 : std::max(1, executor->num_threads()); }

}  // namespace multihead
