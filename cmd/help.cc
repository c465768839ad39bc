// The texts that describe dtrain: the screens of --help and `dtrain help`, the examples that `dtrain` prints without
// arguments, the manual page, and the scripts that complete command lines in shells. All of them are generated from the
// table of sub-commands and the tables of flags.
#include <fmt/core.h>

#include <algorithm>
#include <cstdio>

#include "base/words.h"
#include "job/flags/environment.h"
#include "job/process/build_id.h"
#include "job/process/exit_code.h"
#include "manual_page.h"
#include "shell_completion.h"
#include "tool.h"

namespace dtrain::cmd {

namespace {

using Commands = std::vector<CommandHelp>;

// The commands on the first screen of --help, which shows what most people need.
struct FirstCommand {
  std::string word;
  std::string summary = {};  // summary of a group of sub-commands; empty: that of the sub-command is used
};
const std::vector<FirstCommand>& first_commands() {
  static const std::vector<FirstCommand> all = {
      {"train"},   {"data", "download (get), make (synth), index (index) or examine (stat) a data set"},
      {"im2rec"},  {"score"},
      {"predict"}, {"report"},
      {"doctor"},  {"kill"}};
  return all;
}

struct FirstFlags {
  std::string heading;
  std::vector<std::string> names;
};
const std::vector<FirstFlags>& first_flags() {
  static const std::vector<FirstFlags> all = {
      {"Data and network:", {"preset", "data-dir", "data-train", "data-val", "image-shape", "network"}},
      {"Training:", {"num-epochs", "batch-size", "optimizer", "lr", "lr-step-epochs", "pretrained-model"}},
      {"Devices and hosts:", {"gpus", "num-workers", "num-servers", "hostfile", "kv-store"}},
      {"The run:", {"run-dir", "resume", "dry-run"}},
  };
  return all;
}

// The help of a flag in one line: with at most one other spelling (of one letter), and with the default only if it is
// informative.
job::FlagHelp shortened(const job::FlagHelp& flag, const std::string& heading) {
  job::FlagHelp brief = {.names = {flag.names[0]}, .value = flag.value, .help = flag.brief, .section = heading};
  if (flag.names.size() > 1 && flag.names[1].size() == 2) brief.names.push_back(flag.names[1]);
  const std::string& value = flag.default_text;
  const bool says_something = value != "none" && value != "0" && value.find(' ') == std::string::npos;
  if (says_something) brief.limits = "default: " + value;
  return brief;
}

std::vector<std::string> subjects() {
  std::vector<std::string> all;
  for (const job::Section& section : job::sections()) all.push_back(section.subject);
  return all;
}

std::string first_screen(const Commands& commands) {
  std::string text =
      "dtrain trains image classifiers, on one host or on a cluster.\n"
      "usage: dtrain [train] FLAGS, or dtrain COMMAND ARGUMENTS\n"
      "\n"
      "Commands (dtrain help COMMAND shows a command's arguments):\n";
  for (const FirstCommand& first : first_commands()) {
    const auto named = [&](const CommandHelp& command) { return command.words[0] == first.word; };
    const auto command = std::find_if(commands.begin(), commands.end(), named);
    DT_CHECK(command != commands.end(), "no command '{}'", first.word);
    text += fmt::format("  {:<8} {}\n", first.word, first.summary.empty() ? command->summary : first.summary);
  }
  const std::vector<job::FlagHelp> all = job::training_flags().flag_helps();
  std::vector<job::FlagHelp> flags;
  for (const FirstFlags& group : first_flags()) {
    for (const std::string& name : group.names) {
      const Result<size_t> row = job::training_flags().find("--" + name);
      DT_CHECK(row, "no flag '{}'", name);
      flags.push_back(shortened(all[*row], group.heading));
    }
  }
  return text + job::help_lines(flags, {.column = 28, .width = 100}) +
         fmt::format(
             "\ndtrain --help all      all {} commands and {} flags\n"
             "dtrain man | man -l -  the manual page\n"
             "dtrain --help SUBJECT  the flags of one of these subjects:\n  {}\n",
             commands.size(), all.size(), joined(subjects(), ", "));
}

// One line for each sub-command whose first word is `word`, or for all sub-commands if `word` is empty.
std::string command_lines(const Commands& commands, const std::string& word) {
  std::string text;
  for (const CommandHelp& command : commands) {
    if (!word.empty() && command.words[0] != word) continue;
    text += fmt::format("  dtrain {:<14} {}\n", command.name(), command.summary);
  }
  return text;
}

std::string everything(const Commands& commands) {
  return "dtrain trains image classifiers, on one host or on a cluster. --help (-h)\n"
         "after a sub-command shows its flags.\n" +
         command_lines(commands, "") + "\nFlags of dtrain train:\n" + job::help_text();
}

// The text about a topic: about a sub-command, a group of sub-commands, a subject of flags, or, as for "data", about a
// group and a subject. Empty: there is no such topic.
std::string text_about(const Commands& commands, const std::string& topic) {
  std::string text;
  for (const CommandHelp& command : commands) {
    if (command.name() == topic) return command_text(command.usage, command.flags);
    if (command.words[0] == topic && text.empty()) text = command_lines(commands, topic);
  }
  std::vector<job::FlagHelp> flags = job::training_flags().flag_helps();
  const auto& sections = job::sections();
  const auto named = [&](const job::Section& section) { return section.subject == topic; };
  const auto section = std::find_if(sections.begin(), sections.end(), named);
  if (section == sections.end()) return text;
  std::erase_if(flags, [&](const job::FlagHelp& flag) { return flag.section != section->heading; });
  const std::string lines = job::help_lines(flags);
  return text.empty() ? lines.substr(1) : text + lines;  // removes the blank line before the heading
}

// The words that are accepted after --help and `dtrain help`.
std::vector<std::string> topics(const Commands& commands) {
  std::vector<std::string> all = subjects();
  all.insert(all.begin(), "all");
  for (const CommandHelp& command : commands) {
    if (std::find(all.begin(), all.end(), command.words[0]) == all.end()) all.push_back(command.words[0]);
  }
  return all;
}

// All sub-commands; `topics` is set for those that accept a topic.
Result<Commands> commands_with_topics() {
  DT_TRY(Commands commands, command_helps());
  for (CommandHelp& command : commands) {
    if (command.name() == "train" || command.name() == "help") command.topics = topics(commands);
  }
  return commands;
}

}  // namespace

Result<int> print_help(const std::string& topic) {
  DT_TRY(const Commands commands, command_helps());
  const std::string text = topic.empty()    ? first_screen(commands)
                           : topic == "all" ? everything(commands)
                                            : text_about(commands, topic);
  if (text.empty()) return fail(Code::kUsage, "help: {}", job::unknown_choice(topic, topics(commands)).value().message);
  std::fputs(text.c_str(), stdout);
  return job::kExitOk;
}

Result<int> help(const Call& call) {
  const job::FlagTable<NoFlags> table({});
  const std::string usage = "dtrain help [all|SUBJECT|COMMAND]";
  DT_TRY(const ToolLine<NoFlags> line, read_tool_line(table, usage, call, 0, 2));
  if (line.help) return job::kExitOk;
  return print_help(joined(line.positionals, " "));
}

bool is_started_by_tracker(const job::Environment& environment) {
  const std::vector<job::Setting> settings = job::environment_settings(job::training_flags(), environment);
  return std::any_of(settings.begin(), settings.end(),
                     [](const job::Setting& setting) { return setting.spelling.starts_with("DMLC_"); });
}

int print_examples() {
  std::fputs(
      "dtrain trains image classifiers. It needs arguments, for example:\n"
      "  dtrain data get mnist                                    download a data set into data/mnist\n"
      "  dtrain --network lenet --data-dir data/mnist             train on it, in this process\n"
      "  dtrain -n 2 --network lenet --data-dir data/mnist        start a job of two workers on this host\n"
      "  dtrain report runs/*                                     write a page about the runs\n"
      "  dtrain help predict                                      show how to classify images with a run's network\n"
      "dtrain --help shows the commands and flags that most people need.\n",
      stderr);
  return job::kExitUsage;
}

Result<int> completion(const Call& call) {
  const job::FlagTable<NoFlags> table({});
  DT_TRY(const ToolLine<NoFlags> line, read_tool_line(table, "dtrain completion bash|zsh|fish", call, 1, 1));
  if (line.help) return job::kExitOk;
  const std::string& shell = line.positionals.front();
  const auto script = shell == "bash"   ? bash_completion
                      : shell == "zsh"  ? zsh_completion
                      : shell == "fish" ? fish_completion
                                        : nullptr;
  if (script == nullptr) return job::unknown_choice(shell, {"bash", "zsh", "fish"});
  DT_TRY(const Commands commands, commands_with_topics());
  std::fputs(script(commands).c_str(), stdout);
  return job::kExitOk;
}

Result<int> man(const Call& call) {
  const job::FlagTable<NoFlags> table({});
  DT_TRY(const ToolLine<NoFlags> line, read_tool_line(table, "dtrain man", call, 0, 0));
  if (line.help) return job::kExitOk;
  DT_TRY(const Commands commands, commands_with_topics());
  std::fputs(manual_page(commands, job::version()).c_str(), stdout);
  return job::kExitOk;
}

}  // namespace dtrain::cmd
