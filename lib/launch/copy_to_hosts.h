// --sync-dst-dir: copies this program and the current directory to the hosts of a job, before its first process starts.
#pragma once

#include "base/error.h"
#include "launch/job.h"
#include "launch/screen.h"
#include "proc/signal_queue.h"

namespace dtrain::launch {

// Does nothing for hosts without a `copy`. The program is sent only to hosts that do not have it yet. The files are
// sent with rsync if the host has it, which sends only differences, and otherwise with tar. Several hosts are served at
// the same time. The first failure ends the other copies: Code::kStartup, with the host and the message of ssh, tar or
// rsync.
Result<> copy_to_hosts(const Job& job, Screen& screen, proc::SignalQueue& signals);

}  // namespace dtrain::launch
