#include "launch/restarts.h"

#include <poll.h>

#include <algorithm>
#include <csignal>
#include <cstring>

#include "base/duration_text.h"
#include "base/poll_until.h"
#include "job/process/exit_code.h"
#include "launch/outcome.h"
#include "launch/supervisor.h"
#include "proc/signal_queue.h"

namespace dtrain::launch {
namespace {

using Clock = std::chrono::steady_clock;

constexpr int64_t kSameMax = 3;  // after this many failures of the same kind, a job does not start again
constexpr std::chrono::seconds kWaitMax{60};
constexpr const char* kNeverTrained = "it has never trained";

// The text with "N" in place of each rank, because all processes may find the same fault, and any of them first.
std::string without_ranks(std::string text) {
  for (const std::string_view word : {"rank ", "worker ", "server "}) {
    for (size_t at = text.find(word); at != std::string::npos; at = text.find(word, at + 1)) {
      const size_t begin = at + word.size();
      const size_t end = std::min(text.find_first_not_of("0123456789", begin), text.size());
      if (end > begin) text.replace(begin, end - begin, "N");
    }
  }
  return text;
}

bool is_same(const JobEnd& before, const JobEnd& now) {
  if (without_ranks(before.error) != without_ranks(now.error)) return false;
  const int64_t then = before.step.value_or(0), step = now.step.value_or(0);
  return now.was_killed ? step == then : step <= then;
}

std::string first_line(const std::string& text) {
  return text.substr(0, text.find('\n'));
}

}  // namespace

bool RestartPolicy::never_started(const JobEnd& end) const {
  return end.exit_code == job::kExitStartup && !has_trained_;
}

std::string RestartPolicy::objection(const JobEnd& end) const {
  if (is_permanent(end.exit_code)) return "it would fail again in the same way";
  if (never_started(end) && end.failed_hosts.empty()) return kNeverTrained;
  if (times_same_ >= kSameMax) {
    return fmt::format("it has failed in the same way {} times, after step {}", times_same_, end.step.value_or(0));
  }
  if (restarts_ >= max_) return fmt::format("--max-restarts {} allows no more restarts", max_);
  return "";
}

void RestartPolicy::count(const JobEnd& end) {
  times_same_ = last_ && is_same(*last_, end) ? times_same_ + 1 : 1;
  last_ = end;
  has_trained_ = has_trained_ || end.step.has_value();
  if (end.step.value_or(0) > furthest_step_) without_progress_ = 0;
  furthest_step_ = std::max(furthest_step_, end.step.value_or(0));
}

RestartPolicy::Decision RestartPolicy::after(const JobEnd& end, const std::function<bool()>& replace_hosts) {
  const bool is_failure = end.exit_code != job::kExitOk && end.exit_code != job::kExitPreempted && !end.stop_asked;
  if (!is_failure || max_ == 0) return {};
  count(end);
  std::string why_not = objection(end);
  if (!why_not.empty()) return {.why_not = std::move(why_not)};
  const bool are_replaced = replace_hosts();
  if (never_started(end) && !are_replaced) return {.why_not = kNeverTrained};
  restarts_++;
  const int64_t waits = without_progress_++;
  constexpr int64_t kDoublingsMax = 6;
  const std::chrono::seconds wait{waits == 0 ? 0 : int64_t{1} << std::min(waits - 1, kDoublingsMax)};
  return {.restarts = true, .wait = std::min(wait, kWaitMax)};
}

namespace {

class Restarter {
 public:
  Restarter(const RestartableJob& job, Screen& screen) : job_(job), screen_(screen), policy_(job.restarts_max) {}

  Result<JobEnd> run() {
    DT_TRY(JobEnd end, run_once());
    while (may_restart(end)) {
      Result<JobEnd> next = run_once();
      if (next) {
        end = *std::move(next);
      } else {
        end = {.exit_code = job::exit_code(next.error().code), .error = next.error().text(), .failed_at = Clock::now()};
        screen_.line(end.error);
      }
    }
    if (const std::string text = restarts_text(restarts_); !text.empty()) say(text);
    end.restarts = std::move(restarts_);
    return end;
  }

 private:
  void say(const std::string& text) { screen_.line("dtrain: " + text, Fit::kWords); }

  Result<JobEnd> run_once() {
    DT_TRY(Job job, job_.make(std::ssize(restarts_)));
    job.on_progress = [this](const job::Progress& progress) { note(progress); };
    return supervise(job, screen_);
  }

  // Notes what a restart has cost, once the job is again where it was.
  void note(const job::Progress& progress) {
    for (Restart& restart : restarts_) {
      if (restart.seconds || progress.step < restart.step) continue;
      restart.seconds = std::chrono::duration<double>(Clock::now() - restart.failed_at).count();
    }
  }

  bool may_restart(JobEnd& end) {
    proc::SignalQueue signals;  // before the restart is announced, so that a signal that answers it ends the wait
    const RestartPolicy::Decision decision = policy_.after(end, [&] { return use_spares(end); });
    if (!decision.why_not.empty()) say(fmt::format("the job is not started again, because {}", decision.why_not));
    if (!decision.restarts) return false;
    restarts_.push_back(
        {.cause = first_line(end.error), .step = end.step.value_or(0), .seconds = {}, .failed_at = end.failed_at});
    const std::string when = decision.wait.count() > 0 ? " in " + duration_text(decision.wait) : "";
    say(fmt::format("restart {} of {}{}: all processes start again and continue from the last checkpoint",
                    restarts_.size(), job_.restarts_max, when));
    if (!is_stopped(signals, decision.wait)) return true;
    end.exit_code = job::kExitPreempted;
    return false;
  }

  // Replaces the hosts that have failed. Returns whether there was a spare host for each.
  bool use_spares(const JobEnd& end) {
    return std::ranges::all_of(end.failed_hosts, [&](size_t host) {
      const std::optional<std::string> used = job_.use_spare(host);
      if (used) say(*used);
      return used.has_value();
    });
  }

  // Waits. Returns whether a signal has asked the job to stop.
  bool is_stopped(proc::SignalQueue& signals, std::chrono::seconds wait) {
    const Clock::time_point until = Clock::now() + wait;
    while (true) {
      pollfd watched{.fd = signals.fd(), .events = POLLIN, .revents = 0};
      poll_until({&watched, 1}, until);
      for (const int signal : signals.take()) {
        if (signal == SIGCHLD || signal == SIGUSR2) continue;
        say(fmt::format("stopped before the restart ({})", strsignal(signal)));
        return true;
      }
      if (Clock::now() >= until) return false;
    }
  }

  const RestartableJob& job_;
  Screen& screen_;
  RestartPolicy policy_;
  std::vector<Restart> restarts_;
};

}  // namespace

Result<JobEnd> supervise_with_restarts(const RestartableJob& job, Screen& screen) {
  return Restarter(job, screen).run();
}

std::string restarts_text(const std::vector<Restart>& restarts) {
  if (restarts.empty()) return "";
  std::string text =
      fmt::format("the job was restarted {}", restarts.size() == 1 ? "once" : fmt::format("{} times", restarts.size()));
  for (const Restart& restart : restarts) {
    text += fmt::format("\n  after step {}: {}; {}", restart.step, restart.cause,
                        restart.seconds ? fmt::format("it took {:.1f} s to get there again", *restart.seconds)
                                        : "it did not get there again");
  }
  return text;
}

}  // namespace dtrain::launch
