#include "shell_completion.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <map>

namespace dtrain::cmd {

namespace {

using Commands = std::vector<CommandHelp>;

constexpr const char* kBashStart = R"(# Completion of dtrain for bash. To load it: source <(dtrain completion bash)
_dtrain() {
  local word=${COMP_WORDS[COMP_CWORD]} flag=${COMP_WORDS[COMP_CWORD-1]}
  local command=train after=" ${COMP_WORDS[*]:1:COMP_CWORD-1} " flags= values=
  # A flag and a value that are joined by "=" are three words for bash.
  if [[ $word == = ]]; then
    word=
  elif [[ $flag == = ]]; then
    flag=${COMP_WORDS[COMP_CWORD-2]}
  fi
  COMPREPLY=()
)";

constexpr const char* kBashEnd = R"(  if [[ -z $values && $word == -* ]]; then
    values=$flags
  elif [[ -z $values ]]; then
    compopt -o filenames 2>/dev/null
    mapfile -t COMPREPLY < <(compgen -f -- "$word")
    return
  fi
  mapfile -t COMPREPLY < <(compgen -W "$values" -- "$word")
}
complete -F _dtrain dtrain
)";

enum class ValueKind { kNone, kList, kFile, kDirectory, kOther };

ValueKind kind_of(const job::FlagHelp& flag) {
  if (flag.value.empty()) return ValueKind::kNone;
  if (!flag.values.empty()) return ValueKind::kList;
  if (flag.value.ends_with("DIR")) return ValueKind::kDirectory;
  return flag.value.find("FILE") != std::string::npos || flag.value == "PREFIX" ? ValueKind::kFile : ValueKind::kOther;
}

// A pattern such as "--lr|--momentum" that matches all spellings of the flags of one kind; empty if there are none.
std::string spellings(const CommandHelp& command, ValueKind kind) {
  std::vector<std::string> all;
  for (const job::FlagHelp& flag : command.flags) {
    if (kind_of(flag) == kind) all.insert(all.end(), flag.names.begin(), flag.names.end());
  }
  return fmt::format("{}", fmt::join(all, "|"));
}

std::vector<std::string> first_words(const Commands& commands) {
  std::vector<std::string> words;
  for (const CommandHelp& command : commands) {
    if (std::find(words.begin(), words.end(), command.words[0]) == words.end()) words.push_back(command.words[0]);
  }
  return words;
}

// The sub-commands whose names have two words, grouped by the first word.
std::map<std::string, std::vector<const CommandHelp*>> groups_of(const Commands& commands) {
  std::map<std::string, std::vector<const CommandHelp*>> groups;
  for (const CommandHelp& command : commands) {
    if (command.words.size() == 2) groups[command.words[0]].push_back(&command);
  }
  return groups;
}

std::string topics_of(const CommandHelp& command) {
  return fmt::format("{}", fmt::join(command.topics, " "));
}

// The choices for the argument of a sub-command: "bash zsh" for "dtrain completion bash|zsh". Empty if there are none.
std::string argument_choices(const CommandHelp& command) {
  if (command.name() == "help") return topics_of(command);
  const std::string usage = command.usage.substr(0, command.usage.find('\n'));
  std::string last = usage.substr(usage.rfind(' ') + 1);
  if (last.find('|') == std::string::npos || last.find('[') != std::string::npos) return "";
  std::replace(last.begin(), last.end(), '|', ' ');
  return last;
}

// Shell code that sets `command`, or completes the second word of a group.
std::string bash_commands(const Commands& commands) {
  std::string text = "  case $after in\n";
  for (const CommandHelp& command : commands) {
    text += fmt::format("    \" {0} \"*) command=\"{0}\" ;;\n", command.name());
  }
  for (const auto& [word, group] : groups_of(commands)) {
    std::vector<std::string> seconds;
    for (const CommandHelp* command : group) seconds.push_back(command->words[1]);
    text += fmt::format("    \" {} \") values=\"{}\" ;;\n", word, fmt::join(seconds, " "));
  }
  text += "  esac\n";
  return text + fmt::format("  if [[ $COMP_CWORD == 1 && $word != -* ]]; then values=\"{}\"; fi\n",
                            fmt::join(first_words(commands), " "));
}

