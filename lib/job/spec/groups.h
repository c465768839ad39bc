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
#include "job/flags/choices.h"

namespace dtrain::job {

// The names by which the file may refer to a worker's host. Either may be empty.
struct WorkerPlace {
  std::string host;     // name of the worker's host in the host file, or the host's own hostname
  std::string address;  // address of the worker's host, without a port
};

struct GroupsFile {
  std::string name;  // name of the file, for messages
  std::string text;
};

// Returns the group of each worker, indexed by rank; the first line is group 0. `workers` is ordered by rank. With
// Ungrouped::kOwn, each worker that the file does not name gets a group of its own, numbered after those of the lines
// in order of rank. Code::kUsage, naming the line and the word: a worker does not exist or is named twice, or a host is
// named more often than it has workers. With Ungrouped::kError, a worker in no group is also an error.
Result<std::vector<int64_t>> parse_groups(const GroupsFile& file, const std::vector<WorkerPlace>& workers,
                                          Ungrouped ungrouped);

// The inverse of parse_groups: parse_groups turns the text back into the same groups if it is given the same workers.
// `groups` is ordered by rank; each number from 0 to the largest must occur. Workers are named by host, or host:place
// if the host has several; by rank if all are on one host.
std::string format_groups(const std::vector<int64_t>& groups, const std::vector<WorkerPlace>& workers);
// True if every word could name a worker. Used so that a file of another kind is not overwritten.
bool looks_like_groups(std::string_view text);

}  // namespace dtrain::job
