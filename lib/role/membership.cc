#include "role/membership.h"

#include <unistd.h>

#include <array>

#include "job/job_spec.h"

namespace dtrain::role {

std::string host_name() {
  std::array<char, 256> host{};
  ::gethostname(host.data(), host.size() - 1);
  return host.data();
}

rpc::JoinRequest join_request(const job::Flags& flags, rpc::Role role) {
  rpc::JoinRequest request;
  request.role = role;
  if (flags.launch.rank) request.want_rank = static_cast<uint32_t>(*flags.launch.rank);
  request.host = host_name();
  request.job_text = job::text(job::requested(flags));
  request.devices = {"cpu(0)"};
  return request;
}

}  // namespace dtrain::role
