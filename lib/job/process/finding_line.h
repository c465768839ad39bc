// The scheduler prints a line for each thing that it finds out about its job, which the launcher adds to summary.json:
//   finding {"slow":{"process":"worker 3","host":"node7","cause":"data","step_s":0.31,"text":"worker 3 (node7) takes ..."}}
#pragma once

#include <string_view>

namespace dtrain::job {

inline constexpr std::string_view kFindingLine = "finding ";  // then a JSON object

}  // namespace dtrain::job
