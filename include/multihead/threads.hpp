// Threads as an object that is passed. A null pointer to one means: run in the calling thread.
#pragma once

#include <functional>
#include <memory>

#include "multihead/types.hpp"

namespace multihead {

/// Something that runs independent tasks. Derive from it to lend the library your own pool.
class MULTIHEAD_API Executor {
 public:
  virtual ~Executor() = default;

  /// How many tasks can run at once, at least 1.
  virtual int num_threads() const = 0;

  /// Calls task(index, worker) once for each index in [0, num_tasks), in any order, and returns when all are done.
  /// `worker` is in [0, num_threads()) and no two tasks run at once under one worker. If tasks throw, one of their
  /// exceptions is rethrown after all others have ended.
  virtual void run(index_t num_tasks, const std::function<void(index_t index, int worker)>& task) = 0;
};

/// The library's own pool: num_threads - 1 workers and the caller. Workers spin for some 50 microseconds after a
/// job and then sleep; a job waits for the tasks that were started and for nothing else, so a late worker costs
/// nothing. One job at a time: calls from several threads queue.
class MULTIHEAD_API Threads final : public Executor {
 public:
  /// @param num_threads  the caller included; 0 = one for each CPU of this process
  /// @throws ShapeError  if num_threads < 0
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

/// Runs tasks on `executor`, or in order in the calling thread when it is null.
MULTIHEAD_API void run_tasks(Executor* executor, index_t num_tasks,
                             const std::function<void(index_t index, int worker)>& task);

/// Worker slots that run_tasks can use: 1 for a null executor.
MULTIHEAD_API int num_workers(const Executor* executor);

}  // namespace multihead
