#include "exec/cpu/parallel.h"

#include "base/thread.h"

namespace dtrain::exec::cpu {

void prepare_threads(int threads) {
  omp_set_num_threads(threads);
#pragma omp parallel
  flush_denormals();
}

}  // namespace dtrain::exec::cpu
