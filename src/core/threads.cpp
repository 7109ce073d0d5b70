#include "multihead/threads.hpp"

#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <exception>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "core/floating_modes.hpp"
#include "core/require.hpp"
#include "core/usable_cpus.hpp"

namespace multihead {
namespace {

using Task = std::function<void(index_t index, int worker)>;

void pause() {
#if defined(__x86_64__) || defined(__i386__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("isb");
#else
  std::this_thread::yield();
#endif
}

// How long a thread spins before it sleeps: longer than the gap between two calls of a layer, but too short to matter
// to users or the scheduler. A time, not a number of pause instructions, which take 5 to 140 cycles depending on the
// CPU.
constexpr auto kSpinTime = std::chrono::microseconds(50);
// How long a caller that waits for the last tasks then yields before it sleeps: so long that the tens of microseconds
// that it takes to be woken do not matter.
constexpr auto kYieldTime = std::chrono::milliseconds(5);

/// Whether `done` became true within `time`.
template <class Done>
bool poll(const Done& done, std::chrono::nanoseconds time, void (*relax)()) {
  const auto several_times = [&] {  // reading the clock takes longer than most waits
    for (int n = 0; n < 16; ++n) {
      if (done()) return true;
      relax();
    }
    return false;
  };
  if (several_times()) return true;
  const auto end = std::chrono::steady_clock::now() + time;
  do {
    if (several_times()) return true;
  } while (std::chrono::steady_clock::now() < end);
  return false;
}

// A call of run(). It is on the stack of the caller, which waits for all tasks that have started.
class Job {
 public:
  explicit Job(const Task& task) : task_(task) {}

  void run_task(index_t index, int worker) {
    try {
      task_(index, worker);
    } catch (...) {
      if (!failed_.exchange(true)) failure_ = std::current_exception();
    }
  }

  /// Called by a worker before its first task of this job.
  void set_modes_of_caller() const {
    if (FloatingModes::of_this_thread() != modes_) modes_.set_in_this_thread();
  }

  void rethrow_failure() {
    if (failure_) std::rethrow_exception(std::move(failure_));
  }

  index_t begin = 0;        // first task that is shared with the workers
  std::uint32_t count = 0;  // number of shared tasks

 private:
  const Task& task_;
  const FloatingModes modes_ = FloatingModes::of_this_thread();
  std::atomic<bool> failed_{false};
  std::exception_ptr failure_;
};

}  // namespace

// One job at a time is shared with the workers. It is open while `tickets_` holds its epoch: tickets_ = epoch << 32 |
// number of tasks that no thread has taken yet. A thread takes a task by decrementing that number with a
// compare-and-swap. A worker that wakes late, or sleeps during a whole job, can thus neither take a task of a closed
// job nor delay one. The caller waits for tasks that were taken, never for workers.
//
// No call waits for another call: one that finds the workers busy runs its tasks itself until they are free. A task can
// therefore use the pool that runs it, in any chain of pools and threads. There is also no lock, which a fork() could
// leave locked in the child process: there the workers do not exist, and the caller runs all tasks.
class Threads::Impl {
 public:
  explicit Impl(int num_threads) : num_threads_(num_threads) {
    try {
      workers_.reserve(static_cast<std::size_t>(num_threads - 1));
      for (int worker = 1; worker < num_threads; ++worker) workers_.emplace_back([this, worker] { work(worker); });
    } catch (const std::exception& error) {
      const std::size_t started = workers_.size();
      join();
      require<Error>(false, "Threads", "the system must be able to start num_threads - 1 threads",
                     {{"num_threads", num_threads}, {"started", started}, {"error", std::string(error.what())}},
                     "ask for fewer, or raise the limits on processes or memory (ulimit -u, ulimit -v)");
    }
  }

  int num_threads() const { return num_threads_; }

  void run(index_t num_tasks, const Task& task) {
    Job job(task);
    for (index_t next = 0; next < num_tasks;) {
      const index_t left = num_tasks - next;
      if (left > 1 && !workers_.empty() && !taken_.load(std::memory_order_relaxed) && !taken_.exchange(true)) {
        job.begin = next;
        job.count = static_cast<std::uint32_t>(std::min(left, kMaxTasks));
        share(job);
        taken_.store(false, std::memory_order_release);
        next += job.count;
      } else {
        job.run_task(next++, 0);
      }
    }
    job.rethrow_failure();
  }

  /// False in the child process of a fork(), where there are no threads, and in a worker whose task ends the process.
  bool can_join() const {
    const auto is_this = [](const std::thread& thread) { return thread.get_id() == std::this_thread::get_id(); };
    return getpid() == process_ && std::none_of(workers_.begin(), workers_.end(), is_this);
  }

  void join() {
    stop_.store(true);
    tell_workers();
    for (std::thread& thread : workers_) thread.join();
  }

 private:
  static constexpr index_t kMaxTasks = index_t{1} << 31;
  static constexpr std::uint32_t kAsleep = 1;  // in news_: a worker sleeps, or is about to

