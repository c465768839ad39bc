// Calls that are queued together, one after another.
#pragma once

#include <vector>

#include "cuda/executor/program.h"
#include "cuda/executor/recorded_work.h"

namespace dtrain::cuda {

class Segment {
 public:
  explicit Segment(std::vector<Call> calls) : calls_(std::move(calls)) {}

  // Queues the calls, from the second run on as a CUDA graph (RecordedWork).
  void run(cudaStream_t stream);
  // Queues the calls directly, for use within work that is captured as a whole.
  void queue(cudaStream_t stream) const;
  [[nodiscard]] const std::vector<Call>& calls() const { return calls_; }

 private:
  std::vector<Call> calls_;
  RecordedWork recorded_;
};

}  // namespace dtrain::cuda
