// Questions to the programs of a cluster: mpirun, scontrol, qstat.
#pragma once

#include <chrono>
#include <string>
#include <vector>

#include "base/error.h"

namespace dtrain::launch {

struct Question {
  std::vector<std::string> arguments;  // the first one is searched for in PATH
  std::string missing;                 // what to do if there is no such program
  std::chrono::seconds limit{30};
};

// The lines that the program prints on stdout. Code::kStartup, with the program's own words: it does not exist, ends
// with another code than 0, or does not end in time. Code::kPreempted: a signal arrived.
Result<std::vector<std::string>> ask(const Question& question);

// The same for a program that reads `input` from stdin. A signal does not interrupt it, because the program may already
// have done what it was asked to.
Result<std::vector<std::string>> ask_with_input(const Question& question, const std::string& input);

}  // namespace dtrain::launch
