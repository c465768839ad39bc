// How long compute threads spin for the next piece of work before they sleep.
#pragma once

namespace dtrain::cmd {

// The OpenMP library reads from the environment how long its threads spin, once, when it is loaded; the default is
// about 10 ms. On a busy host, a spinning thread uses up the CPU time of the thread that it waits for. Unless the user
// has set OMP_WAIT_POLICY or GOMP_SPINCOUNT, this function sets GOMP_SPINCOUNT to a fraction of a millisecond and
// executes the program again, in the same process and with the same arguments. Call it first in main. It returns if
// nothing has to be set, or if the program cannot be executed again; then threads spin longer.
void wait_briefly(char** argv);

}  // namespace dtrain::cmd