// Shell code that completes the value of the flag before the cursor.
std::string bash_values(const CommandHelp& command) {
  std::string text;
  for (const job::FlagHelp& flag : command.flags) {
    if (kind_of(flag) != ValueKind::kList) continue;
    text += fmt::format("        {}) values=\"{}\" ;;\n", fmt::join(flag.names, "|"), fmt::join(flag.values, " "));
  }
  const std::string directories = spellings(command, ValueKind::kDirectory);
  const std::string files = spellings(command, ValueKind::kFile), others = spellings(command, ValueKind::kOther);
  if (!directories.empty()) {
    text += fmt::format(
        "        {})\n          compopt -o filenames 2>/dev/null\n"
        "          mapfile -t COMPREPLY < <(compgen -d -- \"$word\")\n          return ;;\n",
        directories);
  }
  if (!files.empty()) {
    text += fmt::format(
        "        {})\n          compopt -o filenames 2>/dev/null\n"
        "          mapfile -t COMPREPLY < <(compgen -f -- \"$word\")\n          return ;;\n",
        files);
  }
  if (!others.empty()) text += fmt::format("        {}) return ;;\n", others);
  if (!command.topics.empty()) text += fmt::format("        --help|-h) values=\"{}\" ;;\n", topics_of(command));
  return text.empty() ? "" : "      case $flag in\n" + text + "      esac\n";
}

std::string bash_flags(const CommandHelp& command) {
  std::vector<std::string> all;
  for (const job::FlagHelp& flag : command.flags) all.insert(all.end(), flag.names.begin(), flag.names.end());
  all.emplace_back("--help");
  return fmt::format("{}", fmt::join(all, " "));
}

std::string zsh_quoted(const std::string& text) {
  std::string quoted;
  for (const char c : text) {
    if (c == '[' || c == ']' || c == ':' || c == '\\') quoted += '\\';
    quoted += c == '\'' ? std::string("'\\''") : std::string(1, c);
  }
  return quoted;
}

std::string zsh_action(const job::FlagHelp& flag) {
  switch (kind_of(flag)) {
    case ValueKind::kList: return fmt::format("({})", fmt::join(flag.values, " "));
    case ValueKind::kFile: return "_files";
    case ValueKind::kDirectory: return "_files -/";
    default: return " ";
  }
}

// A line for _arguments for each spelling of the flag. The star means that the flag may be given several times.
std::string zsh_specs(const job::FlagHelp& flag) {
  std::string text;
  const std::string help = zsh_quoted(fmt::format("{} ({})", flag.help, flag.limits));
  for (const std::string& name : flag.names) {
    const char* joined = name.starts_with("--") ? "=" : "+";
    text += flag.value.empty() ? fmt::format("        '*{}{}[{}]::switch:(0 1)' \\\n", name, joined, help)
                               : fmt::format("        '*{}{}[{}]:{}:{}' \\\n", name, joined, help,
                                             zsh_quoted(flag.value), zsh_action(flag));
  }
  return text;
}

std::string zsh_case(const CommandHelp& command) {
  std::string text = fmt::format("    '{}')\n      _arguments \\\n", command.name());
  for (const job::FlagHelp& flag : command.flags) text += zsh_specs(flag);
  const std::string choices = argument_choices(command);
  const std::string topic = command.topics.empty() ? "" : fmt::format("::topic:({})", topics_of(command));
  text += fmt::format("        '(- *)'{{-h,--help}}'[show the flags]{}' \\\n", topic);
  if (command.words[0] == "train") return text + "        ;;\n";
  return text + fmt::format("        '*:argument:{}' ;;\n", choices.empty() ? "_files" : "(" + choices + ")");
}

std::string zsh_descriptions(const Commands& commands, const std::string& group) {
  std::string text;
  for (const CommandHelp& command : commands) {
    if (!group.empty() && command.words[0] != group) continue;
    if (group.empty() && command.words.size() == 2) continue;
    text += fmt::format(" '{}:{}'", command.words.back(), zsh_quoted(command.summary));
  }
  return text;
}

constexpr const char* kFishStart = R"(# Completion of dtrain for fish. To load it: dtrain completion fish | source
# True if the words before the cursor name this sub-command.
function __dtrain_is
    set -l words (commandline -opc) '' ''
    set -l command train
    switch "$words[2] $words[3] "
)";

// Each of the shell functions compares the words on the command line with its own arguments ($argv).
constexpr const char* kFishEnd = R"(    end
    test "$command" = "$argv"
end
# True if the words before the cursor are these.
function __dtrain_after
    set -l words (commandline -opc)
    test "$words[2..]" = "$argv"
end
# True if the word before the cursor is one of these.
function __dtrain_follows
    contains -- (commandline -opc)[-1] $argv
end
complete -c dtrain -e
complete -c dtrain -f
)";

std::string fish_quoted(const std::string& text) {
  std::string quoted;
  for (const char c : text) quoted += (c == '\'' || c == '\\' ? "\\" : "") + std::string(1, c);
  return "'" + quoted + "'";
}

