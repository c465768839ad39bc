// A stage is a list of parts: each is run, timed, and written down, whatever comes of it.
#pragma once

#include <chrono>
#include <functional>
#include <string>
#include <vector>

#include "report.h"

namespace dtrain::gpu {

struct Outcome {
  enum class Status { kPassed, kFailed, kMissing };
  Status status = Status::kPassed;
  std::string text;  // why not, or what was found
  Json numbers = Json::object();
};
Outcome passed(std::string text = "", Json numbers = Json::object());
Outcome failed(std::string text, Json numbers = Json::object());

struct Part {
  std::string name;  // unique in the stage
  // An Error, or what it throws, is a failure; Code::kNotFound is something that the machine has not.
  std::function<Result<Outcome>()> run;
};

struct PartLimits {
  double stage_s = 360;  // no part begins later
  double part_s = 60;    // a part that takes longer hangs
  int threads = 1;       // parts that run side by side
};

enum class StageEnd {
  kDone,        // or out of time: the report says what was not done
  kDeviceLost,  // the process has to end; another one goes on with what is left
};

// Runs the parts that the report does not hold yet, in their order. A part that took the program with it twice counts
// as failed. While a part hangs nothing can be done in this process: it is written down as killed and the process ends
// with `hung`. Code::kData: the report cannot be written.
Result<StageEnd> run_parts(Report& report, Machine& machine, const std::string& stage, const std::vector<Part>& parts,
                           const PartLimits& limits, int hung);

}  // namespace dtrain::gpu
