// Splits command-line arguments into flags and their values.
//
// Flags must be spelled in full: "--lr 0.1", "--lr=0.1"; one-letter flags also as "-n2". Text after "=" is the value,
// even if it is empty. "-network" is not read as "-n etwork": it is probably "--network" with a dash missing.
//
// Libraries do not fit. CLI11 takes the next word as the value of "--flag=", and does not report which words a flag was
// read from, which without_flags() needs. getopt_long accepts abbreviations, whose meaning changes when a flag is
// added, and keeps its state in globals.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"

namespace dtrain::job {

struct Spelling {
  std::string text;  // "--num-workers", "-n"
  bool boolean;      // the value may be omitted and is then 1; the next word is the value only if it is "0" or "1"
};
using Spellings = std::vector<Spelling>;  // all spellings of one flag, the main one first

struct GivenFlag {
  size_t flag;  // index in the list given to read_command_line
  std::string spelling;
  std::string value;
  size_t first = 0, words = 1;  // it was read from arguments [first, first + words)
};

struct CommandLine {
  std::vector<GivenFlag> given;     // in order
  std::vector<std::string> extras;  // arguments that belong to no known flag, in order: positionals and unknown flags
};

// Code::kUsage if a value is missing: the flag is the last argument, or another flag follows it.
Result<CommandLine> read_command_line(const std::vector<Spellings>& flags, const std::vector<std::string>& arguments);

// True if --help or -h is among the arguments.
bool asks_for_help(const std::vector<std::string>& arguments);

}  // namespace dtrain::job
