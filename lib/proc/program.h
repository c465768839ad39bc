// A program to start on this host.
#pragma once

#include <string>
#include <vector>

namespace dtrain::proc {

struct Program {
  std::vector<std::string> arguments;         // the first word is the executable, which is searched for in PATH
  std::vector<std::string> environment = {};  // "NAME=value", added to the variables of this process
  std::string input = {};                     // its stdin; empty: /dev/null
};

// The command line in shell syntax, with quotes where needed.
std::string shell_line(const std::vector<std::string>& arguments);

}  // namespace dtrain::proc
