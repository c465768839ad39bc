// gRPC as this project uses it: options measured to carry tensors, listeners that keep their port, and the check at the
// door.
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
#include "net/acceptor.h"
#include "net/endpoint.h"
#include "net/refusal_log.h"
#include "rpc/security.h"

namespace dtrain::rpc {

enum class Traffic { kControl, kData };

// Does not connect yet. Channels are never shared: each has its own connection.
std::shared_ptr<grpc::Channel> make_channel(const net::Endpoint& peer, const Security& security, Traffic traffic);

// What check_caller looks at. The call then waits for a connection until its deadline or until it is cancelled. Call it
// before the call starts.
void sign(grpc::ClientContext& context, const Security& security);

// OK, or the refusal, which it has logged with the peer's address.
grpc::Status check_caller(const grpc::CallbackServerContext& context, const Security& security, net::RefusalLog& log);

// The value of a metadata key, empty if absent.
std::string metadata(const grpc::CallbackServerContext& context, const std::string& key);

struct Listener {
  std::unique_ptr<grpc::Server> server;
  std::unique_ptr<net::AcceptorThread> acceptor;
  uint16_t port = 0;

  // Connections are no longer accepted; then grpc::Server::Shutdown.
  void shutdown(std::chrono::system_clock::time_point deadline);
};
// Connections that say nothing are closed (net/acceptor.h). gRPC's buffers and calls may use `memory_max` bytes (0: as
// many as they need); beyond that it reads less, closes connections and ends calls with RESOURCE_EXHAUSTED. `log`: when a
// connection has to be refused. Code::kStartup: the port is in use, the address is not of this machine, the certificate
// does not fit.
Result<Listener> listen(const net::Listen& where, const Security& security, Traffic traffic, const Log& log,
                        const std::function<void(grpc::ServerBuilder&)>& add_services, size_t memory_max = 0);

}  // namespace dtrain::rpc
