// The standard streams and signals of the process: every write is checked, and an end by a signal leaves no files.
#pragma once

#include <chrono>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>

#include "multihead/threads.hpp"

namespace multihead::cli {

/// The first call of main(). A standard stream that is closed stays useless, so that no file takes its number; a pipe
/// without a reader ends the process quietly; other signals end it after the temporary file has been removed.
void prepare_process();

/// Writes to standard output, the only way to do so.
/// @throws WriteError
void print(std::string_view text);

/// The last call of main() that may fail: some file systems report a lost write here.
/// @throws WriteError
void close_standard_output();

/// One line on standard error, made printable.
void print_error(std::string_view line);

/// A signal that ends the process removes this file while the object lives; one at a time.
class RemovedBySignal {
 public:
  explicit RemovedBySignal(const std::filesystem::path& temporary);
  ~RemovedBySignal();
  RemovedBySignal(const RemovedBySignal&) = delete;
  RemovedBySignal& operator=(const RemovedBySignal&) = delete;
};

/// A pool whose workers leave signals to the main thread.
class Workers {
 public:
  explicit Workers(int num_threads);
  Executor* get() { return &*threads_; }

 private:
  std::optional<Threads> threads_;
};

/// What takes long, said on standard error while it lasts; nothing where that is no terminal.
class Progress {
 public:
  explicit Progress(bool takes_long);
  ~Progress();
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  /// "checking the maps", replaced by the next call.
  void say(std::string_view text);
  /// The line is empty again.
  void end();

 private:
  bool shown_;
};

/// "judging heads: 12 of 90 segments, 3 s left"
class TimeLeft {
 public:
  TimeLeft(Progress& progress, std::string what, std::string units, index_t total)
      : progress_(progress), what_(std::move(what)), units_(std::move(units)), total_(total) {}

  void say(index_t done);
  double elapsed() const { return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin_).count(); }

 private:
  Progress& progress_;
  std::string what_, units_;
  index_t total_;
  std::chrono::steady_clock::time_point begin_ = std::chrono::steady_clock::now();
};

}  // namespace multihead::cli
