// Calls that are queued together, one after the other.
#pragma once

#include <functional>
#include <vector>

#include "cuda/executor/program.h"
#include "cuda/executor/recorded_work.h"

namespace dtrain::cuda {

class Segment {
 public:
  explicit Segment(std::vector<Call> calls) : calls_(std::move(calls)) {}

  // Queues the calls, by a graph of its own from the second run on (RecordedWork).
  void run(cudaStream_t stream);
  // Queues the calls as they are: for work that is recorded as a whole.
  void queue(cudaStream_t stream) const;
  // Likewise, with after_each() behind each of them.
  void queue_each(cudaStream_t stream, const std::function<void()>& after_each) const;

 private:
  std::vector<Call> calls_;
  RecordedWork recorded_;
};

}  // namespace dtrain::cuda