  void share(Job& job) {
    job_ = &job;
    done_.store(0, std::memory_order_relaxed);
    const std::uint64_t epoch = (tickets_.load(std::memory_order_relaxed) >> 32) + 1;
    tickets_.store(epoch << 32 | job.count, std::memory_order_release);
    tell_workers();
    take_tasks(0);
    const auto all_done = [&] { return done_.load(std::memory_order_acquire) == job.count; };
    if (poll(all_done, kSpinTime, pause) || poll(all_done, kYieldTime, std::this_thread::yield)) return;
    require<Error>(getpid() == process_, "Threads::run",
                   "a process that was forked by a task cannot end the job that the task is part of",
                   {{"tasks", index_t{job.count}}, {"done", index_t{done_.load()}}},
                   "the other threads do not exist in it; leave such a process with _exit() or exec()");
    caller_sleeps_.store(true);
    for (std::uint32_t done = done_.load(); done != job.count; done = done_.load()) done_.wait(done);
    caller_sleeps_.store(false);
  }

  void take_tasks(int worker) {
    std::uint64_t epoch = ~std::uint64_t{0};  // of the job whose floating-point modes this thread has
    std::uint64_t seen = tickets_.load(std::memory_order_acquire);
    while ((seen & 0xffffffffu) != 0) {
      if (!tickets_.compare_exchange_weak(seen, seen - 1, std::memory_order_acq_rel)) continue;
      // A task was taken, so the job cannot end before done_ counts it: its fields can be read.
      const std::uint32_t count = job_->count;
      if (worker != 0 && epoch != seen >> 32) {
        epoch = seen >> 32;
        job_->set_modes_of_caller();
      }
      job_->run_task(job_->begin + count - static_cast<index_t>(seen & 0xffffffffu), worker);
      if (done_.fetch_add(1) + 1 == count && caller_sleeps_.load()) done_.notify_one();
      seen = tickets_.load(std::memory_order_acquire);
    }
  }

  // The next number, and the end of kAsleep, in one step: a worker that goes to sleep in between would be woken while
  // the number it sleeps on is still there, sleep on, and be counted as awake. Until notified workers run, further jobs
  // make no system call for them.
  void tell_workers() {
    std::uint32_t before = news_.load();
    while (!news_.compare_exchange_weak(before, (before | kAsleep) + 1)) {
    }
    if ((before & kAsleep) != 0) news_.notify_all();
  }

  std::uint32_t news() const { return news_.load() & ~kAsleep; }

  // Until there is other news than `seen`.
  void sleep(std::uint32_t seen) {
    std::uint32_t now = news_.load();
    while ((now & ~kAsleep) == seen) {
      if (now == seen && !news_.compare_exchange_weak(now, seen | kAsleep)) continue;
      news_.wait(seen | kAsleep);
      now = news_.load();
    }
  }

  void work(int worker) {
    while (true) {
      // Read before taking tasks: a job that opens in between is news, and this worker does not sleep.
      const std::uint32_t seen = news();
      if (stop_.load()) return;
      take_tasks(worker);
      if (!poll([&] { return news() != seen; }, kSpinTime, pause)) sleep(seen);
    }
  }

  const int num_threads_;
  const pid_t process_ = getpid();
  std::vector<std::thread> workers_;
  Job* job_ = nullptr;

  alignas(64) std::atomic<std::uint64_t> tickets_{0};
  alignas(64) std::atomic<std::uint32_t> done_{0};
  alignas(64) std::atomic<std::uint32_t> news_{0};  // number of jobs opened, and the shutdown, times 2, and kAsleep
  std::atomic<bool> taken_{false};                  // whether a call uses the workers
  std::atomic<bool> caller_sleeps_{false};
  std::atomic<bool> stop_{false};
};

Threads::Threads(int num_threads) {
  require(num_threads >= 0, "Threads", "num_threads must not be negative", {{"num_threads", num_threads}},
          "0 means one for each CPU");
  impl_ = std::make_unique<Impl>(num_threads == 0 ? usable_cpus() : num_threads);
}

Threads::~Threads() {
  if (impl_->can_join()) {
    impl_->join();
  } else {
    static_cast<void>(impl_.release());  // threads that do not exist can be neither joined nor destroyed
  }
}

int Threads::num_threads() const { return impl_->num_threads(); }

void Threads::run(index_t num_tasks, const Task& task) { impl_->run(num_tasks, task); }

void run_tasks(Executor* executor, index_t num_tasks, const Task& task) {
  if (executor != nullptr && num_tasks > 1) {
    if (dynamic_cast<Threads*>(executor) != nullptr) return executor->run(num_tasks, task);  // sets the modes itself
    const FloatingModes modes = FloatingModes::of_this_thread();
    executor->run(num_tasks, [&](index_t index, int worker) {
      const FloatingModesScope scope(modes);
      task(index, worker);
    });
    return;
  }
  for (index_t index = 0; index < num_tasks; ++index) task(index, 0);
}

int num_workers(const Executor* executor) { return executor == nullptr ? 1 : std::max(1, executor->num_threads()); }

}  // namespace multihead
