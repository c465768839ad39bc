// A stage is a list of parts. Each part is run, timed and recorded, whatever its outcome.
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
  std::string text;  // why it did not pass, or what was found
  Json numbers = Json::object();
};
Outcome passed(std::string text = "", Json numbers = Json::object());
Outcome failed(std::string text, Json numbers = Json::object());

struct Part {
  std::string name;  // unique in the stage
  // An Error or an exception is a failure; Code::kNotFound means that the machine lacks something.
  std::function<Result<Outcome>()> run;
};

struct PartLimits {
  double stage_s = 360;  // no part begins later
  double part_s = 60;    // a part that takes longer is considered hung
  int threads = 1;       // parts that run at the same time
};

enum class StageEnd {
  kDone,        // or out of time: the report says which parts were not done
  kDeviceLost,  // the process must end; another one continues with the remaining parts
};

// Runs the parts that are not yet in the report, in order. A part that ended the program twice counts as failed. While
// a part hangs, nothing can be done in this process: the part is recorded as killed, and the process ends with exit
// code `hung`. Code::kData: the report cannot be written.
Result<StageEnd> run_parts(Report& report, Machine& machine, const std::string& stage, const std::vector<Part>& parts,
                           const PartLimits& limits, int hung);

// Runs the parts that failed once more and adds their outcomes to them (Report::add). For a process with
// CUDA_LAUNCH_BLOCKING=1, in which an error is reported by the call that caused it.
Result<> run_failed_parts(Report& report, const std::string& stage, const std::vector<Part>& parts,
                          const PartLimits& limits, int hung);

}  // namespace dtrain::gpu
