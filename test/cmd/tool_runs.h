// Runs of the tools, and what can be seen of them.
#pragma once

#include <string>
#include <vector>

#include "dump.h"

namespace dtrain::test {

// Makes the files that the command lines of tool_flags.txt name.
void make_inputs(const std::string& dir);

struct ToolRun {
  bool succeeded = false;
  std::string output;  // what was printed, for a message
  // "exit code"; "stdout", or "json.KEY" for each key if lines of JSON were printed; "stderr"; "file NAME" for each
  // file that was written; "threads": how many were started; "request.OPTION" for each option that a benchmark or a
  // download asks its tool for (cmd/requests.h). Measured values and the numbers in messages are masked; what a tool
  // prints that starts a job is not there.
  Products seen;
};

// Runs dtrain with these words in an empty directory.
ToolRun run_tool(const std::vector<std::string>& words, const std::string& inputs);

}  // namespace dtrain::test
