// What this host's cores and memory can do at most, as measured: the bounds of a step that computes, and of one that
// moves data.
#pragma once

namespace dtrain::exec::cpu {

struct Peak {
  double flops_per_s = 0;  // of a product of large matrices in float32, by oneDNN
  double bytes_per_s = 0;  // read and written, by a sum of two arrays larger than the caches into a third
};

// With `threads` compute threads. Takes about half a second; 200 MB.
Peak measure_peak(int threads);

}  // namespace dtrain::exec::cpu
