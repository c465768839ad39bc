// The --help of a sub-command, as data. Completion scripts and the manual page are generated from it.
#pragma once

#include <string>
#include <vector>

#include "base/words.h"
#include "job/flags/flag_table.h"

namespace dtrain::cmd {

struct CommandHelp {
  std::vector<std::string> words;  // "bench", "kv"
  std::string summary;             // what the sub-command does, in one line
  std::string usage;               // "dtrain kill JOB [FLAGS]"; more lines with a description may follow
  std::vector<job::FlagHelp> flags;
  std::vector<std::string> topics;  // words that are accepted after its --help or after `dtrain help`; empty: none

  [[nodiscard]] std::string name() const { return joined(words, " "); }
};

}  // namespace dtrain::cmd
