// A worker's pipes to the servers: kvstore/wire/transport.h over gRPC streams. The protocol: proto/data.proto.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/log.h"
#include "base/waits.h"
#include "kvstore/wire/transport.h"
#include "rpc/security.h"

namespace dtrain::rpc {

struct DataClientOptions {
  std::vector<std::string> servers;  // "host:port" by rank
  uint32_t rank = 0;                 // of this worker
  std::string host = {};             // likewise, for messages
  uint64_t incarnation = 0;
  Security security;
  // Connections to each server. One is served by one thread at a time at each end. ResNet-50 there and back on loopback
  // takes 1.25 times as long with 1 and 1.05 times with 2 (`bench kv`, 2 cores).
  int lanes = 4;
  // A connection that breaks is opened again after 0.1 s, then after twice as long each time until the server has sent
  // a message. The log names the server and the reason, at most once a minute. The scheduler decides whether the server
  // is dead; a server that lives, but that this worker has not reached again for `reopen_limit`, is a failure of the
  // worker, on_failure with kPeerLost.
  std::chrono::milliseconds retry_first{100};
  std::chrono::milliseconds retry_last{5'000};
  std::chrono::milliseconds reopen_limit{std::chrono::hours(1)};
};

class DataClient {
 public:
  // `events` must outlive the client. Does not connect yet. Code::kUsage: an address that is none.
  static Result<std::unique_ptr<DataClient>> create(DataClientOptions options, kvstore::ClientEvents& events,
                                                    Waits& waits, Log log);
  // Closes. After that nothing refers any more to memory of messages without an owner.
  virtual ~DataClient() = default;

  // One a server, in order of rank. They may outlive the client: messages then vanish.
  [[nodiscard]] virtual std::vector<std::shared_ptr<kvstore::Pipe>> pipes() const = 0;
  // Returns when all stand. Code::kStartup: not within `limit`, and which. kDenied: a server refused.
  virtual Result<> connect(std::chrono::milliseconds limit) = 0;
  // The job has failed: connect() returns `why`, and no connection is opened again. Any thread.
  virtual void cancel(const Error& why) = 0;
  // Called at most once, from a thread of the transport, when a server refuses this worker for good or cannot be
  // reached again, or a reaction threw. Set it before connect; it must be short.
  virtual void on_failure(std::function<void(const Error&)> callback) = 0;
  // Ends connect() and every stream; nothing comes any more. Any thread, but not inside an event.
  virtual void close() = 0;
};

}  // namespace dtrain::rpc
