// The measured peak performance of this host's cores and memory. It bounds steps that are limited by arithmetic, and
// steps that are limited by moving data.
#pragma once

namespace dtrain::exec::cpu {

struct Peak {
  double flops_per_s = 0;  // the rate that oneDNN reaches in a float32 product of large matrices
  // The rate of reading and writing in a sum of two arrays into a third, all larger than the caches.
  double bytes_per_s = 0;
};

// Measures with `threads` compute threads. Takes about half a second and 200 MB.
Peak measure_peak(int threads);

}  // namespace dtrain::exec::cpu
