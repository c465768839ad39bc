// How long compute threads spin for the next piece of work before they sleep.
#pragma once

namespace dtrain::cmd {

// The OpenMP library reads from the environment how long its threads spin, once, when it is loaded: by default some 10
// ms. Beside another busy process, a thread then spins away the CPU time of the one that it waits for. Unless the user
// has set OMP_WAIT_POLICY or GOMP_SPINCOUNT, this sets the latter to a fraction of a millisecond and starts the program
// anew, as the same process, with the same arguments. Call it first in main. It returns if nothing has to be set, or if
// the program cannot be started anew: then threads spin longer.
void wait_briefly(char** argv);

}  // namespace dtrain::cmd
