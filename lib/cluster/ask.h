// Runs the programs of a cluster and reads their answers: mpirun, scontrol, kubectl.
#pragma once

#include <chrono>
#include <string>
#include <vector>

#include "base/error.h"
#include "proc/program.h"

namespace dtrain::cluster {

struct Question {
  proc::Program program;
  std::string missing;  // what to do if the program is not installed, for the error
  std::chrono::seconds limit{30};
  // True: the program changes something, so signals do not interrupt it; it may already have carried out the request.
  bool is_order = false;
};

// Returns the lines that the program prints on stdout. Code::kStartup, with the program's own message: it does not
// exist, exits with a code other than 0, or does not end in time. Code::kPreempted: a signal arrived.
Result<std::vector<std::string>> ask(const Question& question);

}  // namespace dtrain::cluster
