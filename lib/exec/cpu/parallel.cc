#include "exec/cpu/parallel.h"

#include "base/thread.h"

namespace dtrain::exec::cpu {

namespace {

// The CPU with index `index` (from 0) in `all`.
int cpu_of(const cpu_set_t& all, int index) {
  int cpu = 0;
  while (!CPU_ISSET(cpu, &all) || index-- > 0) cpu++;
  return cpu;
}

// Restricts the calling thread to `cpus`. If that fails, the thread keeps running where it is.
void limit_to(const cpu_set_t& cpus) {
  cpu_set_t now;
  if (sched_getaffinity(0, sizeof(now), &now) == 0 && CPU_EQUAL(&now, &cpus)) return;
  (void)sched_setaffinity(0, sizeof(cpus), &cpus);
}

cpu_set_t only(int cpu) {
  cpu_set_t set;
  CPU_ZERO(&set);
  CPU_SET(cpu, &set);
  return set;
}

}  // namespace

Team::Team(int threads) {
  omp_set_num_threads(threads);
  // Threads stay unbound if sched_getaffinity fails, as it does on a host with more CPUs than a cpu_set_t can hold.
  const bool may_bind =
      threads > 1 && omp_get_proc_bind() == omp_proc_bind_false && sched_getaffinity(0, sizeof(all_), &all_) == 0;
  const bool binds = may_bind && CPU_COUNT(&all_) == threads;
#pragma omp parallel
  {
    flush_denormals();
    // limit_to() also releases a thread that a team of another size has bound.
    const int index = omp_get_thread_num();
    if (may_bind && index > 0) limit_to(binds ? only(cpu_of(all_, index)) : all_);
  }
  if (binds) home_ = cpu_of(all_, 0);
  keep_apart();
}

void Team::go_home() const {
  const cpu_set_t home = only(home_);
  if (sched_setaffinity(0, sizeof(home), &home) == 0) (void)sched_setaffinity(0, sizeof(all_), &all_);
}

}  // namespace dtrain::exec::cpu
