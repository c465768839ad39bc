// The server's end of the pipes to the workers: implements kvstore/wire/transport.h over gRPC streams. The protocol is
// in proto/data.proto.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "base/error.h"
#include "base/log.h"
#include "base/waits.h"
#include "kvstore/wire/transport.h"
#include "net/endpoint.h"
#include "rpc/security.h"

namespace dtrain::rpc {

struct DataServerOptions {
  net::Listen listen;
  Security security;
  // While more than `unread_max` bytes of answers wait on a stream because the worker does not read them, the server
  // does not read from that stream. If the worker then reads nothing for `unread_limit`, the stream is ended and an
  // error is logged.
  uint64_t unread_max = 64 << 20;
  std::chrono::milliseconds unread_limit{20'000};
  // gRPC takes messages from the network before the server reads them. All `streams` streams of the workers together
  // may hold so many bytes. Each gets an equal part, at least one message, so that none has to wait for another one.
  uint64_t look_ahead = 512 << 20;
  uint64_t streams = 4;
};

// The part of each stream, in bytes.
uint64_t look_ahead_of_stream(const DataServerOptions& options);

// Any thread may call it.
class DataServer {
 public:
  // Listens at once, so that the port is known before the join, and refuses workers until serve() is called. `waits`
  // must outlive the server. Code::kStartup: see rpc::listen.
  static Result<std::unique_ptr<DataServer>> start(DataServerOptions options, Waits& waits, Log log);
  virtual ~DataServer() = default;  // closes the server

  [[nodiscard]] virtual uint16_t port() const = 0;
  // In serve(): nobody has the rank yet, and whoever asks for it may try again until admit_worker() is called.
  static constexpr uint64_t kAwaited = ~uint64_t{0};
  // `incarnations` is indexed by worker rank; 0: nobody has the rank. `events` must outlive the server. If handling a
  // message throws, that worker's stream ends. The first such exception is passed to `on_failure`, at once and on the
  // thread where it happened: the process must end, because a message is lost. on_failure must be short and must not
  // close the server.
  virtual void serve(std::vector<uint64_t> incarnations, kvstore::ServerEvents& events,
                     std::function<void(const Error&)> on_failure) = 0;
  // The worker is gone: ends its streams, and refuses its incarnation from now on. `returns`: the same process is to be
  // accepted again, so it may try again until then.
  virtual void end_worker(uint32_t worker, bool returns) = 0;
  // Accepts streams of this process, which has the worker's rank from now on.
  virtual void admit_worker(uint32_t worker, uint64_t incarnation) = 0;
  // Ends all streams and the listener. No event follows once this has returned.
  virtual void close() = 0;
  // For tests: breaks the worker's streams as a network failure would.
  virtual void cut(uint32_t worker) = 0;
};

}  // namespace dtrain::rpc
