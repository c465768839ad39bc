#include "rpc/channel.h"

#include <grpc/grpc.h>
#include <grpcpp/create_channel.h>
#include <grpcpp/security/credentials.h>
#include <grpcpp/security/server_credentials.h>
#include <netdb.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "rpc/congestion.h"

namespace dtrain::rpc {
namespace {

constexpr const char* kTokenKey = "dtrain-token";
constexpr const char* kBuildKey = "dtrain-build";
constexpr const char* kProtocolKey = "dtrain-protocol";

constexpr int kControlMessageMax = 64 << 20;

// A connection that went dead without a word (a host that lost power) is noticed by pings; heartbeats notice it sooner,
// but only once the job runs.
constexpr int kKeepaliveMs = 20'000;

// A connection that has not begun to speak HTTP/2 by then is closed: it holds a descriptor, of which a process has few.
// gRPC's own limit is two minutes.
constexpr int kHandshakeMs = 5'000;

// Both ends. Together with cubic on loopback: 4 MiB push and pull 1.22 -> 1.94 GB/s (toolchain.md 2.3).
template <class Arguments>
void tune_for_data(Arguments&& set) {
  set(GRPC_ARG_HTTP2_MAX_FRAME_SIZE, 16777215);
  set(GRPC_ARG_HTTP2_STREAM_LOOKAHEAD_BYTES, 64 << 20);
  set(GRPC_ARG_HTTP2_BDP_PROBE, 0);
  set(GRPC_ARG_TCP_READ_CHUNK_SIZE, 1 << 20);
}

template <class Arguments>
void keep_alive(Arguments&& set) {
  set(GRPC_ARG_KEEPALIVE_TIME_MS, kKeepaliveMs);
  set(GRPC_ARG_KEEPALIVE_TIMEOUT_MS, kKeepaliveMs);
  set(GRPC_ARG_KEEPALIVE_PERMIT_WITHOUT_CALLS, 1);
  set(GRPC_ARG_HTTP2_MAX_PINGS_WITHOUT_DATA, 0);
}

grpc::ChannelArguments client_arguments(Traffic traffic, bool this_host) {
  grpc::ChannelArguments arguments;
  const auto set = [&](const char* name, int value) { arguments.SetInt(name, value); };
  keep_alive(set);
  if (traffic == Traffic::kData) tune_for_data(set);
  if (traffic == Traffic::kData && this_host) arguments.SetSocketMutator(loopback_mutator());
  set(GRPC_ARG_MAX_RECEIVE_MESSAGE_LENGTH, traffic == Traffic::kData ? -1 : kControlMessageMax);
  set(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
  set(GRPC_ARG_INITIAL_RECONNECT_BACKOFF_MS, 100);
  set(GRPC_ARG_MIN_RECONNECT_BACKOFF_MS, 100);
  // A control stream has a second to be back before its process counts as dead.
  set(GRPC_ARG_MAX_RECONNECT_BACKOFF_MS, traffic == Traffic::kControl ? 200 : 1000);
  // Peers of a cluster: no proxy of the environment, no configuration from name servers.
  set(GRPC_ARG_ENABLE_HTTP_PROXY, 0);
  set(GRPC_ARG_SERVICE_CONFIG_DISABLE_RESOLUTION, 1);
  return arguments;
}

// ServerBuilder has no method for a socket mutator.
class MutateSockets : public grpc::ServerBuilderOption {
 public:
  void UpdateArguments(grpc::ChannelArguments* arguments) override { arguments->SetSocketMutator(loopback_mutator()); }
  void UpdatePlugins(std::vector<std::unique_ptr<grpc::ServerBuilderPlugin>>*) override {}
};

std::shared_ptr<grpc::ServerCredentials> server_credentials(const Security& security) {
  if (!security.tls) return grpc::InsecureServerCredentials();
  grpc::SslServerCredentialsOptions options(GRPC_SSL_REQUEST_AND_REQUIRE_CLIENT_CERTIFICATE_AND_VERIFY);
  options.pem_root_certs = security.tls->authority;
  options.pem_key_cert_pairs.push_back({security.tls->key, security.tls->certificate});
  return grpc::SslServerCredentials(options);
}

std::shared_ptr<grpc::ChannelCredentials> channel_credentials(const Security& security) {
  if (!security.tls) return grpc::InsecureChannelCredentials();
  return grpc::SslCredentials({security.tls->authority, security.tls->key, security.tls->certificate});
}

// Why an address cannot be listened on: gRPC only says that it could not. 0: it can.
int bind_error(const Endpoint& where) {
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_PASSIVE;
  addrinfo* list = nullptr;
  if (getaddrinfo(where.host.c_str(), std::to_string(where.port).c_str(), &hints, &list) != 0) return EADDRNOTAVAIL;
  const int fd = socket(list->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
  const int on = 1;
  setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
  const bool bound = fd >= 0 && bind(fd, list->ai_addr, list->ai_addrlen) == 0 && ::listen(fd, 1) == 0;
  const int error = bound ? 0 : errno;
  if (fd >= 0) close(fd);
  freeaddrinfo(list);
  return error;
}

Error cannot_listen(const Listen& where, int error, bool tls) {
  const uint16_t last = std::max(where.port_first, where.port_last);
  const std::string ports =
      last == where.port_first ? fmt::format("port {}", last) : fmt::format("ports {} to {}", where.port_first, last);
  if (error == EADDRINUSE) {
    return {Code::kStartup,
            fmt::format("{} on {} in use by another process: end it, or give another --port or --port-range", ports,
                        where.host),
            {}};
  }
  if (error == 0 && tls) {
    return {Code::kStartup, "the TLS certificate, key or authority was not accepted: see that the key fits", {}};
  }
  return {Code::kStartup,
          fmt::format("cannot listen on {}, {}: {}", where.host, ports, error == 0 ? "refused" : std::strerror(error)),
          {}};
}

Listener try_port(const Endpoint& where, const Security& security, Traffic traffic,
                  const std::function<void(grpc::ServerBuilder&)>& add_services) {
  grpc::ServerBuilder builder;
  const auto set = [&](const char* name, int value) { builder.AddChannelArgument(name, value); };
  keep_alive(set);
  set(GRPC_ARG_HTTP2_MIN_RECV_PING_INTERVAL_WITHOUT_DATA_MS, kKeepaliveMs / 4);
  set(GRPC_ARG_SERVER_HANDSHAKE_TIMEOUT_MS, kHandshakeMs);
  // With port reuse two processes would share the port, and each get a part of the calls.
  set(GRPC_ARG_ALLOW_REUSEPORT, 0);
  if (traffic == Traffic::kData) tune_for_data(set);
  if (traffic == Traffic::kData) builder.SetOption(std::make_unique<MutateSockets>());
  builder.SetMaxReceiveMessageSize(traffic == Traffic::kData ? -1 : kControlMessageMax);
  int port = 0;
  builder.AddListeningPort(to_text(where), server_credentials(security), &port);
  add_services(builder);
  Listener listener;
  listener.server = builder.BuildAndStart();
  listener.port = static_cast<uint16_t>(port);
  if (port == 0) listener.server.reset();
  return listener;
}

}  // namespace

std::shared_ptr<grpc::Channel> make_channel(const Endpoint& peer, const Security& security, Traffic traffic) {
  return grpc::CreateCustomChannel(to_text(peer), channel_credentials(security),
                                   client_arguments(traffic, is_this_host(peer.host)));
}

void sign(grpc::ClientContext& context, const Security& security) {
  context.AddMetadata(kTokenKey, security.token);
  context.AddMetadata(kBuildKey, security.build_id);
  context.AddMetadata(kProtocolKey, std::to_string(kProtocolVersion));
  // gRPC 1.51 loses a call that is cancelled in the moment in which its connection fails: it never ends. One that waits
  // for a connection does not fail with it, and its cancellation always comes through.
  context.set_wait_for_ready(true);
}

std::string metadata(const grpc::CallbackServerContext& context, const std::string& key) {
  const auto& all = context.client_metadata();
  const auto found = all.find(key);
  return found == all.end() ? std::string() : std::string(found->second.data(), found->second.size());
}

grpc::Status check_caller(const grpc::CallbackServerContext& context, const Security& security, const Log& log) {
  if (!equal_in_constant_time(metadata(context, kTokenKey), security.token)) {
    log.warn("refused a call from {}: wrong or missing job token", context.peer());
    return {grpc::StatusCode::UNAUTHENTICATED,
            "wrong or missing job token: give the job's with --token-file or DTRAIN_TOKEN"};
  }
  const std::string protocol = metadata(context, kProtocolKey);
  if (protocol != std::to_string(kProtocolVersion)) {
    log.warn("refused a call from {}: protocol version '{}', here {}", context.peer(), protocol, kProtocolVersion);
    return {grpc::StatusCode::FAILED_PRECONDITION,
            fmt::format("protocol version {} here, {} there: use one build", protocol, kProtocolVersion)};
  }
  const std::string build = metadata(context, kBuildKey);
  if (build != security.build_id && !security.allow_mixed_builds) {
    log.warn("refused a call from {}: build '{}', here '{}'", context.peer(), build, security.build_id);
    return {grpc::StatusCode::FAILED_PRECONDITION,
            fmt::format("build {} here, {} there: use one build, or --allow-mixed-builds everywhere", build,
                        security.build_id)};
  }
  return grpc::Status::OK;
}

Result<Listener> listen(const Listen& where, const Security& security, Traffic traffic,
                        const std::function<void(grpc::ServerBuilder&)>& add_services) {
  int error = 0;
  for (uint32_t port = where.port_first; port <= std::max(where.port_first, where.port_last); port++) {
    const Endpoint endpoint{where.host, static_cast<uint16_t>(port)};
    // Asked first: gRPC writes several lines to stderr when it cannot bind, and does not say why to the caller.
    error = bind_error(endpoint);
    if (error != 0) continue;
    Listener listener = try_port(endpoint, security, traffic, add_services);
    if (listener.server != nullptr) return listener;
    error = bind_error(endpoint);
  }
  return tl::unexpected(cannot_listen(where, error, security.tls.has_value()));
}

}  // namespace dtrain::rpc
