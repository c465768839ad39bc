#include "role/process/addresses.h"

#include "job/flags/flags.h"
#include "job/process/build_id.h"
#include "job/process/token.h"
#include "rpc/certificates.h"

namespace dtrain::role {
namespace {

constexpr const char* kLoopback = "127.0.0.1";
constexpr const char* kEverywhere = "0.0.0.0";

void set_ports(const job::LaunchFlags& flags, uint16_t otherwise, net::Listen& listen) {
  listen.port_first = flags.port != 0 ? static_cast<uint16_t>(flags.port) : otherwise;
  if (flags.port == 0 && flags.port_last != 0) {
    listen.port_first = static_cast<uint16_t>(flags.port_first);
    listen.port_last = static_cast<uint16_t>(flags.port_last);
  }
}

// The address that a server binds if the other processes reach it as `own`. The server binds a single address if the
// flags determine one: the address of --interface, or the scheduler's if that is an address of this host. The address
// of --advertise is not bound, because it may belong to another host, for instance a router that forwards connections.
Result<std::string> server_bind(const job::LaunchFlags& flags, const std::string& own) {
  if (!flags.bind.empty()) return flags.bind;
  if (!flags.interfaces.empty()) return net::interface_address(flags.interfaces);
  if (job::is_loopback(own)) return own;
  if (!flags.advertise.empty()) return kEverywhere;
  DT_TRY(const net::Endpoint scheduler, net::parse_endpoint(flags.scheduler), "reading --scheduler");
  return net::is_this_host(scheduler.host) ? own : kEverywhere;
}

}  // namespace

Result<net::Listen> scheduler_listen(const job::LaunchFlags& flags, const std::string& token) {
  net::Endpoint named{kLoopback, 0};
  if (!flags.advertise.empty()) named.host = flags.advertise;
  if (!flags.interfaces.empty()) {
    DT_TRY(named.host, net::interface_address(flags.interfaces), "looking for --interface");
  }
  if (!flags.scheduler.empty()) {
    DT_TRY(named, net::parse_endpoint(flags.scheduler), "reading --scheduler");
  }
  net::Listen listen;
  listen.host = flags.bind.empty() ? named.host : flags.bind;
  set_ports(flags, named.port, listen);
  DT_TRY_VOID(job::check_token_policy(token, flags.insecure, listen.host));
  return listen;
}

std::string scheduler_host(const job::LaunchFlags& flags, const net::Listen& listen) {
  return flags.advertise.empty() ? listen.host : flags.advertise;
}

Result<std::string> launcher_address(const job::LaunchFlags& flags, const std::vector<std::string>& hosts) {
  if (!flags.advertise.empty() || !flags.interfaces.empty()) return own_host(flags);
  std::string address = kLoopback;
  for (const std::string& host : hosts) {
    DT_TRY(address, net::source_address({host, 1}),
           "finding the address at which {} reaches this host (--interface or --advertise also sets it)", host);
    if (!job::is_loopback(address)) break;
  }
  return address;
}

Result<std::string> own_host(const job::LaunchFlags& flags) {
  if (!flags.advertise.empty()) return flags.advertise;
  if (!flags.interfaces.empty()) {
    DT_TRY(std::string address, net::interface_address(flags.interfaces), "looking for --interface");
    return address;
  }
  DT_TRY(const net::Endpoint scheduler, net::parse_endpoint(flags.scheduler), "reading --scheduler");
  DT_TRY(std::string host, net::source_address(scheduler),
         "finding the address at which the scheduler's host reaches this host (--scheduler {})", flags.scheduler);
  return host;
}

Result<std::string> own_address(const job::LaunchFlags& flags) {
  DT_TRY(const std::string host, own_host(flags));
  // The route to one of this host's own addresses begins at that address; nothing is sent.
  return net::source_address({host, 1});
}

Result<ServerAddress> server_address(const job::LaunchFlags& flags, const std::string& token) {
  ServerAddress address;
  DT_TRY(address.host, own_host(flags));
  DT_TRY(address.listen.host, server_bind(flags, address.host));
  set_ports(flags, 0, address.listen);
  DT_TRY_VOID(job::check_token_policy(token, flags.insecure, address.listen.host));
  return address;
}

Result<rpc::Security> security_of(const job::LaunchFlags& flags) {
  rpc::Security security;
  DT_TRY(security.token, job::token_of(flags), "reading the job's token");
  security.build_id = job::build_id();
  security.allow_mixed_builds = flags.allow_mixed_builds;
  if (!flags.tls_cert.empty() || !flags.tls_key.empty() || !flags.tls_ca.empty()) {
    DT_TRY(security.tls, rpc::read_tls(flags.tls_cert, flags.tls_key, flags.tls_ca));
  }
  return security;
}

Result<> check_tls(const job::LaunchFlags& flags) {
  DT_TRY(const rpc::Security security, security_of(flags));
  if (!security.tls) return {};
  DT_TRY_VOID(rpc::check_certificates(*security.tls), "checking {}, {} and {}", flags.tls_cert, flags.tls_key,
              flags.tls_ca);
  return {};
}

Result<rpc::ControlOptions> control_options(const job::Flags& flags, const rpc::Security& security,
                                            rpc::Incarnation incarnation) {
  rpc::ControlOptions options;
  DT_TRY(options.scheduler, net::parse_endpoint(flags.launch.scheduler), "reading --scheduler");
  options.security = security;
  options.incarnation = incarnation;
  options.start_timeout = flags.wire.start_timeout;
  options.heartbeat_interval = flags.wire.heartbeat_interval;
  options.heartbeat_timeout = flags.wire.heartbeat_timeout;
  options.scheduler_grace = flags.wire.scheduler_grace;
  return options;
}

}  // namespace dtrain::role
