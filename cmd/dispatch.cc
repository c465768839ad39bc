#include <algorithm>

#include "base/nearest.h"
#include "command.h"

namespace dtrain::cmd {

namespace {

struct SubCommand {
  std::vector<std::string> words;
  Result<int> (*run)(const Call&);  // nullptr: a later version has it
  bool computes = false;            // on the threads of a team
};

// The grammar of flags.md section 1.
const std::vector<SubCommand>& grammar() {
  static const std::vector<SubCommand> commands = {
      {{"train"}, train, true},
      {{"launch-agent"}, launch_agent},
      {{"im2rec"}, im2rec},
      {{"data", "synth"}, data_synth},
      {{"data", "index"}, data_index},
      {{"data", "get"}, nullptr},
      {{"data", "stat"}, nullptr},
      {{"bench", "train"}, bench_train, true},
      {{"bench", "kv"}, bench_kv},
      {{"bench", "input"}, nullptr},
      {{"bench", "dlbs"}, nullptr},
      {{"parse-log"}, parse_log},
      {{"plan"}, plan},
      {{"simulate"}, simulate},
      {{"score"}, nullptr},
      {{"predict"}, nullptr},
      {{"export"}, nullptr},
      {{"plot"}, nullptr},
      {{"doctor"}, nullptr},
      {{"ps"}, ps},
      {{"kill"}, kill},
  };
  return commands;
}

bool begins_with(const std::vector<std::string>& arguments, const std::vector<std::string>& words) {
  return arguments.size() >= words.size() && std::equal(words.begin(), words.end(), arguments.begin());
}

// nullptr: none is named.
const SubCommand* named_by(const std::vector<std::string>& arguments) {
  for (const SubCommand& command : grammar()) {
    if (begins_with(arguments, command.words)) return &command;
  }
  return nullptr;
}

// "data" alone, or with a word that is none of its own.
Result<> check_group(const std::vector<std::string>& arguments) {
  std::vector<std::string> second;
  for (const SubCommand& command : grammar()) {
    if (command.words.size() == 2 && command.words[0] == arguments[0]) second.push_back(command.words[1]);
  }
  if (second.empty()) return {};
  return fail(Code::kUsage, "dtrain {} needs one of these behind it: {}", arguments[0], fmt::join(second, ", "));
}

// A mistyped sub-command. Any other word is left to train, which knows what to say of words that are no flags.
Result<> check_first_word(const std::string& word) {
  std::vector<std::string> names;
  for (const SubCommand& command : grammar()) names.push_back(command.words[0]);
  const std::optional<std::string> near = nearest(word, names);
  if (near) return fail(Code::kUsage, "there is no sub-command '{}', did you mean '{}'?", word, *near);
  return {};
}

}  // namespace

bool computes(const std::vector<std::string>& arguments) {
  const SubCommand* command = named_by(arguments);
  return command == nullptr || command->computes;
}

Result<int> dispatch(std::vector<std::string> arguments, const job::Environment& environment) {
  if (const SubCommand* command = named_by(arguments)) {
    if (command->run == nullptr) {
      return fail(Code::kUsage, "dtrain {} is not in this version of dtrain", fmt::join(command->words, " "));
    }
    arguments.erase(arguments.begin(), arguments.begin() + static_cast<int64_t>(command->words.size()));
    return command->run({std::move(arguments), environment});
  }
  if (!arguments.empty() && !arguments[0].empty() && arguments[0][0] != '-') {
    DT_TRY_VOID(check_group(arguments));
    DT_TRY_VOID(check_first_word(arguments[0]));
  }
  return train({std::move(arguments), environment});
}

}  // namespace dtrain::cmd
