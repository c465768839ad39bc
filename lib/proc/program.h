// A program to start on this host.
#pragma once

#include <string>
#include <vector>

namespace dtrain::proc {

struct Program {
  std::vector<std::string> arguments;         // the first is the executable, which is searched for in PATH
  std::vector<std::string> environment = {};  // entries "NAME=value", in addition to the variables of this process
  std::string input = {};                     // the content of its stdin; empty: stdin is /dev/null
  bool takes_more_input = false;              // whether its stdin stays open, for Children::send()
};

// The command line in shell syntax, quoted where needed.
std::string shell_line(const std::vector<std::string>& arguments);

}  // namespace dtrain::proc
