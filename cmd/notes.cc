#include "notes.h"

#include <cstdio>
#include <thread>

namespace dtrain::cmd {

void note_threads(int64_t threads) {
  const int64_t cores = std::thread::hardware_concurrency();  // 0 if unknown
  if (cores == 0 || threads <= cores) return;
  fmt::print(stderr, "note: --threads {}: this machine has {} core{}; more threads than cores make each step slower\n",
             threads, cores, cores == 1 ? "" : "s");
}

void note_threads(const job::Flags& flags, const job::Environment& environment) {
  const bool is_launcher = flags.launch.role == job::Role::kNone;
  const bool launcher_says_it = !is_launcher && environment("DMLC_JOB_CLUSTER").value_or("") == "local";
  const bool others_say_it = is_launcher && flags.launch.on_other_hosts();
  if (!launcher_says_it && !others_say_it) note_threads(flags.launch.threads);
}

}  // namespace dtrain::cmd
