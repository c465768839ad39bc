// The hosts of a job, and which process runs where (docs/formats.md, "Host files"). One host per line; # begins a
// comment:
//
//   node1   172.30.0.172   [fe80::1]   node2:2222   user=U   slots=4   gpus=0,1   role=worker
//
// The host comes first, optionally with its ssh port; key=value settings follow. A host may have several lines. It then
// takes one turn per line when processes are spread over the hosts.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "job/flags.h"

namespace dtrain::job {

struct HostLine {
  std::string host;                   // without brackets
  int64_t ssh_port = 0;               // 0: as ssh is set up
  std::string user = {};              // empty: the same
  std::optional<int64_t> slots = {};  // processes at most, servers and workers; nothing: no limit
  std::vector<int64_t> gpus = {};     // shared out among the host's workers; empty: nothing is said
  Role role = Role::kNone;            // only servers or only workers run here; kNone: any
  int64_t number = 0;                 // of the line
};

struct HostFile {
  std::string name;  // for messages
  std::vector<HostLine> lines;
};

// Code::kUsage names the line: what is no host, an unknown or repeated key, a value of the wrong form. Also: no host.
Result<HostFile> parse_host_file(std::string_view text, const std::string& name);

// How ssh reaches a host.
struct SshAddress {
  std::string host;
  int64_t port = 0;       // 0: as ssh is set up
  std::string user = {};  // empty: the same
  auto operator<=>(const SshAddress&) const = default;
};

// The distinct hosts of a file, in its order.
std::vector<SshAddress> ssh_addresses(const HostFile& file);

struct Seat {
  std::string host;
  std::vector<int64_t> gpus = {};  // empty: as the flags say
  SshAddress ssh = {};
};
struct Seating {
  std::vector<Seat> servers = {}, workers = {};  // by rank
};

// Servers, then workers. Spread: in turns over the lines, a line that is full or for others is passed over. Pack: each
// line is filled before the next one, so that each needs slots. The GPUs of a host, of all its lines, are divided among
// its workers in order of rank, as evenly as they go. Code::kUsage: no place is left, more workers than GPUs.
struct SeatingOptions {
  int64_t servers = 0, workers = 0;
  HostOrder order = HostOrder::kSpread;
};
Result<Seating> seat(const HostFile& file, const SeatingOptions& options);

// Reads --hostfile and seats the processes of the job; nothing without one.
Result<std::optional<Seating>> read_seating(const Flags& flags);

}  // namespace dtrain::job
