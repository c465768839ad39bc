// A program to start on this host.
#pragma once

#include <string>
#include <vector>

namespace dtrain::proc {

struct Program {
  std::vector<std::string> arguments;         // the first one is the executable, which is searched for in PATH
  std::vector<std::string> environment = {};  // "NAME=value", added to the variables of this process
  std::string input = {};                     // what it reads from stdin; empty: /dev/null
};

// The command line in shell syntax, with quotes where they are needed.
std::string shell_line(const std::vector<std::string>& arguments);

}  // namespace dtrain::proc
