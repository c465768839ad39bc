// Arguments into flags and values.
//
// A flag is taken by its whole name: "--lr 0.1", "--lr=0.1", and for one letter also "-n2". What is joined on by "=" is
// the value, even if it is empty. "-network" is no flag, although "-n" is one: a dash is missing.
//
// Written here because libraries read it otherwise: CLI11 takes the next word as the value of "--flag=", and does not
// say which words a flag was read from, which without_flags() needs; getopt_long accepts abbreviations, which change
// their meaning when a flag is added, and keeps its state in globals.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"

namespace dtrain::job {

struct Spelling {
  std::string text;  // "--num-workers", "-n"
  bool boolean;      // may stand without a value, then it is 1; takes a following "0" or "1"
};
using Spellings = std::vector<Spelling>;  // of one flag, its own name first

struct GivenFlag {
  size_t flag;
  std::string spelling;
  std::string value;
  size_t first = 0, words = 1;  // the arguments that it was read from
};

struct CommandLine {
  std::vector<GivenFlag> given;     // in order
  std::vector<std::string> extras;  // whatever belongs to no flag, in order: positionals and unknown flags
};

// Code::kUsage if a value is missing: nothing follows, or another flag.
Result<CommandLine> read_command_line(const std::vector<Spellings>& flags, const std::vector<std::string>& arguments);

// --help or -h is among them.
bool asks_for_help(const std::vector<std::string>& arguments);

}  // namespace dtrain::job
