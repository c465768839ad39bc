// The messages between the scheduler and the other processes of a job, as values.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "job/process/coordinator.h"
#include "sync/membership.h"
#include "telemetry/registry.h"

namespace dtrain::rpc {

using sync::membership::Incarnation;
using sync::membership::Member;
using sync::membership::Role;

struct Node {
  Member member;
  Incarnation incarnation = 0;
  std::string address;    // servers: "host:port" of their data service; workers: where they are, without a port
  std::string host = {};  // its own host name, which only the scheduler learns
};

struct JoinRequest {
  Role role = Role::kWorker;
  std::optional<uint32_t> want_rank = {};
  std::string host = {};
  std::string address = {};    // servers: "host:port" where workers reach them; workers: where they are
  std::string job_text = {};   // its own flags, as lines "key = value"; the value "auto" agrees with every other
  uint64_t records_train = 0;  // workers: of their data set
  uint64_t records_val = 0;
  bool lacks_index = false;  // workers: a record file has no index, so the numbers of records are not known yet
};

// What a worker reports about its data when it is prepared.
struct Records {
  uint64_t train = 0;
  uint64_t val = 0;
};

struct JoinReply {
  uint32_t rank = 0;
  std::vector<Node> nodes;  // workers by rank, then servers by rank
  std::string job_text;     // complete
  uint64_t records_train = 0;
  uint64_t records_val = 0;

  [[nodiscard]] std::vector<Node> of(Role role) const {
    std::vector<Node> found;
    for (const Node& node : nodes) {
      if (node.member.role == role) found.push_back(node);
    }
    return found;
  }
};

// A heartbeat's content.
struct Pulse {
  job::WorkerProgress progress;
  std::string wait;  // the oldest open wait, empty if none
  double wait_s = 0;
  telemetry::Snapshot metrics = {};  // of the process
};

}  // namespace dtrain::rpc
