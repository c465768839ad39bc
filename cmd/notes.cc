#include "notes.h"

#include <cstdio>

#include "base/host_limits.h"
#include "base/printable.h"
#include "job/flags/flags.h"

namespace dtrain::cmd {

void show_note(const std::string& note) {
  fmt::print(stderr, "note: {}\n", printable(note, std::string::npos));
}

void note_threads(int64_t threads) {
  const int64_t cores = usable_cores();
  if (threads <= cores) return;
  show_note(fmt::format("--threads {}: this process can use {} core{}; more threads than cores make each step slower",
                        threads, cores, cores == 1 ? "" : "s"));
}

void note_threads(const job::Flags& flags, const job::Environment& environment) {
  const bool is_launcher = flags.launch.role == job::Role::kNone;
  const bool launcher_says_it = !is_launcher && environment("DMLC_JOB_CLUSTER").value_or("") == "local";
  const bool others_say_it = is_launcher && flags.launch.on_other_hosts();
  if (!launcher_says_it && !others_say_it) note_threads(flags.launch.threads);
}

}  // namespace dtrain::cmd
