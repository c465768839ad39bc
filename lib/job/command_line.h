// Arguments into flags and values. CLI11 does it and is seen by this file's .cc alone.
#pragma once

#include <string>
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
};

struct CommandLine {
  std::vector<GivenFlag> given;     // in order
  std::vector<std::string> extras;  // whatever belongs to no flag, in order: positionals and unknown flags
};

// Flags are taken by their whole names. Code::kUsage if a value is missing.
Result<CommandLine> read_command_line(const std::vector<Spellings>& flags, const std::vector<std::string>& arguments);

}  // namespace dtrain::job
