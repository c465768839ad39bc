// Runs one of the small programs that every Linux system has: tar, gzip, sha256sum.
#pragma once

#include <string>
#include <vector>

#include "launch/run_all.h"

namespace dtrain::launch {

// Code::kStartup: there is no such program. Code::kPreempted: a signal arrived, and the program was ended.
Result<Finished> run_tool(const std::vector<std::string>& arguments, SignalQueue& signals);

// The same; Code::kData, with the tool's words, if it does not end with code 0.
Result<Finished> must_run_tool(const std::vector<std::string>& arguments, SignalQueue& signals);

}  // namespace dtrain::launch
