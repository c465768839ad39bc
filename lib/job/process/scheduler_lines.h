// The lines that the scheduler prints to its standard output for its launcher. A further one is in
// job/process/progress.h. A scheduler without a launcher prints only the address, and reports the job's progress for
// people instead.
#pragma once

#include <string_view>

namespace dtrain::job {

// The environment variable that a launcher sets for the scheduler that it starts.
inline constexpr const char* kLauncherVariable = "DTRAIN_LAUNCHED";

// Printed when the scheduler listens, followed by HOST:PORT. The launcher starts the other processes with this address.
inline constexpr std::string_view kAddressLine = "dtrain scheduler ";

// Printed for each finding about the job, followed by a JSON object that the launcher adds to summary.json:
//   finding {"slow":{"process":"worker 3","host":"node7","cause":"data","step_s":0.31,"text":"worker 3 (node7) takes
//   ..."}}
inline constexpr std::string_view kFindingLine = "finding ";

}  // namespace dtrain::job
