// Thread pools are objects that are passed to functions. A null pointer means: run in the calling thread.
#pragma once

#include <functional>
#include <memory>

#include "multihead/types.hpp"

namespace multihead {

/// Interface that runs independent tasks. Derive from it to let the library use your own thread pool.
///
/// The library calls run() in the thread that called the library. Several threads may therefore call it at once, and a
/// task of the same executor may, if that task calls the library: run() must then not wait for that task. It
/// is always correct to run all tasks in the calling thread. Results are bit-identical however tasks are distributed.
class MULTIHEAD_API Executor {
 public:
  virtual ~Executor() = default;

  /// Most tasks of one call that run at the same time, at least 1: the upper bound of `worker`.
  virtual int num_threads() const = 0;

  /// Calls task(index, worker) once for each index in [0, num_tasks), in any order, and returns when all are done.
  /// `worker` is in [0, num_threads()); tasks of one call that run at the same time have different workers. If tasks
  /// throw, one of their exceptions is rethrown after all tasks have ended.
  virtual void run(index_t num_tasks, const std::function<void(index_t index, int worker)>& task) = 0;
};

/// The library's own pool: num_threads - 1 worker threads and the caller. Workers spin for 50 microseconds after a call
/// and then sleep. A call waits only for tasks that have started, so a worker that wakes up late does not delay it.
///
/// Any thread may call run(), also a task of the same pool. The workers serve one call at a time; one that finds them
/// busy runs its tasks in its own thread until they are free. No call waits for another, so none can deadlock.
///
/// Tasks run with the caller's rounding mode, flush-to-zero, denormals-are-zero and exception masks.
///
/// In the child process of a fork() the workers do not exist: calls run in the calling thread, and the pool can be
/// destroyed. A child process forked inside a task must not return from that task.
class MULTIHEAD_API Threads final : public Executor {
 public:
  /// @param num_threads  with the calling thread; 0 = the number of CPUs this process may use: those in its affinity
  ///                     mask, but at most the CPU quota of its control groups (containers), rounded up
  /// @throws ShapeError  if num_threads < 0
  /// @throws Error       if the system cannot start the threads; those that were started have ended by then
  explicit Threads(int num_threads = 0);
  ~Threads() override;
  Threads(const Threads&) = delete;
  Threads& operator=(const Threads&) = delete;

  int num_threads() const override;
  void run(index_t num_tasks, const std::function<void(index_t index, int worker)>& task) override;

 private:
  class MULTIHEAD_LOCAL Impl;
  std::unique_ptr<Impl> impl_;
};

/// Runs tasks on `executor`, or one after the other in the calling thread if it is null. On any executor they have the
/// floating-point modes of the caller (see Threads); after each task the previous modes of its thread are restored.
MULTIHEAD_API void run_tasks(Executor* executor, index_t num_tasks,
                             const std::function<void(index_t index, int worker)>& task);

/// The upper bound of `worker` in run_tasks: num_threads() of the executor, 1 for null.
MULTIHEAD_API int num_workers(const Executor* executor);

}  // namespace multihead
