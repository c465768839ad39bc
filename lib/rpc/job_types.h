// The messages between the scheduler and the other processes of a job, as plain values.
#pragma once

#include <chrono>
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
  std::string address;    // servers: "host:port" of their data service; workers: their address, without a port
  std::string host = {};  // the process's own host name, which only the scheduler learns
};

struct JoinRequest {
  Role role = Role::kWorker;
  std::optional<uint32_t> want_rank = {};
  std::string host = {};
  std::string address = {};   // servers: "host:port" where workers reach them; workers: their address
  std::string job_text = {};  // the process's own flags, as lines "key = value"; the value "auto" agrees with any other
  uint64_t records_train = 0;  // workers: number of records in their data set
  uint64_t records_val = 0;
  bool lacks_index = false;  // workers: a record file has no index, so the numbers of records are not known yet
  uint64_t data_hash = 0;    // workers: a hash of the data sets
  bool is_late = false;      // a worker that joins the running job
  bool is_launched = false;  // of a late worker: whether a launcher has started it and reports its end
  // Of a late worker: the incarnation with which this process had a seat that it has lost. It then gets the seat
  // `want_rank` if nobody has it, and any other one otherwise. 0: it had none.
  Incarnation formerly = 0;
};

// The numbers of records that a worker reports when it has prepared its data.
struct Records {
  uint64_t train = 0;
  uint64_t val = 0;
  uint64_t hash = 0;  // of the data sets
};

struct JoinReply {
  uint32_t rank = 0;
  uint32_t seats = 0;       // the number of seats of workers; a rank without a node is empty
  std::vector<Node> nodes;  // workers by rank, then servers by rank
  std::string job_text;     // the text of the complete JobSpec
  uint64_t records_train = 0;
  uint64_t records_val = 0;
  // Of a server that takes the place of a lost one: how often the servers had gone back to snapshots before
  // (sync::View). Nullopt: the process is no such server.
  std::optional<uint64_t> restores = {};

  [[nodiscard]] std::vector<Node> of(Role role) const {
    std::vector<Node> found;
    for (const Node& node : nodes) {
      if (node.member.role == role) found.push_back(node);
    }
    return found;
  }
};

// The snapshots of a server.
struct SnapshotReport {
  std::vector<uint64_t> versions = {};  // those that are durable
  bool needs_none = false;              // whether the server has no slice of a parameter
};

// A connection to a server that this worker has lost and not opened again.
struct LostLink {
  uint32_t server = 0;
  std::chrono::steady_clock::time_point since;
  std::string why;  // a text such as "from node1 to 10.0.0.2:4000: Connection refused"
  bool operator==(const LostLink&) const = default;
};

// The content of a heartbeat.
struct Pulse {
  job::WorkerProgress progress;
  // The oldest open wait for another process; if there is none, the oldest own work that may take long; else empty.
  std::string wait = {};
  double wait_s = 0;
  bool is_own_work = false;          // whether `wait` is own work
  telemetry::Snapshot metrics = {};  // metrics of the process
  double report_age_s = 0;           // age of `wait` and `metrics`
};

}  // namespace dtrain::rpc
