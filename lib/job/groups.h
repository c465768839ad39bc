// The groups of GSP (docs/protocol.md, "Groups"): a file with one group per line. Each word names a worker:
//
//   10.10.10.22 10.10.10.23      one worker of each host; repeat a host for each of its workers in the group
//   node4:0 [fe80::1]:1          the first worker of node4, the second of fe80::1, counted in order of rank
//   #0 #3                        workers by rank (# does not begin a comment)
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "job/flags.h"

namespace dtrain::job {

// By what names the file may call a worker. Any of them may be empty.
struct WorkerPlace {
  std::string host;     // as in the host file, or as the machine calls itself
  std::string address;  // without a port
};

struct GroupsFile {
  std::string name;  // for messages
  std::string text;
};

// The group of each worker, by rank: 0 is the first line's. `workers` by rank. Under Ungrouped::kOwn those in no group
// have groups behind the lines', in order of rank. Code::kUsage names the line and the worker: one that there is not,
// one that stands twice, a host that stands more often than it has workers, a worker in no group.
Result<std::vector<int64_t>> parse_groups(const GroupsFile& file, const std::vector<WorkerPlace>& workers,
                                          Ungrouped ungrouped);

// The text that parse_groups reads back for the same workers. `groups` by rank, each number from 0 on at least once.
// Workers by host, with their place on it where it has several; by rank where all have one host.
std::string format_groups(const std::vector<int64_t>& groups, const std::vector<WorkerPlace>& workers);
// Whether all words could be workers: a text of another kind is not to be overwritten.
bool looks_like_groups(std::string_view text);

}  // namespace dtrain::job
