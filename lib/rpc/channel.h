// How this project uses gRPC: channel options chosen by measuring tensor throughput, listeners that keep their port,
// and the check of each caller.
#pragma once

#include <grpcpp/channel.h>
#include <grpcpp/client_context.h>
#include <grpcpp/server.h>
#include <grpcpp/server_builder.h>
#include <grpcpp/server_context.h>

#include <chrono>
#include <functional>
#include <memory>
#include <string>

#include "base/error.h"
#include "base/log.h"
#include "base/step_faults.h"
#include "net/acceptor.h"
#include "net/endpoint.h"
#include "net/refusal_log.h"
#include "rpc/security.h"

namespace dtrain::rpc {

enum class Traffic { kControl, kData };

// More look-ahead makes no exchange faster.
inline constexpr size_t kLookAheadMax = 64 << 20;

// When the other end of a connection counts as vanished, for instance because its host lost power: when nothing has
// arrived for `ping_after` and a ping gets no answer within `ping_limit`.
struct Silence {
  std::chrono::milliseconds ping_after{20'000};
  std::chrono::milliseconds ping_limit{20'000};
};

// Does not connect yet. Channels are never shared: each has its own connection. `points`: are told of each message, by
// the names of job::fault_messages(), before it is sent, and after it has been received but before it has an effect;
// null: are not.
std::shared_ptr<grpc::Channel> make_channel(const net::Endpoint& peer, const Security& security, Traffic traffic,
                                            const Silence& silence = {},
                                            const std::shared_ptr<FailPoints>& points = nullptr);

// Adds to a call the metadata that check_caller checks. The call then waits for a connection until its deadline or
// until it is cancelled. Call it before the call starts.
void sign(grpc::ClientContext& context, const Security& security);

// Checks a caller's token, build and protocol version. Returns OK or the status with which to refuse the call. Refusals
// are logged with the peer's address.
grpc::Status check_caller(const grpc::CallbackServerContext& context, const Security& security, net::RefusalLog& log);

// The value of a metadata key, empty if absent.
std::string metadata(const grpc::CallbackServerContext& context, const std::string& key);

struct Listener {
  std::unique_ptr<grpc::Server> server;
  std::unique_ptr<net::AcceptorThread> acceptor;
  uint16_t port = 0;

  // Stops accepting connections, then calls grpc::Server::Shutdown.
  void shutdown(std::chrono::system_clock::time_point deadline);
};
// Connections on which the peer sends nothing are closed (net/acceptor.h). gRPC's buffers and calls may use
// `memory_max` bytes (0: no limit); beyond that gRPC reads less, closes connections and ends calls with
// RESOURCE_EXHAUSTED. For data, gRPC takes up to `look_ahead` bytes of each stream from the network before they are
// read. Refused connections are written to `log`. Code::kStartup if the port is in use, the address does
// not belong to this host, or the certificate does not fit.
Result<Listener> listen(const net::Listen& where, const Security& security, Traffic traffic, const Log& log,
                        const std::function<void(grpc::ServerBuilder&)>& add_services, size_t memory_max = 0,
                        size_t look_ahead = kLookAheadMax);

}  // namespace dtrain::rpc
