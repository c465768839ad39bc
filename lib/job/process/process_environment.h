// How a process reads its environment, and the variables of the processes that a launcher starts: those of --env,
// --env-server, --env-worker and --env-file, and those that the launcher forwards to other hosts automatically.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "job/process/process_name.h"

namespace dtrain::job {

struct LaunchFlags;

// Returns the value of an environment variable, or nullopt if it is not set. Only cmd reads the real environment.
using Environment = std::function<std::optional<std::string>(const std::string& name)>;

struct Variable {
  std::string name;
  std::optional<std::string> value;  // value of the variable; nullopt: that in the launcher's own environment
};

// Parses "NAME=value", "NAME" or, as in MXNet's launch.py, "NAME:value". Code::kUsage if the name is not valid.
Result<Variable> parse_variable(std::string_view text);

// "NAME=value" for each variable of --env-file, then --env, then --env-server or --env-worker. If a name occurs twice,
// the later value counts. Code::kUsage if the file cannot be read or a line is malformed, or if a variable has no value
// and the launcher's environment has none either.
Result<std::vector<std::string>> process_environment(const LaunchFlags& flags, Role role,
                                                     const Environment& environment);

// The variables that are set in this process and are forwarded to other hosts automatically: "NAME=value".
std::vector<std::string> forwarded_environment(const Environment& environment);

}  // namespace dtrain::job
