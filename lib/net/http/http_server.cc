#include "net/http/http_server.h"

#include <fmt/core.h>

#include <atomic>
#include <cerrno>
#include <cstring>
#include <deque>
#include <optional>
#include <random>
#include <utility>

#include "base/mutex.h"
#include "net/http/access.h"
#include "net/http/byte_stream.h"
#include "net/http/connection.h"
#include "net/http/connection_pool.h"
#include "net/http/http_message.h"
#include "net/listening_sockets.h"

namespace dtrain::net {
namespace {

using Clock = std::chrono::steady_clock;
using Method = HttpRequest::Method;

constexpr std::chrono::milliseconds kStreamInterval{1000};
// Number of threads that answer requests, in addition to the threads that streams occupy.
constexpr size_t kThreads = 8;
constexpr unsigned kHttpUnacknowledgedMs = 10000;
constexpr const char* kPlain = "text/plain; charset=utf-8";
constexpr const char* kEvents = "text/event-stream; charset=utf-8";
constexpr const char* kActionHeader = "dtrain-action";
constexpr std::string_view kNonce = "@NONCE@";

// A route with its latest answer. The mutex is held while the answer is made, so that the answer is made once for all
// clients.
struct Kept {
  explicit Kept(HttpRoute r) : route(std::move(r)) {}
  const HttpRoute route;
  Mutex mutex;
  HttpAnswer answer DT_GUARDED_BY(mutex);
  std::optional<Clock::time_point> made DT_GUARDED_BY(mutex);