std::string fish_value(const job::FlagHelp& flag) {
  switch (kind_of(flag)) {
    case ValueKind::kNone: return "";
    case ValueKind::kList: return fmt::format(" -x -a '{}'", fmt::join(flag.values, " "));
    case ValueKind::kFile: return " -r -F";
    case ValueKind::kDirectory: return " -x -a '(__fish_complete_directories)'";
    case ValueKind::kOther: return " -x";
  }
  return "";
}

std::string fish_command(const CommandHelp& command) {
  const std::string start = fmt::format("complete -c dtrain -n '__dtrain_is {}'", command.name());
  std::string text;
  for (const job::FlagHelp& flag : command.flags) {
    std::string names;
    for (const std::string& name : flag.names) {
      names += name.starts_with("--") ? " -l " + name.substr(2) : " -s " + name.substr(1);
    }
    text += start + names + fish_value(flag) + " -d " + fish_quoted(flag.help) + "\n";
  }
  text += start + " -s h -l help -d 'show the flags'\n";
  const std::string choices = argument_choices(command);
  if (command.name() == "train") {
    text += fmt::format("complete -c dtrain -n '__dtrain_follows -h --help' -a '{}'\n", topics_of(command));
  } else {
    text += start + (choices.empty() ? " -F" : fmt::format(" -a '{}'", choices)) + "\n";
  }
  return text;
}

}  // namespace

std::string bash_completion(const Commands& commands) {
  std::string text = kBashStart + bash_commands(commands) + "  case $command in\n";
  for (const CommandHelp& command : commands) {
    text += fmt::format("    \"{}\")\n{}", command.name(), bash_values(command));
    const std::string choices = argument_choices(command);
    if (!choices.empty()) text += fmt::format("      if [[ $word != -* ]]; then values=\"{}\"; fi\n", choices);
    text += fmt::format("      flags=\"{}\" ;;\n", bash_flags(command));
  }
  return text + "  esac\n" + kBashEnd;
}

std::string zsh_completion(const Commands& commands) {
  std::string text =
      "#compdef dtrain\n# Completion of dtrain for zsh. To load it: source <(dtrain completion zsh)\n_dtrain() {\n"
      "  local -a commands\n  local command=train\n  integer skipped=0\n";
  std::string first = zsh_descriptions(commands, "");
  std::string second;
  for (const auto& [word, group] : groups_of(commands)) {
    std::vector<std::string> seconds;
    for (const CommandHelp* command : group) seconds.push_back(command->words[1]);
    first += fmt::format(" '{}:{}'", word, fmt::join(seconds, ", "));
    second += fmt::format(
        "  if (( CURRENT == 3 )) && [[ $words[2] == {} ]]; then\n    commands=({})\n"
        "    _describe 'sub-command' commands\n    return\n  fi\n",
        word, zsh_descriptions(commands, word));
  }
  text += fmt::format(
      "  if (( CURRENT == 2 )) && [[ $words[2] != -* ]]; then\n    commands=({})\n"
      "    _describe 'sub-command' commands\n    return\n  fi\n",
      first);
  text += second + "  case \"$words[2] $words[3] \" in\n";
  for (const CommandHelp& command : commands) {
    text += fmt::format("    '{0} '*) command='{0}'; skipped={1} ;;\n", command.name(), command.words.size());
  }
  text += "  esac\n  shift $skipped words\n  (( CURRENT -= skipped ))\n  case $command in\n";
  for (const CommandHelp& command : commands) text += zsh_case(command);
  return text +
         "  esac\n}\nif [[ $funcstack[1] == _dtrain ]]; then\n  _dtrain \"$@\"\nelse\n  compdef _dtrain dtrain\nfi\n";
}

std::string fish_completion(const Commands& commands) {
  std::string text = kFishStart;
  for (const CommandHelp& command : commands) {
    text += fmt::format("        case '{0} *'\n            set command '{0}'\n", command.name());
  }
  text += kFishEnd;
  for (const CommandHelp& command : commands) {
    if (command.words.size() == 2) continue;
    text += fmt::format("complete -c dtrain -n '__dtrain_after' -a {} -d {}\n", command.name(),
                        fish_quoted(command.summary));
  }
  for (const auto& [word, group] : groups_of(commands)) {
    text += fmt::format("complete -c dtrain -n '__dtrain_after' -a {}\n", word);
    for (const CommandHelp* command : group) {
      text += fmt::format("complete -c dtrain -n '__dtrain_after {}' -a {} -d {}\n", word, command->words[1],
                          fish_quoted(command->summary));
    }
  }
  for (const CommandHelp& command : commands) text += fish_command(command);
  return text;
}

}  // namespace dtrain::cmd
