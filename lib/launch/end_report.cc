#include "launch/end_report.h"

#include <algorithm>
#include <csignal>
#include <string>
#include <string_view>
#include <utility>

#include "job/process/exit_code.h"

namespace dtrain::launch {
namespace {

void say(Screen& screen, std::string_view text) {
  screen.line(fmt::format("dtrain: {}", text));
}

void say_log_hint(const Job& job, Screen& screen) {
  const std::string hint = job.log_hint ? job.log_hint() : "";
  if (!hint.empty()) say(screen, hint);
}

// A process that was killed could not report an error, so this shows what the other processes noticed.
void report_killed(const Ended& ended, const std::string& what, const JobHistory& history, Screen& screen) {
  constexpr size_t kShown = 8;
  std::vector<std::string> seen;
  for (const JobHistory::Process& process : history.processes) {
    if (process.command->name() == ended.name || process.printed->error().empty()) continue;
    seen.push_back(fmt::format("  {}: {}", process.command->name(), process.printed->error().front()));
  }
  const size_t more = seen.size() > kShown ? seen.size() - kShown : 0;
  seen.resize(seen.size() - more);
  if (more > 0) seen.push_back(fmt::format("  and {} more processes; see their logs", more));
  const std::string cause = ended.signal == SIGKILL && !ended.stopped
                                ? ": by kill -9, or by the kernel because memory ran out (see dmesg)"
                                : "";
  say(screen, fmt::format("{}{}{}", what, cause, seen.empty() ? "" : "; the other processes report:"));
  for (const std::string& line : seen) screen.line(line);
}

// Whether the error of the process is what the scheduler told it of another one: "error [data] worker 0 failed: ...".
bool passes_on(const JobHistory::Process& process, const JobHistory& history) {
  if (process.printed->error().empty()) return false;
  const std::string& line = process.printed->error().front();
  return std::ranges::any_of(history.processes, [&](const JobHistory::Process& other) {
    return &other != &process && line.find(fmt::format("] {} failed: ", other.command->name())) != std::string::npos;
  });
}

std::vector<Ended> judged(const JobHistory& history) {
  std::vector<Ended> ended = history.ended;
  for (const JobHistory::Process& process : history.processes) {
    const auto end = std::ranges::find(ended, process.command->name(), &Ended::name);
    if (end != ended.end()) end->passes_on = passes_on(process, history);
  }
  return ended;
}

// Returns the error that it printed.
std::string report_failure(const Ended& ended, const JobHistory& history, Screen& screen) {
  const auto process =
      std::ranges::find(history.processes, ended.name, [](const JobHistory::Process& p) { return p.command->name(); });
  DT_CHECK(process != history.processes.end(), "{} is not a process of the job", ended.name);
  std::string what = fmt::format("{} on {} {}", ended.name, process->command->host, describe(ended));
  const bool reported = !process->printed->error().empty();
  if (!reported && was_killed(ended)) {
    report_killed(ended, what, history, screen);
    return what;
  }
  std::string words =
      fmt::format("{}", fmt::join(reported ? process->printed->error() : process->printed->last_lines(), "\n"));
  if (words.empty()) {
    say(screen, what + " without printing anything");
    return what;
  }
  say(screen, fmt::format("{}; its {}:", what, reported ? "first error" : "last lines"));
  screen.line(words);
  return words;
}

}  // namespace

JobEnd report_end(const Job& job, const JobHistory& history, Screen& screen) {
  const std::vector<Ended> ended = judged(history);
  const std::optional<size_t> root = root_cause(ended);
  if (history.start_error && (!root || ended[*root].stopped)) {
    say_log_hint(job, screen);
    std::string error = history.start_error->text();
    screen.line(error);
    return {job::exit_code(history.start_error->code), std::move(error), {}};
  }
  if (!root) return {};
  const Ended& cause = ended[*root];
  if (code_of(cause) == job::kExitPreempted) {
    if (!job.stopped_hint.empty()) say(screen, job.stopped_hint);
    return {job::kExitPreempted, "", {}};
  }
  say_log_hint(job, screen);
  return {code_of(cause), report_failure(cause, history, screen), {}};
}

}  // namespace dtrain::launch
