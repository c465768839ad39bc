// A worker's pipes to the servers: implements kvstore/wire/transport.h over gRPC streams. The protocol is in
// proto/data.proto.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/log.h"
#include "base/step_faults.h"
#include "base/waits.h"
#include "kvstore/wire/transport.h"
#include "rpc/job_types.h"
#include "rpc/security.h"

namespace dtrain::rpc {

struct DataClientOptions {
  std::vector<std::string> servers;  // "host:port" of each server, indexed by rank
  uint32_t rank = 0;                 // rank of this worker
  std::string host = {};             // host of this worker, for error messages
  uint64_t incarnation = 0;
  Security security;
  // The number of connections to each server. Each end serves a connection with one thread at a time. On loopback, push
  // and pull of ResNet-50 takes 1.25 times as long with 1 connection as with 4, and 1.05 times as long with 2 (`bench
  // kv`, 2 cores).
  int lanes = 4;
  // A broken connection is opened again after 0.1 s; the delay doubles with each attempt until the server has sent a
  // message. The log names the server and the reason, at most once a minute. The scheduler decides whether the server
  // or this worker is lost.
  std::chrono::milliseconds retry_first{100};
  std::chrono::milliseconds retry_last{5'000};
  // A connection on which nothing has arrived for a quarter of this time, and on which a ping then has no answer for
  // half of it, counts as broken.
  std::chrono::milliseconds heartbeat_timeout{10'000};
  std::shared_ptr<FailPoints> fail_points = nullptr;  // are told of each message; null: are not
};

class DataClient {
 public:
  // `events` must outlive the client. Does not connect yet. Code::kUsage if an address is malformed.
  static Result<std::unique_ptr<DataClient>> create(DataClientOptions options, kvstore::ClientEvents& events,
                                                    Waits& waits, Log log);
  // Closes the client. Afterwards, nothing refers to the memory of messages that do not own it.
  virtual ~DataClient() = default;

  // One pipe for each server, indexed by rank. The pipes may outlive the client; messages that are sent then are
  // dropped.
  [[nodiscard]] virtual std::vector<std::shared_ptr<kvstore::Pipe>> pipes() const = 0;
  // Blocks until all connections are open. Code::kStartup if one is not open within `limit`; the message names it.
  // kDenied if a server refuses.
  virtual Result<> connect(std::chrono::milliseconds limit) = 0;
  // Reports that the job has failed: connect() returns `why`, and no connection is opened again. Any thread may call
  // it.
  virtual void cancel(const Error& why) = 0;
  // Sets a callback for permanent failures: a server refuses this worker for good, or a reaction throws. It is called
  // at most once, from a thread of the transport, and must be short. Call this before connect.
  virtual void on_failure(std::function<void(const Error&)> callback) = 0;
  // Sets a callback for the connections that were open and are lost now, sorted by server. It is called whenever they
  // change, from a thread of the client, and must be short. Call this before connect.
  virtual void on_lost_links(std::function<void(const std::vector<LostLink>&)> callback) = 0;
  // The server with this rank was replaced: the pipe leads to this address from now on. Unanswered requests are sent
  // there when the connections are open. Code::kUsage if the address is malformed. Any thread may call it.
  virtual Result<> move(uint32_t server, const std::string& address) = 0;
  // Ends connect() and all streams. No event follows. Any thread may call it, except from inside an event.
  virtual void close() = 0;
};

}  // namespace dtrain::rpc
