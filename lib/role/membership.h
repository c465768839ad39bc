// What a process says of itself when it joins a job.
#pragma once

#include <string>

#include "job/flags.h"
#include "rpc/job_types.h"

namespace dtrain::role {

// This machine's name for itself, by which a groups file may call its workers.
std::string host_name();

// Rank, host and flags; the caller adds its address or its records.
rpc::JoinRequest join_request(const job::Flags& flags, rpc::Role role);

}  // namespace dtrain::role
