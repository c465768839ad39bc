// Environment variables of ps-lite, its trackers and MXNet. They are fallbacks for flags, so that existing launch
// scripts work. A variable that corresponds to exactly one flag is named in that flag's row (FlagRow::environment); the
// others are handled here.
#pragma once

#include <string>
#include <vector>

#include "base/error.h"
#include "job/flags/flag_table.h"
#include "job/flags/flags.h"

namespace dtrain::job {

// The flags that the environment sets.
std::vector<Setting> environment_settings(const FlagTable<Flags>& table, const Environment& environment);

// Appends to an error about the flags which of them were set by environment variables. A variable left over from
// another job changes what a command does, and the user does not see it in the command.
Error with_variables(Error error, const Flags& flags, const Environment& environment);

// The rank that a tracker has given to this worker or server: DMLC_WORKER_ID or DMLC_SERVER_ID. The local tracker sets
// DMLC_TASK_ID instead, which numbers the workers first and then the servers. Nullopt if no rank is given.
Result<std::optional<int64_t>> environment_rank(const Environment& environment, Role role, int64_t num_workers);

// Variables that a launcher sets: the number of servers and workers that share this host, how often it has started the
// job again, and, for a scheduler or server, whether it takes the place of one of the running job (a scheduler: of how
// many).
inline constexpr const char* kHostRolesVariable = "DTRAIN_HOST_ROLES";
inline constexpr const char* kRestartVariable = "DTRAIN_RESTART";
inline constexpr const char* kReturnsVariable = "DTRAIN_RETURNS";
// The number in such a variable; 0 if it is not set.
Result<int64_t> environment_number(const Environment& environment, const char* name);

// One sentence for each variable that is set but has no effect in this version of dtrain, and for each that changes the
// meaning of this command. Variables may outlive the job for which they were set.
std::vector<std::string> environment_notes(const Flags& flags, const Environment& environment);

}  // namespace dtrain::job
