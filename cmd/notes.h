// Lines on stderr for what is allowed, but is unlikely to be meant.
#pragma once

#include <cstdint>

#include "command.h"

namespace dtrain::cmd {

// More threads than this machine has cores.
void note_threads(int64_t threads);
// The same of --threads, said once for each machine: by a launcher for the processes that it starts on its own.
void note_threads(const job::Flags& flags, const job::Environment& environment);

}  // namespace dtrain::cmd
