// The process of a launcher that a user's shell knows, and that alone writes to the terminal.
//
// The launcher's work is done by a child in a process group of its own, which the terminal cannot stop: Ctrl-S, a pager
// that is not read on, and Ctrl-Z hold up the display and nothing else. What the child shows comes through a pipe
// (screen.h). If this process ends before its time, kill -9 included, the child gets HUP.
#pragma once

#include <functional>

#include "base/console.h"
#include "base/error.h"
#include "launch/screen.h"

namespace dtrain::launch {

// Runs `work` in the child, shows what it says, passes INT, TERM, HUP, USR1 and USR2 on to it, and returns its exit
// code; an Error of `work` is shown, too. In the child those signals are blocked (signal_queue.h takes them). What was
// ignored before (HUP under nohup) stays ignored. The process has one thread.
Result<int> run_in_background(Console& console, const std::function<Result<int>(Screen&)>& work);

}  // namespace dtrain::launch
