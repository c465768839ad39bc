#include "role/process/membership.h"

#include "base/host_limits.h"
#include "job/process/host_file.h"
#include "job/spec/job_spec.h"
#include "net/endpoint.h"

namespace dtrain::role {

Result<std::optional<std::vector<job::WorkerPlace>>> places_to_be(const job::Flags& flags) {
  const job::LaunchFlags& launch = flags.launch;
  const bool chosen_there = launch.advertise.empty() && (!launch.bind.empty() || !launch.interfaces.empty());
  const bool local = !launch.on_other_hosts();
  if (launch.role != job::Role::kNone || (local && chosen_there)) return std::nullopt;
  const std::string address = !local ? "" : launch.advertise.empty() ? "127.0.0.1" : launch.advertise;
  DT_TRY(const std::optional<job::HostAssignment> hosts, job::read_host_assignment(flags));
  std::vector<job::WorkerPlace> places;
  for (int64_t rank = 0; rank < flags.job.num_workers; rank++) {
    places.push_back({hosts ? hosts->workers[static_cast<size_t>(rank)].host : host_name(), address});
  }
  return places;
}

rpc::JoinRequest join_request(const job::Flags& flags, rpc::Role role) {
  rpc::JoinRequest request;
  request.role = role;
  if (flags.launch.rank) request.want_rank = static_cast<uint32_t>(*flags.launch.rank);
  request.host = host_name();
  request.job_text = job::text(job::requested(flags));
  request.is_late = flags.launch.joins;
  request.is_launched = flags.launch.joins && flags.launch.has_launcher;
  return request;
}

namespace {

// Returns the host of a node. Servers are listed with the port of their data service, workers without a port.
std::string host_of(const rpc::Node& node) {
  const Result<net::Endpoint> endpoint = net::parse_endpoint(node.address);
  return endpoint ? endpoint->host : node.address;
}

}  // namespace

HostShare host_share(const rpc::JoinReply& reply, rpc::Role role) {
  std::string own;
  for (const rpc::Node& node : reply.nodes) {
    if (node.member.role == role && node.member.rank == reply.rank) own = host_of(node);
  }
  HostShare share;
  for (const rpc::Node& node : reply.nodes) {
    if (host_of(node) == own) (node.member.role == rpc::Role::kWorker ? share.workers : share.servers)++;
  }
  return share;
}

void set_host_roles(const HostShare& share, job::LaunchFlags& launch) {
  if (launch.host_roles == 0) launch.host_roles = share.workers + share.servers;
}

}  // namespace dtrain::role
