// Threads as an object that is passed. A null pointer to one means: run in the calling thread.
#pragma once

#include <functional>
#include <memory>

#include "multihead/types.hpp"

namespace multihead {

/// Something that runs independent tasks. Derive from it to lend the library your own pool.
///
/// The library calls run() from the thread that called the library, so it may be called from several threads at once,
/// and from within a task of the same executor where that task calls the library: it must not wait for the calling task
/// then. Running all tasks in the calling thread is always right. Results are the same bits however tasks are spread.
class MULTIHEAD_API Executor {
 public:
  virtual ~Executor() = default;

  /// How many tasks of one call can run at once, at least 1. Fewer may run: it is an upper bound of `worker`.
  virtual int num_threads() const = 0;

  /// Calls task(index, worker) once for each index in [0, num_tasks), in any order, and returns when all are done.
  /// `worker` is in [0, num_threads()) and no two tasks of one call run at once under one worker. If tasks throw, one
  /// of their exceptions is rethrown after all others have ended.
  virtual void run(index_t num_tasks, const std::function<void(index_t index, int worker)>& task) = 0;
};

/// The library's own pool: num_threads - 1 workers and the caller. Workers spin for 50 microseconds after a job and
/// then sleep; a job waits for the tasks that were started and for nothing else, so a late worker costs nothing.
///
/// Any thread may call run(), a task of the same pool too. The workers serve one call at a time; a call that finds them
/// taken runs its tasks in its own thread, until they are free. No call waits for another, so none can hang.
///
/// Tasks run with the caller's rounding mode, flush-to-zero, denormals-are-zero and exception masks.
///
/// In the child of a fork() the workers do not exist: calls run in the calling thread, and the pool can be destroyed. A
/// child that is forked by a task must not return from that task.
class MULTIHEAD_API Threads final : public Executor {
 public:
  /// @param num_threads  the caller included; 0 = one for each CPU that this process may use: those of its affinity
  ///                     mask, at most the CPU quota of its control groups (containers), where 1.5 CPUs are 2 threads
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

/// Runs tasks on `executor`, or in order in the calling thread when it is null. On any executor they run with the
/// floating-point modes of the caller (see Threads); those that the thread had before are restored after each task.
MULTIHEAD_API void run_tasks(Executor* executor, index_t num_tasks,
                             const std::function<void(index_t index, int worker)>& task);

/// Worker slots that run_tasks can use: 1 for a null executor.
MULTIHEAD_API int num_workers(const Executor* executor);

}  // namespace multihead
