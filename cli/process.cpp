#include "process.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <climits>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <string>

#include "multihead/output_file.hpp"
#include "terminal.hpp"

namespace multihead::cli {
namespace {

constexpr auto kStandardOutput = "standard output";

// Read by the signal handler: only the main thread writes it, and only the main thread takes signals.
char temporary_to_remove[PATH_MAX];
volatile std::sig_atomic_t has_temporary = 0;

extern "C" void end_by_signal(int signal) {
  if (has_temporary) ::unlink(temporary_to_remove);
  std::raise(signal);  // its default action is back: the parent sees which signal it was
}

void handle(int signal) {
  struct sigaction action {};
  action.sa_handler = end_by_signal;
  action.sa_flags = SA_RESETHAND | SA_NODEFER;
  ::sigaction(signal, &action, nullptr);
}

bool is_ignored(int signal) {
  struct sigaction action {};
  return ::sigaction(signal, nullptr, &action) == 0 && action.sa_handler == SIG_IGN;
}

void write_error_bytes(std::string_view text) {
  while (!text.empty()) {
    const ssize_t written = ::write(STDERR_FILENO, text.data(), text.size());
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) return;  // there is nobody left to tell
    text.remove_prefix(static_cast<std::size_t>(written));
  }
}

int error_width() {
  winsize size{};
  return ::ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0 ? size.ws_col : 80;
}

}  // namespace

void prepare_process() {
  for (const int descriptor : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) {
    const bool is_closed = ::fcntl(descriptor, F_GETFD) < 0;
    // Open the wrong way round: a read or write still fails.
    if (is_closed) ::open("/dev/null", descriptor == STDIN_FILENO ? O_WRONLY : O_RDONLY);
  }
  handle(SIGPIPE);
  std::signal(SIGXFSZ, SIG_IGN);  // a file that grows too large is an error of its write
  for (const int signal : {SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGXCPU}) {
    if (!is_ignored(signal)) handle(signal);  // nohup and the like
  }
}

void print(std::string_view text) { OutputFile(STDOUT_FILENO, kStandardOutput).write(text); }

void close_standard_output() {
  if (::close(STDOUT_FILENO) != 0) throw WriteError(kStandardOutput, errno);
}

void print_error(std::string_view line) { write_error_bytes(printable(line) + "\n"); }

RemovedBySignal::RemovedBySignal(const std::filesystem::path& temporary) {
  const std::string& path = temporary.native();
  if (path.empty() || path.size() >= sizeof temporary_to_remove) return;
  std::memcpy(temporary_to_remove, path.c_str(), path.size() + 1);
  std::atomic_signal_fence(std::memory_order_seq_cst);
  has_temporary = 1;
}

RemovedBySignal::~RemovedBySignal() { has_temporary = 0; }

Workers::Workers(int num_threads) {
  sigset_t all, before;
  ::sigfillset(&all);
  ::pthread_sigmask(SIG_BLOCK, &all, &before);
  try {
    threads_.emplace(num_threads);
  } catch (...) {
    ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
    throw;
  }
  ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
}

Progress::Progress(bool takes_long) : shown_(takes_long && ::isatty(STDERR_FILENO)) {}

Progress::~Progress() { end(); }

void Progress::end() {
  if (shown_) write_error_bytes("\r\033[K");
  shown_ = false;
}

void Progress::say(std::string_view text) {
  if (shown_) write_error_bytes(fmt::format("\r\033[K{}", fitted(fmt::format("{} ..", text), error_width() - 1)));
}

void TimeLeft::say(index_t done) {
  const double each = elapsed() / static_cast<double>(std::max<index_t>(done, 1));
  progress_.say(fmt::format("{}: {} of {} {}, {:.0f} s left", what_, done, total_, units_,
                            each * static_cast<double>(total_ - done)));
}

}  // namespace multihead::cli
