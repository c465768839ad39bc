// The foreground process of a launcher. It is the process that the user's shell started, and the only process that
// writes to the terminal.
//
// A child does the launcher's work in a separate process group, which the terminal cannot stop. Ctrl-S, Ctrl-Z or a
// pager that does not read therefore only delay the display; if there is no reader, or the disk is full, only the
// display is lost. The child's output comes through a pipe (screen.h). If this process ends early, even by kill -9, the
// child receives SIGHUP.
#pragma once

#include <functional>

#include "base/console.h"
#include "base/error.h"
#include "launch/screen.h"

namespace dtrain::launch {

// Runs `work` in the child, shows its output, passes INT, TERM, HUP, USR1 and USR2 on to it, and returns its exit code.
// An Error returned by `work` is also shown. In the child those signals are blocked (signal_queue.h receives them).
// Signals that were ignored before (HUP under nohup) stay ignored. The calling process must have a single thread.
Result<int> run_in_background(Console& console, const std::function<Result<int>(Screen&)>& work);

}  // namespace dtrain::launch
