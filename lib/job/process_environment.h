// Environment variables of the processes that a launcher starts: those of --env, --env-server, --env-worker and
// --env-file, and those that it forwards to other hosts by itself.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "job/flags.h"

namespace dtrain::job {

struct Variable {
  std::string name;
  std::optional<std::string> value;  // nothing: the launcher's own
};

// "NAME=value", "NAME", or as launch.py has it, "NAME:value". Code::kUsage: no such name can be.
Result<Variable> parse_variable(std::string_view text);

// "NAME=value" each, of --env-file, then --env, then the role's own: of two with one name the last one counts.
// Code::kUsage: a variable that is to be the launcher's own and is not set; a file that cannot be read or has other
// lines.
Result<std::vector<std::string>> process_environment(const LaunchFlags& flags, Role role,
                                                     const Environment& environment);

// The variables, of those that are forwarded to other hosts automatically, that are set in this process: "NAME=value".
std::vector<std::string> forwarded_environment(const Environment& environment);

}  // namespace dtrain::job
