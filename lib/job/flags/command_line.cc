#include "job/flags/command_line.h"

#include <fmt/core.h>

#include <CLI/App.hpp>
#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>
#include <algorithm>
#include <map>

#include "base/words.h"
#include "job/flags/flags.h"
#include "job/flags/value.h"

namespace dtrain::job {

namespace {

using WordList = std::vector<std::string>;
struct KnownFlag {
  size_t flag;
  bool boolean;
};
using KnownFlags = std::map<std::string, KnownFlag, std::less<>>;  // the known flags, indexed by spelling

// CLI11 takes the last word of its list first.
WordList reversed(WordList words) {
  std::reverse(words.begin(), words.end());
  return words;
}

bool is_short(const std::string& word) {
  return word.size() > 2 && word[0] == '-' && word[1] != '-';
}

// Negative numbers are values, not flags.
bool is_flag(const KnownFlags& known, const std::string& word) {
  return word.starts_with("--") || known.contains(word) || (is_short(word) && known.contains(word.substr(0, 2)));
}

// Returns "1" for "True", for example. A word that does not mean a boolean is returned unchanged, to be refused later.
std::string plain_boolean(const std::string& word) {
  const std::optional<bool> meant = boolean_of(word);
  return meant ? format_value(*meant) : word;
}

// Rewrites the arguments so that each known flag is followed by its value as a separate word, because CLI11 would read
// some forms differently from what people expect. CLI11 takes any word as the value of a flag, even another flag; it
// takes the next word as the value of "--lr="; "=2" as that of "-n=2"; and "etwork" as that of "-network". It would
// read "--list True" as a boolean and a positional.
Result<WordList> settled(const KnownFlags& known, const WordList& arguments) {
  WordList words;
  for (auto word = arguments.begin(); word != arguments.end(); word++) {
    if (*word == "--") {
      words.insert(words.end(), word, arguments.end());
      break;
    }
    const size_t equals = word->find('=');
    const std::string name = word->substr(0, equals);
    const std::string* next = word + 1 != arguments.end() ? &word[1] : nullptr;
    const auto flag = known.find(name);
    if (flag == known.end() && is_short(name) && known.contains("-" + name)) {
      return fail(Code::kUsage, "unknown flag '{}', did you mean '-{}'?", name, name);
    }
    if (flag == known.end()) {
      words.push_back(*word);
    } else if (equals != std::string::npos) {
      const std::string value = word->substr(equals + 1);
      words.insert(words.end(), {name, flag->second.boolean ? plain_boolean(value) : value});
    } else if (flag->second.boolean) {
      words.insert(words.end(), {name, next != nullptr && boolean_of(*next) ? plain_boolean(*++word) : "1"});
    } else if (next == nullptr || is_flag(known, *next)) {
      return fail(Code::kUsage, "{}: the value is missing{}", name,
                  next == nullptr ? "" : fmt::format("; the next word, '{}', is a flag", *next));
    } else {
      words.insert(words.end(), {name, *++word});
    }
  }
  return words;
}

// The lines of --help for one flag.
std::string lines_of(const std::string& names, const std::string& help, HelpLayout layout) {
  std::string text = "  " + names;
  size_t column = text.size();
  if (column + 2 > layout.column) {
    text += "\n";
    column = 0;
  }
  text += std::string(layout.column - column, ' ');
  column = layout.column;
  for (size_t begin = 0; begin < help.size();) {
    const size_t end = std::min(help.find(' ', begin), help.size());
    if (column > layout.column && column + 1 + (end - begin) > layout.width) {
      text += "\n" + std::string(layout.column, ' ');
      column = layout.column;
    }
    if (column > layout.column) {
      text += " ";
      column++;
    }
    text += help.substr(begin, end - begin);
    column += end - begin;
    begin = end + 1;
  }
  return text + "\n";
}

// CLI11's own layout does not wrap lines at the width of a terminal.
class HelpFormatter : public CLI::Formatter {
 public:
  explicit HelpFormatter(HelpLayout layout) : layout_(layout) {}

  std::string make_group(std::string heading, bool /*positional*/,
                         std::vector<const CLI::Option*> options) const override {
    std::string text = heading == kNoHeading ? "" : heading + "\n";
    for (const CLI::Option* option : options) text += make_option(option, false);
    return text;
  }

