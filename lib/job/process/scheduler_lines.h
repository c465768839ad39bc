// The lines between the scheduler and its launcher: those that the scheduler prints to its standard output, and those
// that the launcher writes to its standard input. A further one is in job/process/progress.h. A scheduler without a
// launcher prints only the address, and reports the job's progress for people instead.
#pragma once

#include <string>
#include <string_view>

#include "job/process/process_name.h"

namespace dtrain::job {

// The environment variable that a launcher sets for the scheduler that it starts.
inline constexpr const char* kLauncherVariable = "DTRAIN_LAUNCHED";

// Printed when the scheduler listens, followed by HOST:PORT. The launcher starts the other processes with this address.
inline constexpr std::string_view kAddressLine = "dtrain scheduler ";

// Printed for each finding about the job, followed by a JSON object that the launcher adds to summary.json:
//   finding {"slow":{"process":"worker 3","host":"node7","cause":"data","step_s":0.31,"text":"worker 3 (node7) takes
//   ..."}}
inline constexpr std::string_view kFindingLine = "finding ";

// Printed, followed by a name such as "worker 3", when a worker or server was lost and the job waits for another one in
// its place.
inline constexpr std::string_view kReplaceLine = "dtrain replace ";
// Printed, followed by the name, when another one has taken this place.
inline constexpr std::string_view kReplacedLine = "dtrain replaced ";

// Written by the launcher when a process that it has started has ended: "ended worker:3 was killed by signal 9
// (Killed)".
struct EndedProcess {
  ProcessName process;
  std::string how;
};
std::string ended_line(const EndedProcess& ended);  // without a newline
Result<EndedProcess> parse_ended_line(std::string_view line);

}  // namespace dtrain::job
