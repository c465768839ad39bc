// A server's end of the workers' pipes: kvstore/wire/transport.h over gRPC streams. The protocol: proto/data.proto.
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
  // A worker that does not read its answers is not read from while more than `unread_max` bytes wait on one of its
  // streams. If it then takes nothing for `unread_limit`, the stream is ended and the log says so.
  uint64_t unread_max = 64 << 20;
  std::chrono::milliseconds unread_limit{20'000};
};

// Any thread may call it.
class DataServer {
 public:
  // Listens at once, so that the port is known before the join, and refuses workers until it is told who they are and
  // what to do with their messages. Code::kStartup as rpc::listen.
  // `waits` must outlive the server.
  static Result<std::unique_ptr<DataServer>> start(DataServerOptions options, Waits& waits, Log log);
  virtual ~DataServer() = default;  // closes

  [[nodiscard]] virtual uint16_t port() const = 0;
  // `incarnations` by worker's rank. `events` must outlive the server. An exception while a message is handled ends
  // that worker's stream, and the first one is passed to `on_failure`, at once and on the thread where it happened: the
  // process must end, because a message is lost. on_failure must be short and must not close the server.
  virtual void serve(std::vector<uint64_t> incarnations, kvstore::ServerEvents& events,
                     std::function<void(const Error&)> on_failure) = 0;
  // Ends all streams and the listener; no event comes any more.
  virtual void close() = 0;
  // Cuts the worker's streams, as a network would: tests.
  virtual void cut(uint32_t worker) = 0;
};

}  // namespace dtrain::rpc