  std::string make_option(const CLI::Option* option, bool /*positional*/) const override {
    std::string names;
    for (const std::string& name : option->get_lnames()) names += (names.empty() ? "--" : ", --") + name;
    for (const std::string& name : option->get_snames()) names += (names.empty() ? "-" : ", -") + name;
    const std::string value = option->get_type_name();
    return lines_of(names + (value.empty() ? "" : " ") + value, option->get_description(), layout_);
  }

  static constexpr std::string_view kNoHeading = "Options";  // CLI11's name for the group of an option without one

 private:
  HelpLayout layout_;
};

}  // namespace

Result<CommandLine> read_command_line(const std::vector<Spellings>& flags, const WordList& arguments) {
  KnownFlags known;
  for (size_t flag = 0; flag < flags.size(); flag++) {
    for (const Spelling& spelling : flags[flag]) known[spelling.text] = {flag, spelling.boolean};
  }
  DT_TRY(WordList words, settled(known, arguments));
  CLI::App app;
  app.set_help_flag();  // removes CLI11's own --help, because each sub-command handles --help itself
  app.allow_extras();
  app.option_defaults()->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
  struct Origin {
    size_t flag = 0;
    std::string spelling = {};
    size_t values_read = 0;
  };
  std::map<const CLI::Option*, Origin> origins;  // CLI11 does not report which spelling of an option was given
  // Adds only the options that may have been given: CLI11 compares each new option's name with all others, so the 260
  // spellings of training would take 15 million instructions, a fifth of a start.
  for (const std::string& word : words) {
    auto flag = known.find(word);
    if (flag == known.end() && is_short(word)) flag = known.find(word.substr(0, 2));
    if (flag == known.end() || app.get_option_no_throw(flag->first) != nullptr) continue;
    origins[app.add_option(flag->first)] = {flag->second.flag, flag->first};
  }
  try {
    app.parse(reversed(std::move(words)));
  } catch (const CLI::ParseError& error) {
    return fail(Code::kUsage, "the command line cannot be read: {}", error.what());
  }
  CommandLine line{{}, app.remaining()};
  for (const CLI::Option* option : app.parse_order()) {
    Origin& origin = origins.at(option);
    line.given.push_back({origin.flag, origin.spelling, option->results().at(origin.values_read++)});
  }
  return line;
}

size_t count_command_words(const std::vector<WordList>& commands, const WordList& arguments) {
  // The value of a flag may equal the name of a sub-command. Version 2.4 of CLI11 reads "data.get" as "data get".
  WordList leading;
  for (const std::string& word : arguments) {
    if (leading.size() == 2 || word.starts_with('-') || word.find('.') != std::string::npos) break;
    leading.push_back(word);
  }
  if (leading.empty()) return 0;
  CLI::App app;
  app.set_help_flag();
  app.prefix_command();  // words after the first one that is not a sub-command are not read
  app.require_subcommand(0, 1);
  std::map<std::string, CLI::App*> parents;
  for (const WordList& command : commands) {
    CLI::App*& parent = parents[command[0]];
    if (parent == nullptr) parent = app.add_subcommand(command[0]);
    if (command.size() == 2) parent->add_subcommand(command[1]);
  }
  app.parse(reversed(std::move(leading)));
  size_t words = 0;
  for (const CLI::App* at = &app; !at->get_subcommands().empty(); at = at->get_subcommands().front()) words++;
  return words;
}

bool is_help(const std::string& word) {
  return word == "--help" || word == "-h";
}

bool asks_for_help(const WordList& arguments) {
  return std::any_of(arguments.begin(), arguments.end(), is_help);
}

std::string help_lines(const std::vector<FlagHelp>& flags, HelpLayout layout) {
  CLI::App app;
  app.set_help_flag();
  for (const FlagHelp& flag : flags) {
    const std::string limits = flag.limits.empty() ? "" : fmt::format(" [{}]", flag.limits);
    CLI::Option* option = app.add_option(joined(flag.names, ","));
    option->description(flag.help + limits)->type_name(flag.value);
    if (!flag.section.empty()) option->group(flag.section);
  }
  const bool has_heading = !flags.empty() && !flags.front().section.empty();
  return (has_heading ? "\n" : "") + HelpFormatter(layout).make_groups(&app, CLI::AppFormatMode::Normal);
}

}  // namespace dtrain::job
