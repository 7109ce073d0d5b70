// multihead serve: the page of `inspect`, live. A text field above it; each text that is typed is computed at once.
//
//   GET  /           the page with the text field
//   POST /page       a text -> the page of `inspect`
//   POST /inspect    a text -> the JSON of `inspect`
#include <fmt/format.h>

#include <cerrno>
#include <condition_variable>
#include <cstring>
#include <memory>
#include <mutex>

#include "command.hpp"
#include "files.hpp"
#include "http_server.hpp"
#include "inspect.hpp"
#include "multihead/error.hpp"
#include "process.hpp"

namespace multihead::cli {
namespace {

struct Flags {
  std::string model, host = "127.0.0.1";
  int port = 8080, threads = 0;
  index_t tokens = 256, bytes = 65536, jobs = 2;
};

constexpr auto kExample =
    "Example:\n"
    "  multihead serve\n"
    "  curl --data-binary \"The cat sat.\" http://127.0.0.1:8080/inspect\n\n"
    "It answers this computer only, unless --host names another address; then anyone who reaches it may use it.\n"
    "POST a text to /page for the page, to /inspect for the JSON of multihead inspect. No request names a file.\n"
    "Ctrl-C ends it. Exit code: 2 wrong usage, 1 anything else.";

bool parse_flags(Flags& flags, int argc, char** argv) {
  CLI::App app("Serves a page on which one types a text and sees at once what each head of a model does with it.",
               "multihead serve");
  app.add_option("--model", flags.model, "a Hugging Face folder (BERT family); default: the one of scripts/get-model")
      ->type_name("DIR");
  app.add_option("--host", flags.host, "the address to listen at [127.0.0.1]")->type_name("ADDRESS");
  add_whole_number(app, "--port", flags.port, 0, 65535, "0 = any that is free [8080]");
  add_whole_number(app, "--tokens", flags.tokens, 1, kMostIndex, "longer texts are cut, special tokens counted [256]");
  add_whole_number(app, "--bytes", flags.bytes, 1, 1 << 24, "longer requests are refused [65536]");
  add_whole_number(app, "--jobs", flags.jobs, 1, 64, "texts that are computed at once; others wait [2]");
  add_whole_number(app, "--threads", flags.threads, 0, 4096, "0 = one for each CPU [0]");
  app.footer(kExample);
  return parse(app, argc, argv);
}

/// Lets so many in at once; others wait, up to a limit.
class Gate {
 public:
  explicit Gate(index_t room) : room_(room) {}

  /// False: too many wait already.
  bool enter() {
    std::unique_lock lock(mutex_);
    if (room_ == 0 && waiting_ == kMostWaiting) return false;
    ++waiting_;
    left_.wait(lock, [&] { return room_ > 0; });
    --waiting_, --room_;
    return true;
  }

  void leave() {
    {
      const std::lock_guard lock(mutex_);
      ++room_;
    }
    left_.notify_one();
  }

