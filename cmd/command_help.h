// The --help of a sub-command, as data. Completion scripts and the manual page are generated from it.
#pragma once

#include <string>
#include <vector>

#include "base/words.h"
#include "job/flags/flag_table.h"

namespace dtrain::cmd {

struct CommandHelp {
  std::vector<std::string> words;  // the words of the sub-command: "bench", "kv"
  std::string summary;             // what the sub-command does, in one line
  std::string usage;  // how to call it: "dtrain kill JOB [FLAGS]"; more lines with a description may follow
  std::vector<job::FlagHelp> flags;
  // Words that are accepted after the sub-command's --help or after `dtrain help`; empty: none.
  std::vector<std::string> topics;

  [[nodiscard]] std::string name() const { return joined(words, " "); }
};

}  // namespace dtrain::cmd
