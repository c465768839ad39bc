// A server's end of the workers' pipes: kvstore/wire/transport.h over gRPC streams. The protocol: proto/data.proto.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "base/error.h"
#include "base/log.h"
#include "kvstore/wire/transport.h"
#include "rpc/endpoint.h"
#include "rpc/security.h"

namespace dtrain::rpc {

struct DataServerOptions {
  Listen listen;
  Security security;
};

// Any thread may call it.
class DataServer {
 public:
  // Listens at once, so that the port is known before the join, and refuses workers until it is told who they are and
  // what to do with their messages. Code::kStartup as rpc::listen.
  static Result<std::unique_ptr<DataServer>> start(DataServerOptions options, Log log);
  virtual ~DataServer() = default;  // closes

  [[nodiscard]] virtual uint16_t port() const = 0;
  // `incarnations` by worker's rank. `events` must outlive the server; an exception out of it ends that worker's
  // stream.
  virtual void serve(std::vector<uint64_t> incarnations, kvstore::ServerEvents& events) = 0;
  // Ends all streams and the listener; no event comes any more.
  virtual void close() = 0;
  // The first exception that came out of `events`.
  [[nodiscard]] virtual Result<> state() const = 0;
  // Cuts the worker's streams, as a network would: tests.
  virtual void cut(uint32_t worker) = 0;
};

}  // namespace dtrain::rpc
