// A small HTTP server for people and programs that watch a run. It answers GET and HEAD for the registered paths only;
// it does not serve files.
//
// Watching must not disturb training. The server's own threads build the answers, from copies of the data. The numbers
// of its threads, waiting connections and open streams are bounded. A client occupies a thread only after its request
// has arrived. A client that reads slowly occupies a thread for only a few seconds. So clients that send nothing or
// read slowly do not keep others from being served. An answer is built at most once in `answer_age_max`, however many
// clients request it. Each connection serves one request. The process must ignore SIGPIPE.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "base/log.h"
#include "net/endpoint.h"

namespace dtrain::net {

struct HttpAnswer {
  std::string type;  // the content type
  std::string body;
  int status = 200;
};

// Server-sent events for one client.
class EventStream {
 public:
  virtual ~EventStream() = default;
  // Returns the events since the last call, in their complete form ("data: ...
  //
  // "); empty if there are none. Called once a second, and once more when the server stops. Must not wait.
  virtual std::string take() = 0;
};

struct HttpRoute {
  enum class Kind {
    kData,    // the answer is data for programs
    kPage,    // HTML for a browser; each "@NONCE@" in it becomes a random number that allows its scripts and styles
    kStream,  // the answer is a stream of server-sent events
    // Performs an action, at most once in `answer_age_max`, and answers with its result. Only for GET with the header
    // "Dtrain-Action", which pages of other web sites cannot send.
    kAction,
  };
  std::string path;  // path of the route: "/metrics"
  // If not empty, the route is only for requests whose header Accept contains this text. If several routes have the
  // same path, the first one that matches answers.
  std::string accepted = {};
  Kind kind = Kind::kData;
  std::function<HttpAnswer()> answer = {};  // for all kinds except kStream; any of the server's threads calls it
  std::function<std::unique_ptr<EventStream>()> open_stream = {};  // makes a stream for a client; only for kStream
};

// The certificate that a server presents to its clients, as PEM texts.
struct ServerCertificate {
  // The server's certificate, followed by the intermediate certificates, up to one that was issued by an authority that
  // clients know.
  std::string chain;
  std::string key;
};

struct HttpOptions {
  std::string flag;     // the flag that contains the address, for error messages: "--metrics-addr"
  Endpoint where = {};  // port 0: the system chooses one
  // Returns true if a client's token is correct. Null: no token is needed. A program sends the token in the header
  // Authorization ("Bearer TOKEN"); a browser opens a page with "?token=TOKEN" once and gets a cookie.
  std::function<bool(std::string_view token)> accepts_token = nullptr;
  // For servers on loopback: answers only requests that name this host ("Host: localhost"). Otherwise a page of another
  // web site could read from this server through a name that resolves to the loopback address.
  bool only_local_names = false;
  // The server uses HTTPS with this certificate; nullopt: plain HTTP.
  std::optional<ServerCertificate> certificate = {};
  size_t streams_max = 8;  // maximum number of open streams; more are refused with status 503
  // Time for a request to arrive, and for the client to read a piece of an answer.
  std::chrono::milliseconds patience{5000};
  std::chrono::milliseconds grace{100};           // time for a request to arrive, if too many clients send no request
  std::chrono::milliseconds answer_age_max{200};  // answers that are younger than this are reused for other clients
};

class HttpServer {
 public:
  // Listens and serves. Code::kStartup names the flag, the address and a remedy: the port is in use, or the address
  // does not belong to this host. kUsage: the certificate cannot be used.
  static Result<std::unique_ptr<HttpServer>> start(HttpOptions options, std::vector<HttpRoute> routes, Log log);
  // Sends each stream its last events and ends all connections.
  virtual ~HttpServer() = default;
  [[nodiscard]] virtual uint16_t port() const = 0;
};

}  // namespace dtrain::net
