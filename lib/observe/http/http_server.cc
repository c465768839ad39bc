#include "observe/http/http_server.h"

#include <fmt/core.h>
#include <httplib.h>

#include <atomic>
#include <cerrno>
#include <cstring>
#include <deque>
#include <optional>
#include <random>

#include "base/listening_sockets.h"
#include "base/mutex.h"
#include "observe/http/access.h"
#include "observe/http/connection.h"
#include "observe/http/connection_pool.h"

namespace dtrain::observe {
namespace {

using Clock = std::chrono::steady_clock;
using Handled = httplib::Server::HandlerResponse;

constexpr std::chrono::milliseconds kAnswerAge{200};
constexpr std::chrono::milliseconds kStreamInterval{1000};
constexpr size_t kThreads = 8;  // besides those that streams occupy
constexpr size_t kSilent = 64;
constexpr size_t kWaiting = 64;
constexpr unsigned kUnacknowledgedMs = 10000;
constexpr const char* kPlain = "text/plain; charset=utf-8";
constexpr const char* kActionHeader = "Dtrain-Action";
constexpr std::string_view kNonce = "@NONCE@";

// A route with the newest answer. The mutex is held while the answer is made, so that it is made once for all who ask.
struct Kept {
  explicit Kept(HttpRoute r) : route(std::move(r)) {}
  const HttpRoute route;
  Mutex mutex;
  HttpAnswer answer DT_GUARDED_BY(mutex);
  std::optional<Clock::time_point> made DT_GUARDED_BY(mutex);

  HttpAnswer newest() {
    const MutexLock lock(mutex);
    if (!made || Clock::now() - *made >= kAnswerAge) {
      answer = route.answer();
      made = Clock::now();
    }
    return answer;
  }
};

std::string make_nonce() {
  std::random_device device;
  return fmt::format("{:08x}{:08x}{:08x}{:08x}", device(), device(), device(), device());
}

std::string with_nonce(std::string page, const std::string& nonce) {
  for (size_t at = page.find(kNonce); at != std::string::npos; at = page.find(kNonce, at)) {
    page.replace(at, kNonce.size(), nonce);
  }
  return page;
}

void refuse(httplib::Response& response, int status, const std::string& why) {
  response.status = status;
  response.set_content(why + "\n", kPlain);
}

// What the browser may load for a page: nothing from other addresses.
std::string page_policy(const std::string& nonce) {
  return fmt::format(
      "default-src 'none'; script-src 'nonce-{0}'; style-src 'nonce-{0}'; connect-src 'self'; img-src data:; "
      "base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
      nonce);
}

// httplib parses requests and formats answers; connections, threads and deadlines are this program's own, because
// httplib's wait for clients without an end and without a bound.
class Site final : public HttpServer, private httplib::Server {
 public:
  Site(HttpOptions options, std::vector<HttpRoute> routes, Log log)
      : options_(std::move(options)), log_(std::move(log)) {
    for (HttpRoute& route : routes) routes_.emplace_back(std::move(route));
    set_pre_routing_handler([this](const httplib::Request& request, httplib::Response& response) {
      handle(request, response);
      return Handled::Handled;
    });
    set_exception_handler([](const httplib::Request&, httplib::Response& response, const std::exception_ptr&) {
      refuse(response, 500, "The answer could not be made.");
    });
    set_default_headers(
        {{"X-Content-Type-Options", "nosniff"}, {"Cache-Control", "no-store"}, {"Referrer-Policy", "no-referrer"}});
  }

  ~Site() override {
    {
      const MutexLock lock(mutex_);
      stop_ = true;
      stopped_.notify_all();
    }
    pool_.reset();
  }

  Result<> listen_and_serve() {
    if (options_.certificate) {
      DT_TRY(tls_, TlsContext::make(*options_.certificate), "serving {} with --tls-cert and --tls-key", options_.flag);
    }
    auto opened = open_listening_sockets(options_.where, kUnacknowledgedMs);
    if (!opened) return tl::unexpected(cannot_listen(opened.error()));
    port_ = opened->port;
    // httplib ends streams when it has no listening socket.
    svr_sock_ = opened->sockets.front().get();
    pool_.emplace(
        std::move(opened->sockets),
        ConnectionPool::Limits{.threads = kThreads + options_.streams_max, .silent = kSilent, .waiting = kWaiting},
        [this](UniqueFd socket) {
          return std::make_unique<Connection>(std::move(socket), options_.patience, tls_.get());
        },
        [this](Connection& connection) { serve(connection); });
    return {};
  }

  uint16_t port() const override { return port_; }

 private:
  [[nodiscard]] Error cannot_listen(int error) const {
    const std::string address = to_text(options_.where);
    if (error == EADDRINUSE) {
      return {Code::kStartup,
              fmt::format("cannot listen on {} {}: the port is in use by another process; end that process, or give {} "
                          "another port (port 0 takes any free one)",
                          options_.flag, address, options_.flag),
              {}};
    }
    if (error == EADDRNOTAVAIL) {
      return {Code::kStartup,
              fmt::format("cannot listen on {} {}: the host is not an address of this machine; give {} one of its "
                          "addresses, or 127.0.0.1",
                          options_.flag, address, options_.flag),
              {}};
    }
    return {
        Code::kStartup, fmt::format("cannot listen on {} {}: {}", options_.flag, address, std::strerror(error)), {}};
  }

