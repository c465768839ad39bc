// Notes on stderr about settings that are allowed but probably not intended.
#pragma once

#include <cstdint>
#include <string>

#include "command.h"

namespace dtrain::job {
struct Flags;
}

namespace dtrain::cmd {

// Prints "note: TEXT" for people. The text may contain untrusted paths and values.
void show_note(const std::string& note);

// Prints a note if `threads` is more than this host's number of cores.
void note_threads(int64_t threads);
// The same for --threads, once per host: a launcher prints it for the processes that it starts on its own host.
void note_threads(const job::Flags& flags, const job::Environment& environment);

}  // namespace dtrain::cmd
