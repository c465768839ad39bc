// Reports to the user how a job ended. The cause is printed last, where the user looks first.
#pragma once

#include <optional>
#include <vector>

#include "base/error.h"
#include "launch/command.h"
#include "launch/job.h"
#include "launch/outcome.h"
#include "launch/screen.h"
#include "proc/lines.h"

namespace dtrain::launch {

// What the launcher knows about a job whose processes have all ended.
struct JobHistory {
  struct Process {
    const Command* command = nullptr;
    const FirstError* printed = nullptr;
  };
  std::optional<Error> start_error;  // an error of the launcher itself
  bool may_have_trained = true;      // whether training may have begun; if not, there is nothing to resume
  bool killed_by_user = false;       // a second interrupt killed the job
  std::vector<Ended> ended;          // the processes that have ended, in chronological order
  std::vector<Process> processes;    // the processes, in the order in which they were started
};

// Prints the cause of a failure, or nothing if the job succeeded. Returns the job's exit code and the printed error.
JobEnd report_end(const Job& job, const JobHistory& history, Screen& screen);

}  // namespace dtrain::launch
