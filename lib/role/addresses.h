// Where a process of a job listens, and the address that it tells the other processes.
#pragma once

#include <string>

#include "base/error.h"
#include "job/flags.h"
#include "rpc/control_client.h"
#include "rpc/endpoint.h"
#include "rpc/security.h"

namespace dtrain::role {

// Of the scheduler: --bind, else the host of --scheduler, else of --interface, else of --advertise, else loopback.
// Code::kDenied where it would listen beyond loopback without a token.
Result<rpc::Listen> scheduler_listen(const job::LaunchFlags& flags, const std::string& token);
// What the scheduler prints for a launcher to read: --advertise, else what it listens on.
std::string scheduler_host(const job::LaunchFlags& flags, const rpc::Listen& listen);

// What processes on these hosts are told to reach this machine by: --advertise, --interface, else its own address on
// the route to the first of them that is another machine. Loopback only if all of them are this one. Code::kStartup: no
// such interface, host or route.
Result<std::string> launcher_address(const job::LaunchFlags& flags, const std::vector<std::string>& hosts);

// What peers of this process are told to reach it by: --advertise, --interface, else the own address on the route to
// the scheduler.
Result<std::string> own_host(const job::LaunchFlags& flags);

// The same as an address of this machine: what the host stands for here.
Result<std::string> own_address(const job::LaunchFlags& flags);

struct ServerAddress {
  rpc::Listen listen;
  std::string host;  // own_host
};
Result<ServerAddress> server_address(const job::LaunchFlags& flags, const std::string& token);

// Token, build id and certificates of this process.
Result<rpc::Security> security_of(const job::LaunchFlags& flags);
Result<rpc::ControlOptions> control_options(const job::Flags& flags, const rpc::Security& security,
                                            rpc::Incarnation incarnation);

}  // namespace dtrain::role
