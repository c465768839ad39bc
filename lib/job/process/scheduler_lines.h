// The lines that the scheduler prints to its standard output for its launcher. A third one is in job/process/progress.h.
#pragma once

#include <string_view>

namespace dtrain::job {

// When it listens; then HOST:PORT. The launcher starts the other processes with this address.
inline constexpr std::string_view kAddressLine = "dtrain scheduler ";

// For each thing that it finds out about its job; then a JSON object, which the launcher adds to summary.json:
//   finding {"slow":{"process":"worker 3","host":"node7","cause":"data","step_s":0.31,"text":"worker 3 (node7) takes ..."}}
inline constexpr std::string_view kFindingLine = "finding ";

}  // namespace dtrain::job