  HttpAnswer newest(std::chrono::milliseconds age_max) {
    const MutexLock lock(mutex);
    if (!made || Clock::now() - *made >= age_max) {
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

// The content security policy of a page: it may load nothing from other addresses.
std::string page_policy(const std::string& nonce) {
  return fmt::format(
      "default-src 'none'; script-src 'nonce-{0}'; style-src 'nonce-{0}'; connect-src 'self'; img-src data:; "
      "base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
      nonce);
}

// Counts one of the open streams for as long as it exists.
class StreamPlace {
 public:
  explicit StreamPlace(std::atomic<size_t>& open) : open_(open), number_(open.fetch_add(1)) {}
  ~StreamPlace() { open_.fetch_sub(1); }
  StreamPlace(const StreamPlace&) = delete;
  StreamPlace& operator=(const StreamPlace&) = delete;
  [[nodiscard]] size_t number() const { return number_; }

 private:
  std::atomic<size_t>& open_;
  const size_t number_;
};

// An answer to one request.
struct Response {
  HttpAnswer answer;
  std::vector<HttpHeader> headers = {};  // headers that only this answer has
  std::unique_ptr<StreamPlace> place = nullptr;
  std::unique_ptr<EventStream> events = nullptr;  // streamed instead of the body
};

Response refusal(int status, std::string_view why, std::vector<HttpHeader> headers = {}) {
  return {.answer = {kPlain, fmt::format("{}\n", why), status}, .headers = std::move(headers)};
}

// The head of the response. Connections are not kept open for another request, because a client sends at most one
// request per second.
std::string head_of(const Response& response, bool is_chunked) {
  std::vector<HttpHeader> headers = {{"Content-Type", response.answer.type},
                                     {"Connection", "close"},
                                     {"Cache-Control", "no-store"},
                                     {"Referrer-Policy", "no-referrer"},
                                     {"X-Content-Type-Options", "nosniff"}};
  if (response.events == nullptr) {
    headers.push_back({"Content-Length", std::to_string(response.answer.body.size())});
  } else if (is_chunked) {
    headers.push_back({"Transfer-Encoding", "chunked"});
  }
  headers.insert(headers.end(), response.headers.begin(), response.headers.end());
  return http_answer_head(response.answer.status, headers);
}

std::string chunk_of(std::string_view text) {
  return fmt::format("{:x}\r\n{}\r\n", text.size(), text);
}

class Site final : public HttpServer {
 public:
  Site(HttpOptions options, std::vector<HttpRoute> routes, Log log)
      : options_(std::move(options)), log_(std::move(log)) {
    for (HttpRoute& route : routes) routes_.emplace_back(std::move(route));
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
    auto opened = open_listening_sockets(options_.where, kHttpUnacknowledgedMs);
    if (!opened) return tl::unexpected(cannot_listen(opened.error()));
    port_ = opened->port;
    pool_.emplace(
        std::move(opened->sockets),
        ConnectionPool::Limits{.threads = kThreads + options_.streams_max, .grace = options_.grace}, log_,
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
                          "another port (port 0 uses any free port)",
                          options_.flag, address, options_.flag),
              {}};
    }
    if (error == EADDRNOTAVAIL) {
      return {Code::kStartup,
              fmt::format("cannot listen on {} {}: the host is not an address of this host; give {} one of its "
                          "addresses, or 127.0.0.1",
                          options_.flag, address, options_.flag),
              {}};
    }
    return {
        Code::kStartup, fmt::format("cannot listen on {} {}: {}", options_.flag, address, std::strerror(error)), {}};
  }

  void serve(Connection& connection) {
    const HttpRequestReader& reader = connection.request();
    const auto done = catching([&]() -> Result<> {
      send(connection, reader.request(), response_to(reader));
      return {};
    });
    if (!done) log_failure(done.error());
  }

  Response response_to(const HttpRequestReader& reader) {
    if (reader.state() == HttpRequestReader::State::kRefused) {
      return refusal(reader.refusal().status, reader.refusal().why);
    }
    Response response;
    const auto made = catching([&]() -> Result<> {
      response = handle(reader.request());
      return {};
    });
    if (made) return response;
    log_failure(made.error());
    return refusal(500, "The response could not be generated.");
  }

  void log_failure(const Error& error) const {
    log_.verbose(1, "{}: a request failed: {}", options_.flag, error.line());
  }

  Response handle(const HttpRequest& request) {
    if (request.method == Method::kOther) {
      return refusal(405, "This server supports only GET and HEAD.", {{"Allow", "GET, HEAD"}});
    }
    if (options_.only_local_names && !names_loopback(request.header("host"))) {
      return refusal(403, "This server answers only requests for localhost or 127.0.0.1.");
    }
    Kept* found = find(request.path(), request.header("accept"));
    const bool is_page = found != nullptr && found->route.kind == HttpRoute::Kind::kPage;
    const std::string token = is_page ? request.parameter("token") : "";
    if (options_.accepts_token && !may_read(request, token)) {
      return refusal(401,
                     "The token of the job is missing or wrong. Programs send it in the header 'Authorization: Bearer "
                     "TOKEN'; in a browser, open the page as /?token=TOKEN once.",
                     {{"WWW-Authenticate", "Bearer"}});
    }
    if (found == nullptr) return refusal(404, "There is nothing at this path.");
    if (found->route.kind == HttpRoute::Kind::kAction &&
        (request.method != Method::kGet || request.find_header(kActionHeader) == nullptr)) {
      return refusal(403, "This action requires GET with the header 'Dtrain-Action: 1'.");
    }
    if (!token.empty()) return redirect(*found, token);  // so that the token disappears from the browser's address line
    if (found->route.kind == HttpRoute::Kind::kStream) return stream(*found, request.method);
    return answer(*found);
  }

  Kept* find(std::string_view path, std::string_view accept) {
    for (Kept& kept : routes_) {
      const HttpRoute& route = kept.route;
      if (route.path == path && accept.find(route.accepted) != std::string_view::npos) return &kept;
    }
    return nullptr;
  }

  [[nodiscard]] bool may_read(const HttpRequest& request, const std::string& page_token) const {
    return has_token({.authorization = request.header("authorization"),
                      .cookie = request.header("cookie"),
                      .page_token = page_token},
                     port_, options_.accepts_token);
  }

  [[nodiscard]] Response redirect(const Kept& page, const std::string& token) const {
    Response response{.answer = {kPlain, "", 303}, .headers = {{"Location", page.route.path}}};
    if (options_.accepts_token) {
      response.headers.push_back({"Set-Cookie", token_cookie(token, port_, tls_ != nullptr)});
    }
    return response;
  }

  [[nodiscard]] Response answer(Kept& kept) const {
    Response response{.answer = kept.newest(options_.answer_age_max)};
    if (kept.route.kind != HttpRoute::Kind::kPage) return response;
    const std::string nonce = make_nonce();
    response.headers.push_back({"Content-Security-Policy", page_policy(nonce)});
    response.answer.body = with_nonce(std::move(response.answer.body), nonce);
    return response;
  }

  Response stream(const Kept& kept, Method method) {
    Response response{.answer = {kEvents, "", 200}};
    if (method == Method::kHead) return response;
    response.place = std::make_unique<StreamPlace>(streams_);
    if (response.place->number() >= options_.streams_max) {
      return refusal(503, "Too many clients follow this job already.", {{"Retry-After", "5"}});
    }
    response.events = kept.route.open_stream();
    return response;
  }

  void send(Connection& connection, const HttpRequest& request, const Response& response) {
    const bool is_chunked = !request.is_http_1_0;
    std::string text = head_of(response, is_chunked);
    if (request.method != Method::kHead) text += response.answer.body;
    if (connection.write(text) && response.events != nullptr) send_events(connection, *response.events, is_chunked);
  }

  void send_events(Connection& connection, EventStream& events, bool is_chunked) {
    bool is_last = false;
    while (!is_last) {
      is_last = is_stopping();
      std::string text = events.take();
      if (text.empty()) text = ":\n\n";  // an event stream's comment: sending it reveals that a client has disconnected
      if (!connection.write(is_chunked ? chunk_of(text) : text)) return;
      const MutexLock lock(mutex_);
      stopped_.wait_for(mutex_, kStreamInterval, [this]() DT_REQUIRES(mutex_) { return stop_; });
    }
    if (is_chunked) connection.write(chunk_of(""));
  }

  bool is_stopping() {
    const MutexLock lock(mutex_);
    return stop_;
  }

  const HttpOptions options_;
  const Log log_;
  std::unique_ptr<TlsContext> tls_;  // the server's certificate for TLS; null for plain HTTP
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

}  // namespace dtrain::net
