// What a process says of itself when it joins a job.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/error.h"
#include "job/flags.h"
#include "job/groups.h"
#include "rpc/job_types.h"

namespace dtrain::role {

// This machine's name for itself, by which a groups file may call its workers.
std::string host_name();

// Where the workers of a job that a launcher starts will say that they are, by rank; nothing: they are started by hand,
// or are given addresses in ways that show only then. On other hosts their addresses, which a groups file may use, are
// not known (empty). Code::kUsage: as job::read_seating.
Result<std::optional<std::vector<job::WorkerPlace>>> places_to_be(const job::Flags& flags);

// Rank, host and flags; the caller adds its address or its records.
rpc::JoinRequest join_request(const job::Flags& flags, rpc::Role role);

}  // namespace dtrain::role
