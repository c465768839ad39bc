// The scheduler's process.
#pragma once

#include <string>

#include "base/error.h"
#include "base/signals.h"
#include "job/spec/job_spec.h"
#include "sync/membership.h"

namespace dtrain::job {
struct Flags;
struct JobFlags;
}  // namespace dtrain::job

namespace dtrain::role {

// How the scheduler admits the processes of the job and notices their loss.
sync::membership::Settings membership_settings(const job::Flags& flags, const job::JobSpec& spec);

// Where each slice of each parameter and statistic lives; empty if there are no servers.
Result<std::string> placement_of(const job::JobFlags& flags);

// Waits for the job's processes to join, completes the JobSpec, and returns when the job is over. Prints to stdout, for
// a launcher to read, the line "dtrain scheduler HOST:PORT" and lines of progress (job/process/progress.h).
Result<int> run_scheduler(const job::Flags& flags, const Signals& signals);

}  // namespace dtrain::role