  void serve(Connection& connection) {
    const auto done = catching([&]() -> Result<> {
      bool closed = false;
      // No ranges and no compression: an answer is short, and both cost memory or time that a client could choose.
      process_request(connection, true, closed, [](httplib::Request& request) {
        request.ranges.clear();
        request.headers.erase("Range");
        request.headers.erase("Accept-Encoding");
      });
      return {};
    });
    if (!done) log_.verbose(1, "{}: a request failed: {}", options_.flag, done.error().line());
  }

  void handle(const httplib::Request& request, httplib::Response& response) {
    if (request.method != "GET" && request.method != "HEAD") {
      response.set_header("Allow", "GET, HEAD");
      return refuse(response, 405, "Only GET and HEAD are served here.");
    }
    if (options_.only_local_names && !names_loopback(request.get_header_value("Host"))) {
      return refuse(response, 403, "This server answers only requests for localhost or 127.0.0.1.");
    }
    Kept* found = find(request.path, request.get_header_value("Accept"));
    const bool is_page = found != nullptr && found->route.kind == HttpRoute::Kind::kPage;
    const std::string token = is_page ? request.get_param_value("token") : "";
    if (options_.accepts_token && !may_read(request, token)) {
      response.set_header("WWW-Authenticate", "Bearer");
      return refuse(response, 401,
                    "The token of the job is missing or wrong. Programs send it in the header 'Authorization: Bearer "
                    "TOKEN'; in a browser, open the page as /?token=TOKEN once.");
    }
    if (found == nullptr) return refuse(response, 404, "Nothing is served at this path.");
    if (found->route.kind == HttpRoute::Kind::kAction &&
        (request.method != "GET" || !request.has_header(kActionHeader))) {
      return refuse(response, 403, "This is done only for GET with the header 'Dtrain-Action: 1'.");
    }
    if (!token.empty()) return redirect(*found, token, response);  // so that the token leaves the address line
    if (found->route.kind == HttpRoute::Kind::kStream) return stream(*found, request, response);
    answer(*found, response);
  }

  Kept* find(const std::string& path, const std::string& accept) {
    for (Kept& kept : routes_) {
      const HttpRoute& route = kept.route;
      if (route.path == path && (route.accepted.empty() || accept.find(route.accepted) != std::string::npos)) {
        return &kept;
      }
    }
    return nullptr;
  }

  [[nodiscard]] bool may_read(const httplib::Request& request, const std::string& page_token) const {
    const std::string authorization = request.get_header_value("Authorization");
    const std::string cookie = request.get_header_value("Cookie");
    return has_token({.authorization = authorization, .cookie = cookie, .host = {}, .page_token = page_token}, port_,
                     options_.accepts_token);
  }

  void redirect(const Kept& page, const std::string& token, httplib::Response& response) const {
    if (options_.accepts_token) response.set_header("Set-Cookie", token_cookie(token, port_, tls_ != nullptr));
    response.set_redirect(page.route.path, 303);
  }

  static void answer(Kept& kept, httplib::Response& response) {
    HttpAnswer answer = kept.newest();
    if (kept.route.kind == HttpRoute::Kind::kPage) {
      const std::string nonce = make_nonce();
      response.set_header("Content-Security-Policy", page_policy(nonce));
      answer.body = with_nonce(std::move(answer.body), nonce);
    }
    response.status = answer.status;
    response.set_content(answer.body, answer.type);
  }

  void stream(const Kept& kept, const httplib::Request& request, httplib::Response& response) {
    if (request.method == "HEAD") return response.set_content("", "text/event-stream");
    if (streams_.fetch_add(1) >= options_.streams_max) {
      streams_.fetch_sub(1);
      response.set_header("Retry-After", "5");
      return refuse(response, 503, "Too many clients follow this job already.");
    }
    const std::shared_ptr<EventStream> events = kept.route.open_stream();
    response.set_chunked_content_provider(
        "text/event-stream; charset=utf-8",
        [this, events](size_t /*offset*/, httplib::DataSink& sink) { return send_events(*events, sink); },
        [this](bool /*success*/) { streams_.fetch_sub(1); });
  }

  bool send_events(EventStream& events, httplib::DataSink& sink) {
    const bool is_last = is_stopping();
    const std::string text = events.take();
    // A comment, so that a client that has gone is noticed.
    const std::string_view sent = text.empty() ? std::string_view(":\n\n") : std::string_view(text);
    if (!sink.write(sent.data(), sent.size())) return false;
    if (is_last) {
      sink.done();
      return true;
    }
    const MutexLock lock(mutex_);
    stopped_.wait_for(mutex_, kStreamInterval, [this]() DT_REQUIRES(mutex_) { return stop_; });
    return true;
  }

  bool is_stopping() {
    const MutexLock lock(mutex_);
    return stop_;
  }

  const HttpOptions options_;
  const Log log_;
  std::unique_ptr<TlsContext> tls_;  // null: HTTP
  uint16_t port_ = 0;
  std::deque<Kept> routes_;
  std::atomic<size_t> streams_ = 0;
  Mutex mutex_;
  ConditionVariable stopped_;
  bool stop_ DT_GUARDED_BY(mutex_) = false;
  std::optional<ConnectionPool> pool_;
};

}  // namespace

Result<std::unique_ptr<HttpServer>> HttpServer::start(HttpOptions options, std::vector<HttpRoute> routes, Log log) {
  auto site = std::make_unique<Site>(std::move(options), std::move(routes), std::move(log));
  DT_TRY_VOID(site->listen_and_serve());
  return std::unique_ptr<HttpServer>(std::move(site));
}

}  // namespace dtrain::observe
