#include "cuda/executor/segment.h"

namespace dtrain::cuda {

void Segment::queue(cudaStream_t stream) const {
  for (const Call& call : calls_) call(stream);
}

void Segment::run(cudaStream_t stream) {
  if (calls_.empty()) return;
  const Result<> done = recorded_.run(stream, [&](QueueMode mode) -> Result<> {
    if (mode != QueueMode::kReplay) queue(stream);
    return {};
  });
  DT_CHECK(done.has_value(), "recording or replaying a part of the program failed");
}

}  // namespace dtrain::cuda
