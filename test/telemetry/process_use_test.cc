#include "telemetry/process_use.h"

#include <sched.h>

#include "support/catch.h"

#include <chrono>
#include <fstream>
#include <thread>

using namespace dtrain;
using namespace dtrain::telemetry;

namespace {

// Runs on the first core that this process may use, until it has used so much time of it.
void use_a_core(double seconds) {
  cpu_set_t all, one;
  CPU_ZERO(&one);
  sched_getaffinity(0, sizeof all, &all);
  for (int core = 0; core < CPU_SETSIZE && CPU_COUNT(&one) == 0; core++) {
    if (CPU_ISSET(core, &all)) CPU_SET(core, &one);
  }
  sched_setaffinity(0, sizeof one, &one);
  timespec used{};
  do clock_gettime(CLOCK_THREAD_CPUTIME_ID, &used);
  while (static_cast<double>(used.tv_sec) + 1e-9 * static_cast<double>(used.tv_nsec) < seconds);
}

}  // namespace

// Two threads share a core, so each has to wait for about as long as the other one runs. The sum stays when they end.
TEST_CASE("threads that wait for a core are counted, and stay counted", "[telemetry]") {
  if (!std::ifstream("/proc/self/schedstat")) {
    WARN("skipped: the kernel does not count how long threads wait for a core (/proc/self/schedstat)");
    return;
  }
  CoreWait core_wait;
  const double before = core_wait.update();
  double while_running = 0;
  std::thread other([] { use_a_core(0.1); });
  std::thread both([&] {
    use_a_core(0.1);
    while_running = core_wait.update();
  });
  both.join();
  other.join();
  CHECK(while_running - before > 0.04);
  CHECK(core_wait.update() >= while_running);
}
