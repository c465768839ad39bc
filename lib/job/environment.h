// Environment variables of ps-lite, its trackers and MXNet. They are fallbacks for flags, so that existing launch
// scripts work. A variable that corresponds to exactly one flag is named in that flag's row (FlagRow::environment); the
// others are handled here.
#pragma once

#include <string>
#include <vector>

#include "base/error.h"
#include "job/flag_table.h"
#include "job/flags.h"

namespace dtrain::job {

std::vector<Setting> environment_settings(const FlagTable<Flags>& table, const Environment& environment);

// The rank that a tracker gave to this process, once role and W are known. DMLC_WORKER_ID and DMLC_SERVER_ID; with the
// local tracker DMLC_TASK_ID, which counts workers first.
Result<std::optional<int64_t>> environment_rank(const Environment& environment, Role role, int64_t num_workers);

// DTRAIN_HOST_ROLES, by which a launcher says how many servers and workers share a host; 0: not set.
Result<int64_t> environment_host_roles(const Environment& environment);

// A line for each variable that is set, and that this version of dtrain does not follow.
std::vector<std::string> environment_notes(const Environment& environment);

}  // namespace dtrain::job
