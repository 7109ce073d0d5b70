#include "http_server.hpp"

#include <netdb.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>

namespace multihead::cli {
namespace {

using Clock = std::chrono::steady_clock;

/// A connection whose reads, and whose writes, end at a time that does not move while bytes trickle in.
class TimedStream : public httplib::Stream {
 public:
  TimedStream(int socket, const HttpLimits& limits)
      : socket_(socket), limits_(limits), read_end_(Clock::now() + limits.request) {}

  bool is_readable() const override { return taken_ < count_ || wait(POLLIN, read_end_); }
  bool is_writable() const override { return wait(POLLOUT, write_end()); }

  ssize_t read(char* data, std::size_t size) override {
    if (taken_ == count_) {  // cpp-httplib reads lines byte by byte
      is_late_ = is_late_ || !is_readable();
      if (is_late_) return -1;
      const ssize_t count = retried([&] { return ::recv(socket_, buffer_, sizeof buffer_, 0); });
      if (count <= 0) return count;
      taken_ = 0, count_ = static_cast<std::size_t>(count);
    }
    const std::size_t given = std::min(size, count_ - taken_);
    std::copy_n(buffer_ + taken_, given, data);
    taken_ += given;
    return static_cast<ssize_t>(given);
  }

  ssize_t write(const char* data, std::size_t size) override {
    if (!is_writable()) return -1;
    return retried([&] { return ::send(socket_, data, size, MSG_NOSIGNAL | MSG_DONTWAIT); });
  }

  void get_remote_ip_and_port(std::string& ip, int& port) const override { name_of(::getpeername, ip, port); }
  void get_local_ip_and_port(std::string& ip, int& port) const override { name_of(::getsockname, ip, port); }
  socket_t socket() const override { return socket_; }

  /// A request was not there in time: what still comes of it must not be read as the next one.
  bool is_late() const { return is_late_; }

  /// Whether the client says something more within this time.
  bool wait_for_request(std::chrono::seconds time) {
    const bool more = taken_ < count_ || wait(POLLIN, Clock::now() + time);
    read_end_ = Clock::now() + limits_.request;
    write_end_ = {};
    return more;
  }

 private:
  bool wait(short event, Clock::time_point end) const {
    while (true) {
      const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(end - Clock::now()).count();
      pollfd each{.fd = socket_, .events = event, .revents = 0};
      const int found = left <= 0 ? 0 : ::poll(&each, 1, static_cast<int>(left));
      if (found < 0 && errno == EINTR) continue;
      return found > 0;
    }
  }

  /// It begins with the first byte of an answer: how long that takes to compute is not the client's doing.
  Clock::time_point write_end() const {
    if (write_end_ == Clock::time_point{}) write_end_ = Clock::now() + limits_.answer;
    return write_end_;
  }

  template <class Call>
  static ssize_t retried(Call call) {
    while (true) {
      const ssize_t count = call();
      if (count >= 0 || errno != EINTR) return count;
    }
  }

  template <class Call>
  void name_of(Call call, std::string& ip, int& port) const {
    sockaddr_storage address{};
    socklen_t size = sizeof address;
    char host[NI_MAXHOST] = {}, service[NI_MAXSERV] = {};
    auto* const given = reinterpret_cast<sockaddr*>(&address);
    if (call(socket_, given, &size) != 0) return;
    if (::getnameinfo(given, size, host, sizeof host, service, sizeof service, NI_NUMERICHOST | NI_NUMERICSERV) != 0)
      return;
    ip = host;
    port = std::atoi(service);
  }

  int socket_;
  const HttpLimits& limits_;
  Clock::time_point read_end_;
  mutable Clock::time_point write_end_ = {};
  bool is_late_ = false;
  char buffer_[4096];
  std::size_t taken_ = 0, count_ = 0;  // of the buffer
};

/// A pool whose threads leave signals to the main thread.
httplib::TaskQueue* quiet_pool(std::size_t num_threads) {
  sigset_t all, before;
  ::sigfillset(&all);
  ::pthread_sigmask(SIG_BLOCK, &all, &before);
  auto* const pool = new httplib::ThreadPool(num_threads);
  ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
  return pool;
}

}  // namespace

HttpServer::HttpServer(const HttpLimits& limits) : limits_(limits) {
  new_task_queue = [this] { return quiet_pool(limits_.connections); };
  set_tcp_nodelay(true);
  set_socket_options([](int socket) {  // not SO_REUSEPORT: a second server at the same port is an error
    const int yes = 1;
    ::setsockopt(socket, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
  });
}

bool HttpServer::process_and_close_socket(socket_t socket) {
  TimedStream stream(socket, limits_);
  bool open = true;
  while (open && stream.wait_for_request(limits_.idle)) {
    bool closed = false;
    // Compressed answers would take longer to make than to send.
    const auto as_it_is = [](httplib::Request& request) { request.headers.erase("Accept-Encoding"); };
    open = process_request(stream, false, closed, as_it_is) && !closed && !stream.is_late();
  }
  ::shutdown(socket, SHUT_RDWR);
  ::close(socket);
  return true;
}

}  // namespace multihead::cli
