// Determines how long compute threads spin while they wait for work, before they sleep.
#pragma once

namespace dtrain::cmd {

// When the OpenMP library is loaded, it reads from the environment how long its threads spin; by default about 10 ms.
// On a busy host, a spinning thread uses up the CPU time of the very thread that it waits for. Unless the user has set
// OMP_WAIT_POLICY or GOMP_SPINCOUNT, this function sets GOMP_SPINCOUNT so that threads spin for a fraction of a
// millisecond, and executes the program again, in the same process and with the same arguments. Must be called first in
// main. Returns if there is nothing to set, or if the program cannot be executed again; then threads spin for longer.
void wait_briefly(char** argv);

}  // namespace dtrain::cmd
