#include "rpc/channel.h"

#include <grpc/grpc.h>
#include <grpcpp/create_channel.h>
#include <grpcpp/generic/async_generic_service.h>
#include <grpcpp/resource_quota.h>
#include <grpcpp/security/credentials.h>
#include <grpcpp/security/server_credentials.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <tuple>

#include "base/printable.h"
#include "job/process/token.h"
#include "net/listening_sockets.h"
#include "rpc/congestion.h"
#include "rpc/data_message.h"
#include "rpc/message_faults.h"

namespace dtrain::rpc {
namespace {

constexpr const char* kTokenKey = "dtrain-token";
constexpr const char* kBuildKey = "dtrain-build";
constexpr const char* kProtocolKey = "dtrain-protocol";

constexpr int kControlReplyMax = 64 << 20;   // the reply to a barrier holds the messages of all workers
constexpr int kControlRequestMax = 8 << 20;  // the request of a barrier holds one worker's message, at most 4 MiB
constexpr int kDataMessageMax = static_cast<int>(kDataMessageBytesMax);

// Heartbeats detect a lost process sooner than pings do, but only once the job runs.
constexpr int kKeepaliveMs = 20'000;
// The shortest time between two pings that a server accepts. A worker pings its servers often enough to notice a cut
// connection within the heartbeat timeout, which is at least 300 ms.
constexpr int kPingGapMs = 50;

// Each connection holds a file descriptor, and a process has few of them. A connection is closed if nothing has arrived
// on it within this time, if its HTTP/2 handshake takes longer, or if it carries no call for this long: every member of
// a job always has a call open. gRPC's own limits are two minutes for the handshake and none for idle connections.
constexpr int kSilenceMs = 5'000;
// gRPC checks once per interval whether there was a call since the last check, so a connection may live for up to twice
// this time after its last call.
constexpr int kIdleMs = 2'000;

// The limit on concurrent calls over one connection. A member has either a control stream and one or two calls, or a
// data stream and perhaps an old one that it has just given up. gRPC's default is no limit.
constexpr int kStreamsMax = 16;

// Sets the options for tensor throughput, which are the same at both ends of a connection. Together with cubic on
// loopback, they raised push and pull of 4 MiB from 1.22 to 1.94 GB/s. `look_ahead`: for this end.
template <class Arguments>
void tune_for_data(size_t look_ahead, Arguments&& set) {
  set(GRPC_ARG_HTTP2_MAX_FRAME_SIZE, 16777215);
  set(GRPC_ARG_HTTP2_STREAM_LOOKAHEAD_BYTES, static_cast<int>(look_ahead));
  set(GRPC_ARG_HTTP2_BDP_PROBE, 0);
  set(GRPC_ARG_TCP_READ_CHUNK_SIZE, 1 << 20);
}

template <class Arguments>
void keep_alive(const Silence& silence, Arguments&& set) {
  set(GRPC_ARG_KEEPALIVE_TIME_MS, static_cast<int>(silence.ping_after.count()));
  set(GRPC_ARG_KEEPALIVE_TIMEOUT_MS, static_cast<int>(silence.ping_limit.count()));
  set(GRPC_ARG_KEEPALIVE_PERMIT_WITHOUT_CALLS, 1);
  set(GRPC_ARG_HTTP2_MAX_PINGS_WITHOUT_DATA, 0);
}

grpc::ChannelArguments client_arguments(Traffic traffic, const Silence& silence, bool this_host) {
  grpc::ChannelArguments arguments;
  const auto set = [&](const char* name, int value) { arguments.SetInt(name, value); };
  keep_alive(silence, set);
  if (traffic == Traffic::kData) tune_for_data(kLookAheadMax, set);
  if (traffic == Traffic::kData && this_host) arguments.SetSocketMutator(loopback_mutator());
  set(GRPC_ARG_MAX_RECEIVE_MESSAGE_LENGTH, traffic == Traffic::kData ? kDataMessageMax : kControlReplyMax);
  set(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
  // dtrain retries failed calls itself. With the retries of gRPC 1.51, about one stream in several thousand that lost
  // its connection never ended, so nothing opened a new one.
  set(GRPC_ARG_ENABLE_RETRIES, 0);
  set(GRPC_ARG_INITIAL_RECONNECT_BACKOFF_MS, 100);
  set(GRPC_ARG_MIN_RECONNECT_BACKOFF_MS, 100);
  // A control stream must be reopened within a second, or its process counts as lost.
  set(GRPC_ARG_MAX_RECONNECT_BACKOFF_MS, traffic == Traffic::kControl ? 200 : 1000);
  // The peers are in the same cluster: ignore proxies in the environment and configuration from name servers.
  set(GRPC_ARG_ENABLE_HTTP_PROXY, 0);
  set(GRPC_ARG_SERVICE_CONFIG_DISABLE_RESOLUTION, 1);
  return arguments;
}

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

Error cannot_listen(const net::Listen& where, int error) {
  const uint16_t last = std::max(where.port_first, where.port_last);
  const std::string ports =
      last == where.port_first ? fmt::format("port {}", last) : fmt::format("ports {} to {}", where.port_first, last);
  if (error == EADDRINUSE) {
    return {Code::kStartup,
            fmt::format("cannot listen on {}, {}, because another process uses it; end that process, or give another "
                        "--port or --port-range",
                        where.host, ports),
            {}};
  }
  if (error == EADDRNOTAVAIL) {
    return {Code::kStartup,
            fmt::format("cannot listen on {}, {}: this host has no such address; --bind sets the address to listen on, "
                        "and --scheduler or --advertise the address that others connect to",
                        where.host, ports),
            {}};
  }
  return {Code::kStartup, fmt::format("cannot listen on {}, {}: {}", where.host, ports, std::strerror(error)), {}};
}

using Handler = std::shared_ptr<grpc::experimental::ExternalConnectionAcceptor>;

// Whether a server accepts these credentials. gRPC reports unusable credentials only for a server with a port of its
// own, not for one that gets its connections from an acceptor. So this function starts a server with a port to find
// out.
bool are_usable(const std::shared_ptr<grpc::ServerCredentials>& credentials) {
  grpc::CallbackGenericService none;
  grpc::ServerBuilder builder;
  int port = 0;
  builder.AddListeningPort("127.0.0.1:0", credentials, &port);
  builder.RegisterCallbackGenericService(&none);
  const std::unique_ptr<grpc::Server> server = builder.BuildAndStart();
  return server != nullptr && port != 0;
}

// Returns gRPC's server and the handler that passes accepted connections to it.
std::pair<std::unique_ptr<grpc::Server>, Handler> build_server(
    const Security& security, Traffic traffic, const std::function<void(grpc::ServerBuilder&)>& add_services,
    size_t memory_max, size_t look_ahead) {
  using Builder = grpc::ServerBuilder::experimental_type;
  grpc::ServerBuilder builder;
  const auto set = [&](const char* name, int value) { builder.AddChannelArgument(name, value); };
  keep_alive({}, set);
  set(GRPC_ARG_HTTP2_MIN_RECV_PING_INTERVAL_WITHOUT_DATA_MS, traffic == Traffic::kData ? kPingGapMs : kKeepaliveMs / 4);
  set(GRPC_ARG_SERVER_HANDSHAKE_TIMEOUT_MS, kSilenceMs);
  set(GRPC_ARG_MAX_CONNECTION_IDLE_MS, kIdleMs);
  if (traffic == Traffic::kData) tune_for_data(look_ahead, set);
  // Control messages are small, so each stream keeps the default window of 64 KiB for data that has not been read yet.
  if (traffic == Traffic::kControl) set(GRPC_ARG_HTTP2_BDP_PROBE, 0);
  set(GRPC_ARG_MAX_CONCURRENT_STREAMS, kStreamsMax);
  if (memory_max > 0) builder.SetResourceQuota(grpc::ResourceQuota("dtrain").Resize(memory_max));
  builder.SetMaxReceiveMessageSize(traffic == Traffic::kData ? kDataMessageMax : kControlRequestMax);
  Handler handler = builder.experimental().AddExternalConnectionAcceptor(Builder::ExternalConnectionType::FROM_FD,
                                                                         server_credentials(security));
  add_services(builder);
  return {builder.BuildAndStart(), std::move(handler)};
}

void push(UniqueFd connection, Traffic traffic, grpc::experimental::ExternalConnectionAcceptor& handler) {
  if (traffic == Traffic::kData) tune_loopback(connection.get());
  grpc::experimental::ExternalConnectionAcceptor::NewConnectionParameters parameters;
  parameters.fd = connection.release();
  handler.HandleNewConnection(&parameters);
}

}  // namespace

std::shared_ptr<grpc::Channel> make_channel(const net::Endpoint& peer, const Security& security, Traffic traffic,
                                            const Silence& silence, const std::shared_ptr<FailPoints>& points) {
  return grpc::experimental::CreateCustomChannelWithInterceptors(
      to_text(peer), channel_credentials(security), client_arguments(traffic, silence, net::is_this_host(peer.host)),
      message_counters(points));
}

void sign(grpc::ClientContext& context, const Security& security) {
  context.AddMetadata(kTokenKey, security.token);
  context.AddMetadata(kBuildKey, security.build_id);
  context.AddMetadata(kProtocolKey, std::to_string(kProtocolVersion));
  // In gRPC 1.51, a call that is cancelled at the moment when its connection fails may never end. A call that waits for
  // a connection does not fail with it, and cancelling it always works.
  context.set_wait_for_ready(true);
}

std::string metadata(const grpc::CallbackServerContext& context, const std::string& key) {
  const auto& all = context.client_metadata();
  const auto found = all.find(key);
  return found == all.end() ? std::string() : std::string(found->second.data(), found->second.size());
}

grpc::Status check_caller(const grpc::CallbackServerContext& context, const Security& security, net::RefusalLog& log) {
  if (!job::same_token(metadata(context, kTokenKey), security.token)) {
    log.warn(fmt::format("refused a call from {}: wrong or missing job token", context.peer()));
    return {grpc::StatusCode::UNAUTHENTICATED,
            "wrong or missing job token: give the token of the job with --token-file or DTRAIN_TOKEN"};
  }
  const std::string protocol = printable(metadata(context, kProtocolKey));
  if (protocol != std::to_string(kProtocolVersion)) {
    log.warn(fmt::format("refused a call from {}: its protocol version is '{}', but must be {}", context.peer(),
                         protocol, kProtocolVersion));
    return {grpc::StatusCode::FAILED_PRECONDITION,
            fmt::format("this process has protocol version {}, but the called process has {}: use the same build of "
                        "dtrain everywhere",
                        protocol, kProtocolVersion)};
  }
  const std::string build = metadata(context, kBuildKey);
  if (build != security.build_id && !security.allow_mixed_builds) {
    log.warn(fmt::format("refused a call from {}: its build is '{}', but this process has build '{}'", context.peer(),
                         printable(build), security.build_id));
    return {grpc::StatusCode::FAILED_PRECONDITION,
            fmt::format("this process is build {}, but the called process is build {}: use the same build everywhere, "
                        "or give --allow-mixed-builds to all processes",
                        printable(build), security.build_id)};
  }
  return grpc::Status::OK;
}

Result<Listener> listen(const net::Listen& where, const Security& security, Traffic traffic, const Log& log,
                        const std::function<void(grpc::ServerBuilder&)>& add_services, size_t memory_max,
                        size_t look_ahead) {
  tl::expected<net::ListeningSockets, int> opened = net::open_first_port(where, kKeepaliveMs);
  if (!opened) return tl::unexpected(cannot_listen(where, opened.error()));
  if (security.tls && !are_usable(server_credentials(security))) {
    return fail(
        Code::kStartup,
        "the TLS files cannot be used: check that --tls-key belongs to --tls-cert and that all three files are PEM");
  }
  Listener listener;
  listener.port = opened->port;
  Handler handler;
  std::tie(listener.server, handler) = build_server(security, traffic, add_services, memory_max, look_ahead);
  if (listener.server == nullptr) return fail(Code::kStartup, "gRPC cannot start its server");
  // gRPC gets a connection when its peer has sent the first bytes. gRPC's own listener has no limits, and stops for
  // good when accept() fails, for instance because the process has no file descriptor left.
  const auto take = [traffic, handler](UniqueFd connection) { push(std::move(connection), traffic, *handler); };
  listener.acceptor = std::make_unique<net::AcceptorThread>(
      std::move(opened->sockets), net::AcceptorLimits::of_process(), log, [take](UniqueFd connection) {
        return std::make_unique<net::SilentPeer>(std::move(connection), std::chrono::milliseconds(kSilenceMs), take);
      });
  return listener;
}

void Listener::shutdown(std::chrono::system_clock::time_point deadline) {
  acceptor.reset();
  server->Shutdown(deadline);
}

}  // namespace dtrain::rpc
