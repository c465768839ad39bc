#include "launch/end_report.h"

#include <fmt/ranges.h>
#include <algorithm>
#include <csignal>
#include <string>
#include <string_view>
#include <utility>

#include "job/process/exit_code.h"

namespace dtrain::launch {
namespace {

void say(Screen& screen, std::string_view text) {
  screen.line(fmt::format("dtrain: {}", text), Fit::kWords);
}

void say_log_hint(const Job& job, Screen& screen) {
  const std::string hint = job.log_hint ? job.log_hint() : "";
  if (!hint.empty()) say(screen, hint);
}

void say_how_to_go_on(const Job& job, const JobHistory& history, Screen& screen) {
  if (!history.may_have_trained) {
    say(screen, "stopped before training began, so nothing was saved; the same command starts the job again");
  } else if (!job.stopped_hint.empty()) {
    say(screen, job.stopped_hint);
  }
}

// True if the process can only report that the launcher stopped it.
bool stopped_on_request(const std::string& name, const JobHistory& history) {
  const auto end = std::ranges::find(history.ended, name, &Ended::name);
  return end != history.ended.end() && code_of(*end) == job::kExitPreempted;
}

// Reports a process that was killed. It could not report an error itself, so this shows what the other processes
// noticed.
void report_killed(const Ended& ended, const std::string& what, const JobHistory& history, Screen& screen) {
  constexpr size_t kShown = 8;
  std::vector<std::string> seen;
  for (const JobHistory::Process& process : history.processes) {
    if (process.command->name() == ended.name || process.printed->error().empty()) continue;
    if (stopped_on_request(process.command->name(), history)) continue;
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

// The process that the first error of `reporter` is about, if it is another process; null otherwise. For example, the
// line "error [data] worker 0 failed: ..." is about worker 0 if `what` is " failed: ".
const JobHistory::Process* told_of(const JobHistory::Process& reporter, std::string_view what,
                                   const JobHistory& history) {
  if (reporter.printed->error().empty()) return nullptr;
  const std::string& line = reporter.printed->error().front();
  const auto other = std::ranges::find_if(history.processes, [&](const JobHistory::Process& process) {
    return &process != &reporter &&
           line.find(fmt::format("] {}{}", process.command->name(), what)) != std::string::npos;
  });
  return other == history.processes.end() ? nullptr : &*other;
}

// Whether the job has reached its end, perhaps without some of its workers.
bool has_survived(const Job& job, const JobHistory& history) {
  const std::string_view judge = job.joins_scheduler ? "worker" : "scheduler";
  return std::ranges::any_of(history.ended, [&](const Ended& ended) {
    return ended.role == judge && (code_of(ended) == job::kExitOk || code_of(ended) == job::kExitPreempted);
  });
}

// The ends that count. Those of workers without which the job has continued to its end do not.
std::vector<Ended> judged(const Job& job, const JobHistory& history) {
  std::vector<Ended> ended = history.ended;
  if (has_survived(job, history)) std::erase_if(ended, [](const Ended& one) { return one.was_spared; });
  for (const JobHistory::Process& process : history.processes) {
    const auto end = std::ranges::find(ended, process.command->name(), &Ended::name);
    if (end != ended.end()) end->passes_on = told_of(process, " failed: ", history) != nullptr;
  }
  return ended;
}

// Reports a failure and returns the error that it printed.
std::string report_failure(const Ended& ended, const JobHistory& history, Screen& screen) {
  const auto process =
      std::ranges::find(history.processes, ended.name, [](const JobHistory::Process& p) { return p.command->name(); });
  DT_CHECK(process != history.processes.end(), "{} is not a process of the job", ended.name);
  std::string what = fmt::format("{} on {} {}", ended.name, process->command->host, describe(ended));
  const bool reported = !process->printed->error().empty();
  if (ended.stopped && ended.signal == SIGKILL) {
    what = fmt::format("{} on {} was killed, because it did not end in time", ended.name, process->command->host);
    say(screen, what);
    return what;
  }
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
  // A process that hangs cannot report anything, so another process's report about it is shown.
  if (const JobHistory::Process* lost = told_of(*process, " was lost", history)) {
    say(screen, fmt::format("{} on {} was lost; {}, which {}, reports:", lost->command->name(), lost->command->host,
                            ended.name, describe(ended)));
  } else {
    say(screen, fmt::format("{}; its {}:", what, reported ? "first error" : "last lines"));
  }
  screen.line(words);
  return words;
}

}  // namespace

JobEnd report_end(const Job& job, const JobHistory& history, Screen& screen) {
  const std::vector<Ended> ended = judged(job, history);
  const std::optional<size_t> root = root_cause(ended);
  if (history.start_error && (!root || ended[*root].stopped)) {
    say_log_hint(job, screen);
    std::string error = history.start_error->text();
    screen.line(error);
    return {.exit_code = job::exit_code(history.start_error->code), .error = std::move(error)};
  }
  if (!root) return {};
  const Ended& cause = ended[*root];
  if (code_of(cause) == job::kExitPreempted) {
    say_how_to_go_on(job, history, screen);
    return {.exit_code = job::kExitPreempted, .error = ""};
  }
  if (history.killed_by_user && cause.stopped && cause.signal == SIGKILL) {
    const std::string what = "killed by the second interrupt; a checkpoint may be incomplete";
    say(screen, what);
    if (history.may_have_trained && !job.stopped_hint.empty()) say(screen, job.stopped_hint);
    return {.exit_code = code_of(cause), .error = what, .was_killed = true};
  }
  say_log_hint(job, screen);
  return {
      .exit_code = code_of(cause), .error = report_failure(cause, history, screen), .was_killed = was_killed(cause)};
}

}  // namespace dtrain::launch
