// Runs the scheduler process.
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

// The settings for admitting the processes of the job and for detecting lost ones.
sync::membership::Settings membership_settings(const job::Flags& flags, const job::JobSpec& spec);

// The server of each slice of each parameter and statistic, as text; empty if there are no servers.
Result<std::string> placement_of(const job::JobFlags& flags);

// Waits for the job's processes to join, completes the JobSpec, and returns when the job is over. Prints the line
// "dtrain scheduler HOST:PORT" and lines of progress (job/process/progress.h) to stdout, for a launcher to parse.
Result<int> run_scheduler(const job::Flags& flags, const Signals& signals);

}  // namespace dtrain::role