 private:
  static constexpr index_t kMostWaiting = 100;
  std::mutex mutex_;
  std::condition_variable left_;
  index_t room_, waiting_ = 0;
};

void answer(httplib::Response& response, int status, const std::string& line) {
  response.status = status;
  response.set_content(line + "\n", "text/plain; charset=utf-8");
}

std::string without_port(const std::string& host) {
  const std::size_t colon = host.rfind(':');
  return colon == std::string::npos || host.find(']', colon) != std::string::npos ? host : host.substr(0, colon);
}

bool is_this_computer(const std::string& host) {
  const bool is_number = host.find_first_not_of("0123456789.") == std::string::npos;
  return host == "localhost" || host == "[::1]" || host == "::1" || (is_number && host.rfind("127.", 0) == 0);
}

class Service {
 public:
  Service(const Flags& flags, std::shared_ptr<const Model> model)
      : flags_(flags), model_(std::move(model)), workers_(flags.threads), gate_(flags.jobs) {
    server_.set_payload_max_length(static_cast<std::size_t>(flags.bytes));
    server_.set_default_headers(
        {{"Cache-Control", "no-store"}, {"X-Content-Type-Options", "nosniff"}, {"X-Frame-Options", "SAMEORIGIN"}});
    server_.set_pre_routing_handler([this](const httplib::Request& request, httplib::Response& response) {
      return refuses(request, response) ? httplib::Server::HandlerResponse::Handled
                                        : httplib::Server::HandlerResponse::Unhandled;
    });
    server_.set_error_handler([this](const httplib::Request&, httplib::Response& response) {
      if (response.body.empty()) answer(response, response.status, problem(response.status));
    });
    server_.Get("/", [this](const httplib::Request&, httplib::Response& response) {
      response.set_content(live_page(model_->name()), "text/html; charset=utf-8");
    });
    server_.Post("/page", [this](const httplib::Request& request, httplib::Response& response) {
      respond(request, response, "text/html; charset=utf-8",
              [this](const Inspection& inspection) { return inspection_page(inspection, workers_.get()); });
    });
    server_.Post("/inspect", [this](const httplib::Request& request, httplib::Response& response) {
      respond(request, response, "application/json", inspection_json);
    });
  }

  void run() {
    const bool any = flags_.port == 0;
    errno = 0;
    const int port = any ? server_.bind_to_any_port(flags_.host) : flags_.port;
    if (port <= 0 || (!any && !server_.bind_to_port(flags_.host, port))) {
      throw Error(fmt::format("cannot listen at {} port {}: {}", flags_.host, flags_.port,
                              errno != 0 ? std::strerror(errno) : "no such address"));
    }
    const bool is_ipv6 = flags_.host.find(':') != std::string::npos;
    print(fmt::format("{}: http://{}:{}/ (Ctrl-C ends it)\n", printable(model_->name()),
                      is_ipv6 ? "[" + flags_.host + "]" : flags_.host, port));
    if (!is_this_computer(flags_.host)) {
      print_error("multihead: serve: anyone who reaches this address may use it, without a password");
    }
    if (!server_.listen_after_bind()) throw Error("the server has ended: its socket failed");
  }

 private:
  /// Pages of other sites may make a browser send requests here, under a name of theirs too.
  bool refuses(const httplib::Request& request, httplib::Response& response) const {
    const std::string host = request.get_header_value("Host"), origin = request.get_header_value("Origin");
    if (is_this_computer(flags_.host) && !is_this_computer(without_port(host))) {
      answer(response, 403, "this server answers under the names localhost and 127.0.0.1 only");
      return true;
    }
    if (!origin.empty() && origin != "http://" + host) {
      answer(response, 403, "this server answers its own page only");
      return true;
    }
    return false;
  }

  std::string problem(int status) const {
    switch (status) {
      case 404: return "not here: GET /, POST /page, POST /inspect";
      case 413: return fmt::format("a request may have {} bytes (--bytes)", flags_.bytes);
      default: return "this is no request that can be answered here";
    }
  }

  template <class Print>
  void respond(const httplib::Request& request, httplib::Response& response, const char* type, Print print) {
    if (!gate_.enter()) {
      response.set_header("Retry-After", "1");
      return answer(response, 503, "too many texts are waiting");
    }
    const std::shared_ptr<void> inside(nullptr, [this](void*) { gate_.leave(); });
    try {
      ModelRun run = read_text(model_, request.body);
      run_model(run, {.probs = true}, workers_.get());
      response.set_content(print(inspect(run, {}, workers_.get())), type);
    } catch (const std::bad_alloc&) {
      answer(response, 503, "not enough memory");
    } catch (const std::exception& error) {
      answer(response, 400, error.what());
    }
  }

  Flags flags_;
  std::shared_ptr<const Model> model_;
  Workers workers_;
  Gate gate_;
  HttpServer server_;
};

}  // namespace

int run_serve(int argc, char** argv) {
  Flags flags;
  if (!parse_flags(flags, argc, argv)) return 0;
  Service(flags, load_model(model_folder(flags.model), flags.tokens)).run();
  return 0;
}

}  // namespace multihead::cli
