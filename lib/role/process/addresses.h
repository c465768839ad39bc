// Where a process of a job listens, and the address that it reports to the other processes.
#pragma once

#include <string>
#include <vector>

#include "base/error.h"
#include "net/endpoint.h"
#include "rpc/control_client.h"
#include "rpc/security.h"

namespace dtrain::job {
struct Flags;
struct LaunchFlags;
}  // namespace dtrain::job

namespace dtrain::role {

// Where the scheduler listens: --bind, else the host of --scheduler, else the address of --interface, else --advertise,
// else loopback. Code::kDenied if it would listen beyond loopback without a token.
Result<net::Listen> scheduler_listen(const job::LaunchFlags& flags, const std::string& token);
// The host that the scheduler prints for a launcher to read: --advertise, else the host it listens on.
std::string scheduler_host(const job::LaunchFlags& flags, const net::Listen& listen);

// The address at which processes on `hosts` reach this host: --advertise, else the address of --interface, else this
// host's own address on the route to the first of `hosts` that is another host; or loopback if all of them are this
// host. Code::kStartup if there is no such interface, host or route.
Result<std::string> launcher_address(const job::LaunchFlags& flags, const std::vector<std::string>& hosts);

// The host name or address at which peers reach this process: --advertise, else the address of --interface, else this
// host's own address on the route to the scheduler.
Result<std::string> own_host(const job::LaunchFlags& flags);

// own_host, resolved to an address of this host.
Result<std::string> own_address(const job::LaunchFlags& flags);

struct ServerAddress {
  net::Listen listen;
  std::string host;  // the result of own_host()
};
Result<ServerAddress> server_address(const job::LaunchFlags& flags, const std::string& token);

// The token, build id and certificates of this process.
Result<rpc::Security> security_of(const job::LaunchFlags& flags);

// Code::kUsage if the certificates that the flags name cannot be used; kNotFound if the files do not exist on this
// host.
Result<> check_tls(const job::LaunchFlags& flags);
Result<rpc::ControlOptions> control_options(const job::Flags& flags, const rpc::Security& security,
                                            rpc::Incarnation incarnation);

}  // namespace dtrain::role
