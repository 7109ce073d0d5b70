// An HTTP server that no client can hold up: each request must have arrived within a time, as a whole, and each answer
// must be taken within one. The rest is cpp-httplib.
#pragma once

#include <httplib.h>

#include <chrono>

namespace multihead::cli {

struct HttpLimits {
  std::chrono::seconds request{10};  ///< from its first byte to its last
  std::chrono::seconds answer{30};   ///< the same
  std::chrono::seconds idle{5};      ///< between two requests of a connection
  std::size_t connections = 128;     ///< at once; more wait
};

class HttpServer : public httplib::Server {
 public:
  explicit HttpServer(const HttpLimits& limits = {});

 private:
  bool process_and_close_socket(socket_t socket) override;

  HttpLimits limits_;
};

}  // namespace multihead::cli
