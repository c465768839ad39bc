// Notes on stderr about settings that are allowed but probably not intended.
#pragma once

#include <cstdint>
#include <string>

#include "command.h"

namespace dtrain::job {
struct Flags;
}

namespace dtrain::cmd {

// Prints "note: TEXT" to stderr. The text may contain untrusted paths and values.
void show_note(const std::string& note);

// Prints a note if `threads` is larger than the number of this host's cores.
void note_threads(int64_t threads);
// Prints this note about --threads. The note appears only once on each host, because a launcher prints it for the
// processes that it starts on its own host.
void note_threads(const job::Flags& flags, const job::Environment& environment);

}  // namespace dtrain::cmd
