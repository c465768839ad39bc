// The measured peak performance of this host's cores and memory: the bounds of a step that computes, and of one that
// moves data.
#pragma once

namespace dtrain::exec::cpu {

struct Peak {
  double flops_per_s = 0;  // in a float32 product of large matrices, by oneDNN
  double bytes_per_s = 0;  // read and written, in a sum of two arrays larger than the caches into a third
};

// Measures with `threads` compute threads. Takes about half a second and 200 MB.
Peak measure_peak(int threads);

}  // namespace dtrain::exec::cpu
