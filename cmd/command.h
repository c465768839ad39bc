// The sub-commands. Each of them reads its arguments, calls functions of lib/ to do its work, and returns the exit
// code.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "base/error.h"
#include "command_help.h"
#include "job/process/process_environment.h"

namespace dtrain::cmd {

struct Call {
  std::vector<std::string> arguments;  // the arguments after the sub-command
  job::Environment environment;
  // If not null, a sub-command that is called with --help passes its help to this function. Otherwise it prints the
  // help.
  std::function<void(const std::string& usage, std::vector<job::FlagHelp> flags)> take_help = nullptr;
};

Result<int> train(const Call& call);
Result<int> info(const Call& call);
Result<int> im2rec(const Call& call);
Result<int> data_stat(const Call& call);
Result<int> data_synth(const Call& call);
Result<int> data_get(const Call& call);
Result<int> data_index(const Call& call);
Result<int> bench_train(const Call& call);
Result<int> bench_kv(const Call& call);
Result<int> bench_input(const Call& call);
Result<int> bench_dlbs(const Call& call);
Result<int> package(const Call& call);
Result<int> parse_log(const Call& call);
Result<int> trace(const Call& call);
Result<int> report(const Call& call);
Result<int> plot(const Call& call);
Result<int> set_rate(const Call& call);
Result<int> plan(const Call& call);
Result<int> predict(const Call& call);
Result<int> export_model(const Call& call);
Result<int> score(const Call& call);
Result<int> simulate(const Call& call);
Result<int> ps(const Call& call);
Result<int> kill(const Call& call);
Result<int> join(const Call& call);
Result<int> leave(const Call& call);
Result<int> help(const Call& call);
Result<int> completion(const Call& call);
Result<int> man(const Call& call);
Result<int> doctor(const Call& call);
// Internal commands, which a launcher and `dtrain doctor` start on other hosts.
Result<int> launch_agent(const Call& call);
Result<int> examine_host(const Call& call);
// Internal command, which runs next to the launcher: submits a YARN service that starts the launcher's agents, follows
// the service and destroys it.
Result<int> launch_service(const Call& call);

// The help of all sub-commands that are meant for users, in the order of `dtrain --help all`.
Result<std::vector<CommandHelp>> command_helps();

// Prints the output of `dtrain --help TOPIC`. The topic may be empty (for the first screen), "all", a subject of
// training flags, or a sub-command. Code::kUsage if it is something else.
Result<int> print_help(const std::string& topic);

// Prints the output of `dtrain` without arguments to standard error, because nothing was done. Returns the exit code.
int print_examples();
// True if the environment variables of a tracker make this process a part of a job. Then `dtrain` without arguments
// trains.
bool is_started_by_tracker(const job::Environment& environment);

// Runs the sub-command that the first words of `arguments` name (the program's name is not included), or `train` if
// they do not name one. Code::kUsage if there is no such sub-command.
Result<int> dispatch(const std::vector<std::string>& arguments, const job::Environment& environment);

// True if the sub-command may train or run inference in this process; false if it only prints something, for example.
bool computes(const std::vector<std::string>& arguments);

}  // namespace dtrain::cmd
