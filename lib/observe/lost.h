// A worker that a job has lost and without which it continues.
#pragma once

#include <cstdint>
#include <string>

namespace dtrain::observe {

struct Lost {
  std::string who;     // a text such as "worker 3"
  std::string host;    // its host name
  std::string why;     // a text such as "its process was killed by signal 9 (Killed)"
  uint64_t steps = 0;  // steps that it had reported
  double seconds = 0;  // since the start of the job
};

// The loss as a JSON object, for job::kFindingLine: {"lost": {"process": "worker 3", ...}}.
std::string to_json(const Lost& lost);

}  // namespace dtrain::observe
