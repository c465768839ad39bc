#include "brief_waits.h"

#include <unistd.h>

#include <cstdlib>

#include "proc/this_host.h"

namespace dtrain::cmd {

namespace {

// How often a spinning thread looks for work before it sleeps. This count takes 0.1 to 0.3 ms, depending on the
// processor. Measurements with bench train on two cores: on an idle host, counts of 1,000 and more are as fast as the
// library's default of 300,000. If two other processes keep the cores busy, 5,000 is best, because a sleeping thread
// gets a core back only at the next tick of the kernel's clock.
constexpr const char* kSpinCount = "5000";

}  // namespace

void wait_briefly(char** argv) {
  if (std::getenv("OMP_WAIT_POLICY") != nullptr || std::getenv("GOMP_SPINCOUNT") != nullptr) return;
  const Result<std::string> executable = proc::this_executable();
  if (!executable || setenv("GOMP_SPINCOUNT", kSpinCount, 1) != 0) return;
  execv(executable->c_str(), argv);
}

}  // namespace dtrain::cmd
