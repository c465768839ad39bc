// The command line: the sub-command that its first words name, flags with their values, and the layout of --help. CLI11
// does this; command_line.cc alone includes it, because its headers take seconds to compile.
#pragma once

#include <string>
#include <vector>

#include "base/error.h"

namespace dtrain::job {

struct Spelling {
  std::string text;  // the spelling: "--num-workers", "-n"
  bool boolean;      // the value may be omitted and is then 1
};
using Spellings = std::vector<Spelling>;  // all spellings of one flag, the main one first

struct GivenFlag {
  size_t flag;  // index in the list given to read_command_line
  std::string spelling;
  std::string value;
};

struct CommandLine {
  std::vector<GivenFlag> given;     // the flags in the order in which they are given; a flag may be given several times
  std::vector<std::string> extras;  // arguments that belong to no known flag, in order: positionals and unknown flags
};

// Splits arguments into flags and their values.
//
// Flags must be spelled in full: "--lr 0.1", "--lr=0.1"; one-letter flags also as "-n2". The text after "=" is the
// value, even if it is empty. The word after a boolean flag is its value only if it means a boolean (boolean_of); the
// value is then "1" or "0". "-network" is not read as "-n etwork": it is probably "--network" with a dash missing. The
// words after "--" are extras, and so is "--" itself.
//
// Code::kUsage: the value of a flag is missing, because the flag is the last argument or another flag follows it; or a
// dash is missing.
Result<CommandLine> read_command_line(const std::vector<Spellings>& flags, const std::vector<std::string>& arguments);

// The number of leading arguments that name a sub-command. If {"bench", "kv"} is among `commands`, it is 2 for
// {"bench", "kv", "--json"}. It is 1 for {"bench", "--json"}, in which no second word completes the name.
size_t count_command_words(const std::vector<std::vector<std::string>>& commands,
                           const std::vector<std::string>& arguments);

bool is_help(const std::string& word);  // whether the word is --help or -h
// True if --help or -h is among the arguments.
bool asks_for_help(const std::vector<std::string>& arguments);

// A flag as --help, the manual page and shell completion show it.
struct FlagHelp {
  std::vector<std::string> names;  // all spellings with dashes, the main one first
  std::string value = {};          // the value's placeholder; empty for a switch
  std::string help = {};
  std::string brief = {};                // `help` in a few words
  std::string default_text = {};         // the default value, such as "128"
  std::string limits = {};               // the range and the default: "1 to 1048576; default: 128"
  std::vector<std::string> values = {};  // values to suggest; empty if there is no list
  std::string environment = {};          // the environment variable that is the fallback; empty: none
  std::string section = {};              // the heading; may be empty
};

struct HelpLayout {
  size_t column = 26, width = 80;  // column: where the help texts begin; width: length of the longest line
};

// The lines of --help for the flags, with the headings of their sections.
std::string help_lines(const std::vector<FlagHelp>& flags, HelpLayout layout = {});

}  // namespace dtrain::job
