// A sub-command: reads its arguments, does its work through lib/, returns the exit code.
#pragma once

#include <string>
#include <vector>

#include "base/error.h"
#include "job/flags.h"

namespace dtrain::cmd {

struct Call {
  std::vector<std::string> arguments;  // behind the sub-command
  job::Environment environment;
};

Result<int> train(const Call& call);
Result<int> im2rec(const Call& call);
Result<int> data_synth(const Call& call);
Result<int> data_index(const Call& call);
Result<int> bench_train(const Call& call);
Result<int> bench_kv(const Call& call);
Result<int> parse_log(const Call& call);
Result<int> plan(const Call& call);
Result<int> simulate(const Call& call);
Result<int> ps(const Call& call);
Result<int> kill(const Call& call);
// Not for users: what a launcher starts on another host.
Result<int> launch_agent(const Call& call);

// What `dtrain --help` prints: all sub-commands, and all flags of training.
std::string help_text();

// Chooses the sub-command by the first words of `arguments` (without the program's name) and runs it; no such words
// mean train. Code::kUsage for one that does not exist, or not in this version.
Result<int> dispatch(std::vector<std::string> arguments, const job::Environment& environment);

// Whether that sub-command trains or infers in this process, or may do so: not if it is only to print something.
bool computes(const std::vector<std::string>& arguments);

}  // namespace dtrain::cmd
