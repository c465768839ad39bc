// A worker that a job has lost, that has left it as it was asked, or that has joined it, while the job continues.
#pragma once

#include <cstdint>
#include <string>

namespace dtrain::observe {

struct MemberChange {
  enum class Kind { kLost, kLeft, kJoined };
  Kind kind = Kind::kLost;
  std::string who;     // a text such as "worker 3"
  std::string host;    // its host name
  std::string why;     // of a loss: a text such as "its process was killed by signal 9 (Killed)"; otherwise empty
  uint64_t steps = 0;  // steps that it had reported; 0 for one that joins
  double seconds = 0;  // since the start of the job
};

// The change as a JSON object, for job::kFindingLine: {"change": {"process": "worker 3", "change": "lost", ...}}.
std::string to_json(const MemberChange& change);

}  // namespace dtrain::observe
