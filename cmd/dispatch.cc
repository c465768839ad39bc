#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <span>

#include "base/nearest.h"
#include "base/words.h"
#include "command.h"
#include "job/flags/command_line.h"
#include "job/flags/value.h"
#include "job/process/exit_code.h"
#include "output.h"

namespace dtrain::cmd {

namespace {

struct SubCommand {
  std::vector<std::string> words;
  Result<int> (*run)(const Call&);
  bool computes = false;  // whether the sub-command may train or run inference in this process
  std::string help = {};  // summary in one line for --help; empty for an internal command
};

const std::vector<SubCommand>& grammar() {
  static const std::vector<SubCommand> commands = {
      {{"train"}, train, true, "train a network; with -n, as a job of several processes (\"train\" can be left out)"},
      {{"launch-agent"}, launch_agent},
      {{"examine-host"}, examine_host},
      {{"launch-service"}, launch_service},
      {{"im2rec"}, im2rec, false, "pack image files into record files"},
      {{"data", "synth"}, data_synth, false, "make a small synthetic data set"},
      {{"data", "index"}, data_index, false, "write the index of a record file"},
      {{"data", "get"}, data_get, false, "download a data set: mnist, cifar10, cifar100, imagenet"},
      {{"data", "stat"}, data_stat, false, "print what record files contain"},
      {{"bench", "train"}, bench_train, true, "measure how fast a network trains on synthetic data"},
      {{"bench", "kv"}, bench_kv, false, "measure how fast gradients and weights are exchanged"},
      {{"bench", "input"}, bench_input, false, "measure how fast images are read, decoded and augmented"},
      {{"bench", "dlbs"}, bench_dlbs, true, "run a DLBS benchmark on this node"},
      {{"parse-log"}, parse_log, false, "print a table of the epochs in the log of a run"},
      {{"report"}, report, false, "write an HTML page about one or more runs"},
      {{"plot"}, plot, false, "draw the curves of runs as PNG or SVG"},
      {{"plan"}, plan, false, "measure a job's workers, and write groups and shares for them"},
      {{"simulate"}, simulate, false, "simulate a job under each scheme"},
      {{"score"}, score, true, "measure how well a trained model classifies images"},
      {{"info"}, info, false, "print the layers of a network or the arrays of a file"},
      {{"predict"}, predict, true, "classify images with a trained model"},
      {{"export"}, export_model, false, "write a trained model as ONNX or safetensors"},
      {{"trace"}, trace, false, "merge the traces of a job's processes"},
      {{"doctor"}, doctor, false, "examine the hosts of a job before it runs"},
      {{"ps"}, ps, false, "list the running jobs on this host, or with -H on other hosts"},
      {{"set-rate"}, set_rate, false, "change the learning rate of a run while it trains"},
      {{"join"}, join, true, "add a worker to a running job"},
      {{"leave"}, leave, false, "take a worker out of a running job"},
      {{"kill"}, kill, false, "end the processes of a job"},
      {{"package"}, package, false, "write an archive of the program with its libraries"},
      {{"help"}, help, false, "print the help for a sub-command, or the flags of a subject"},
      {{"completion"}, completion, false, "print a script that completes command lines in a shell"},
      {{"man"}, man, false, "print the manual page"},
  };
  return commands;
}

// The number of words at the beginning of `arguments` that name a sub-command, or that are the first word of one.
size_t count_words(const std::vector<std::string>& arguments) {
  std::vector<std::vector<std::string>> commands;
  for (const SubCommand& command : grammar()) commands.push_back(command.words);
  return job::count_command_words(commands, arguments);
}

// The sub-command that the first words of `arguments` name; null if they do not name one.
const SubCommand* named_by(const std::vector<std::string>& arguments) {
  const std::span words(arguments.data(), count_words(arguments));
  for (const SubCommand& command : grammar()) {
    if (std::ranges::equal(command.words, words)) return &command;
  }
  return nullptr;
}

// The words that may follow `word` as the second word of a sub-command.
std::vector<std::string> second_words(const std::string& word) {
  std::vector<std::string> second;
  for (const SubCommand& command : grammar()) {
    if (command.words.size() == 2 && command.words[0] == word) {
      second.push_back(command.words[1]);
    }
  }
  return second;
}

// Reports the first word if it looks like a misspelled sub-command. Any other word is left to train, which reports
// words that are not flags.
Result<> check_first_word(const std::string& word) {
  std::vector<std::string> names;
  for (const SubCommand& command : grammar()) {
    if (!command.help.empty()) names.push_back(command.words[0]);
  }
  const std::optional<std::string> near = nearest(word, names);
  if (near) return fail(Code::kUsage, "there is no sub-command '{}', did you mean '{}'?", word, *near);
  return {};
}

}  // namespace

bool computes(const std::vector<std::string>& arguments) {
  constexpr std::array kPrinting = {"--help", "-h", "--version", "--dry-run", "--dry-run=1"};
  for (auto word = arguments.begin(); word != arguments.end(); word++) {
    bool on = true;
    if (word + 1 != arguments.end()) (void)job::parse_value(word[1], on);
    if (on && std::find(kPrinting.begin(), kPrinting.end(), *word) != kPrinting.end()) return false;
  }
  const SubCommand* command = named_by(arguments);
  return command == nullptr || command->computes;
}

Result<std::vector<CommandHelp>> command_helps() {
  std::vector<CommandHelp> helps;
  for (const SubCommand& command : grammar()) {
    if (command.help.empty()) continue;
    CommandHelp& help = helps.emplace_back(CommandHelp{command.words, command.help, {}, {}, {}});
    const auto take = [&help](const std::string& usage, std::vector<job::FlagHelp> flags) {
      help.usage = usage;
      help.flags = std::move(flags);
    };
    const auto no_variables = [](const std::string&) { return std::optional<std::string>(); };
    DT_TRY_VOID(command.run({{"--help"}, no_variables, take}));
  }
  return helps;
}

namespace {

// The words between the first --help or -h and the next flag.
std::string topic_of(const std::vector<std::string>& arguments) {
  auto word = std::find_if(arguments.begin(), arguments.end(), job::is_help);
  std::string topic;
  while (++word != arguments.end() && !word->starts_with('-')) topic += (topic.empty() ? "" : " ") + *word;
  return topic;
}

// Reports that after the first word, which several sub-commands share, the second word is missing or unknown.
Result<int> refuse_group(const std::vector<std::string>& arguments) {
  const std::vector<std::string> second = second_words(arguments[0]);
  const std::optional<std::string> near = arguments.size() > 1 ? nearest(arguments[1], second) : std::nullopt;
  return fail(Code::kUsage, "dtrain {} must be followed by one of: {}{}", arguments[0], joined(second, ", "),
              near ? fmt::format("; did you mean '{}'?", *near) : "");
}

Result<int> run(std::vector<std::string> arguments, const job::Environment& environment) {
  const SubCommand* command = named_by(arguments);
  const bool is_word = !arguments.empty() && !arguments[0].empty() && arguments[0][0] != '-';
  const bool is_group = command == nullptr && is_word && !second_words(arguments[0]).empty();
  if (command == nullptr && is_word && !is_group) DT_TRY_VOID(check_first_word(arguments[0]));
  if (job::asks_for_help(arguments)) {
    if (is_group) return print_help(arguments[0]);
    const std::string topic = command == nullptr || command->run == train ? topic_of(arguments) : "";
    if (command == nullptr || !topic.empty()) return print_help(topic);
  }
  if (is_group) return refuse_group(arguments);
  if (arguments.empty() && !is_started_by_tracker(environment)) return print_examples();
  if (command == nullptr) return train({std::move(arguments), environment, nullptr});
  arguments.erase(arguments.begin(), arguments.begin() + static_cast<int64_t>(command->words.size()));
  return command->run({std::move(arguments), environment, nullptr});
}

}  // namespace

Result<int> dispatch(const std::vector<std::string>& arguments, const job::Environment& environment) {
  DT_TRY(const int code, run(arguments, environment));
  const SubCommand* command = named_by(arguments);
  const bool trains = computes(arguments) && (command == nullptr || command->run == train || command->run == join);
  // The output of any command but train is its result, so losing it is an error. The results of train are files.
  if (!trains && code == job::kExitOk) DT_TRY_VOID(flush_output());
  return code;
}

}  // namespace dtrain::cmd
