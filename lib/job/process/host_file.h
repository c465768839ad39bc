// The hosts of a job, and which process runs where (docs/formats.md, "Host files"). One host per line; # begins a
// comment:
//
//   node1   172.30.0.172   [fe80::1]   node2:2222   user=U   slots=4   gpus=0,1   role=worker   spare=1
//
// The host comes first, optionally with its ssh port; key=value settings follow. gpus= takes a list of numbers and
// ranges, or auto (all GPUs of the host). A host may have several lines. It then takes one turn per line when processes
// are spread over the hosts. A spare host gets processes only in place of a host that is lost.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "job/flags/choices.h"
#include "job/flags/gpu_list.h"
#include "job/process/process_name.h"

namespace dtrain::job {

struct Flags;

struct HostLine {
  std::string host;                   // host name or address; an IPv6 address is without its brackets
  int64_t ssh_port = 0;               // port of the host's ssh server; 0: ssh's own configuration decides
  std::string user = {};              // user name for ssh; empty: ssh's own configuration decides
  std::optional<int64_t> slots = {};  // maximum number of servers and workers together; nullopt: no limit
  GpuList gpus = {};                  // GPUs, which are divided among the host's workers; empty: not given
  Role role = Role::kNone;            // only servers or only workers run here; kNone: both may
  bool is_spare = false;              // whether the host waits for another one to be lost
  int64_t number = 0;                 // line number in the file, from 1
};

struct HostFile {
  std::string name;  // name of the file, for messages
  std::vector<HostLine> lines;
};

// Code::kUsage, naming the line, for a bad host, an unknown or repeated key, or a malformed value; also for a file
// without hosts.
Result<HostFile> parse_host_file(std::string_view text, const std::string& name);

// How ssh reaches a host.
struct SshAddress {
  std::string host;
  int64_t port = 0;       // port of the host's ssh server; 0: ssh's own configuration decides
  std::string user = {};  // user name for ssh; empty: ssh's own configuration decides
  auto operator<=>(const SshAddress&) const = default;
};

// Puts the file's first spare host in the place of `lost` on every line of that host: the spare's address, and its GPUs
// if it names some. Returns the name of the spare host; nullopt, with nothing changed, if there is none left.
std::optional<std::string> use_spare(HostFile& file, const SshAddress& lost);

// The distinct hosts of a file, in the file's order.
std::vector<SshAddress> ssh_addresses(const HostFile& file);

struct ProcessSlot {
  std::string host;
  GpuList gpus = {};  // GPUs of the process; empty: the flags decide
  SshAddress ssh = {};
};
struct HostAssignment {
  std::vector<ProcessSlot> servers = {}, workers = {};  // the slot of each server and of each worker, indexed by rank
  std::vector<ProcessSlot> spares = {};  // the spare hosts in the file's order, each with all GPUs that it names
};

struct AssignmentOptions {
  int64_t servers = 0, workers = 0;
  HostOrder order = HostOrder::kSpread;
  bool all_gpus = false;  // --gpus all: the workers of a host whose lines name no GPUs share all of its GPUs
};
// Assigns the servers to hosts, then the workers. HostOrder::kSpread goes round the lines, one process per line, and
// skips lines that are full or reserved for the other role. kPack fills each line before the next, so every line must
// have slots. The GPUs of all lines of a host are divided among its workers in order of rank, as evenly as possible; of
// gpus=auto, each worker gets a part (GpuList).
// Code::kUsage: no place is left, a host has more workers than GPUs, or slots are missing for kPack.
Result<HostAssignment> assign_hosts(const HostFile& file, const AssignmentOptions& options);

// What the flags say about the assignment.
AssignmentOptions assignment_options(const Flags& flags);

// Reads --hostfile; nullopt if the flag is not given.
Result<std::optional<HostFile>> read_host_file(const Flags& flags);
// Reads --hostfile and assigns the processes of the job to its hosts; nullopt if the flag is not given.
Result<std::optional<HostAssignment>> read_host_assignment(const Flags& flags);

}  // namespace dtrain::job
