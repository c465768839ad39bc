#include "cluster/sge_job.h"

#include <fmt/ranges.h>
#include <algorithm>
#include <csignal>

#include "base/words.h"
#include "proc/lines.h"
#include "proc/run.h"

namespace dtrain::cluster {
namespace {

constexpr const char* kSgeMissing = "Grid Engine's commands must be installed here (Debian: gridengine-client)";
constexpr std::string_view kErrorReason = "error reason";

class SgeBatch : public BatchSystem {
 public:
  SgeBatch(SgeJob job, std::string script) : job_(std::move(job)), script_(std::move(script)) {}

  [[nodiscard]] std::string name() const override { return "Grid Engine"; }
  [[nodiscard]] std::string missing() const override { return kSgeMissing; }
  [[nodiscard]] Words submit() const override { return {"qsub", "-terse", script_}; }
  [[nodiscard]] Result<std::string> job_of(const Words& lines) const override;
  [[nodiscard]] Words question(const std::string& job) const override {
    return {"sh", "-c", "qstat && { qstat -j \"$0\" 2>/dev/null; true; }", job};
  }
  [[nodiscard]] Result<BatchState> state_of(const std::string& job, const proc::Finished& answer) const override;
  // The script sends the signal, because Grid Engine cannot send a signal of the user's choice.
  [[nodiscard]] Words signal(const std::string& job, int number) const override {
    return {"sh", "-c", "echo \"$1\" >\"$0\"", sge_signal_file(job_, job), number == SIGUSR2 ? "USR2" : "TERM"};
  }
  [[nodiscard]] Words cancel(const std::string& job) const override { return {"qdel", job}; }
  [[nodiscard]] std::string output_file(const std::string& job) const override { return sge_output_file(job_, job); }
  [[nodiscard]] std::string code_file(const std::string& job) const override { return sge_code_file(job_, job); }

 private:
  SgeJob job_;
  std::string script_;
};

Result<std::string> SgeBatch::job_of(const Words& lines) const {
  for (const std::string& line : lines) {
    const std::string number = line.substr(0, line.find('.'));  // for an array of tasks, qsub prints "12.1-3:1"
    if (!number.empty() && number.find_first_not_of("0123456789") == std::string::npos) return number;
  }
  return fail(Code::kStartup, "qsub printed '{}' instead of a job number", proc::first_words(lines));
}

Result<BatchState> SgeBatch::state_of(const std::string& job, const proc::Finished& answer) const {
  if (!answer.ended_with(0)) return fail(Code::kUnavailable, "{}", proc::failure_of({"qstat"}, answer));
  const std::optional<SgeState> state = parse_qstat(answer.output, job);
  if (!state) return fail(Code::kNotFound, "qstat does not list job {}", job);
  return cluster::state_of(*state, job);
}

std::string tasks_text(const std::vector<std::string>& tasks) {
  if (tasks.empty() || tasks.front().empty()) return "";
  return fmt::format("tasks {} ", fmt::join(tasks, ","));
}

// Parses a line of qstat. Its columns: number, priority, name, user, state, date, time, queue if it is running, slots,
// tasks of an array.
void take_line(const std::vector<std::string_view>& words, SgeState& state) {
  constexpr size_t kState = 4, kQueue = 7;
  const bool runs = words[kQueue].find('@') != std::string_view::npos;
  const size_t tasks = runs ? kQueue + 2 : kQueue + 1;
  const std::string task = words.size() > tasks ? std::string(words[tasks]) : "";
  if (runs) {
    if (state.running.empty()) state.queue = words[kQueue];
    state.running.push_back(task);
  } else {
    if (state.waiting.empty()) state.state = words[kState];
    state.waiting.push_back(task);
  }
}

}  // namespace

std::optional<SgeState> parse_qstat(const std::vector<std::string>& lines, const std::string& number) {
  constexpr size_t kWordsMin = 8;
  SgeState state;
  for (const std::string& line : lines) {
    if (line.starts_with(kErrorReason) && state.reason.empty()) {
      // The line has the form "error reason    1:   11/25/2026 02:03:33 [0:10093]: error: ...".
      const size_t date_end = line.find("]: ");
      state.reason = line.substr(date_end == std::string::npos ? kErrorReason.size() : date_end + 3);
      continue;
    }
    const std::vector<WordLine> parsed = word_lines(line);
    if (parsed.empty() || parsed[0].words.size() < kWordsMin || parsed[0].words[0] != number) continue;
    take_line(parsed[0].words, state);
  }
  if (state.running.empty() && state.waiting.empty()) return std::nullopt;
  return state;
}

BatchState state_of(const SgeState& state, const std::string& number) {
  BatchState now;
  now.failure = std::nullopt;
  const std::string waits =
      state.waiting.empty() ? "" : fmt::format("{}waiting in the queue ({})", tasks_text(state.waiting), state.state);
  if (state.state.find('E') != std::string::npos) {
    now.never = fmt::format("Grid Engine could not start job {} (state {}): {}", number, state.state,
                            state.reason.empty() ? "'qstat -j' shows the reason" : state.reason);
  }
  if (state.state.find('h') != std::string::npos)
    now.advice = fmt::format("the job is on hold: 'qrls {}' releases it", number);
  if (state.running.empty()) {
    now.phase = BatchState::Phase::kWaiting;
    now.text = waits;
    return now;
  }
  now.phase = BatchState::Phase::kRunning;
  now.text = fmt::format("{}run{} on {}{}{}", tasks_text(state.running), state.running.size() == 1 ? "s" : "",
                         state.queue, waits.empty() ? "" : "; ", waits);
  return now;
}

std::unique_ptr<BatchSystem> sge_batch(const SgeJob& job, const std::string& script) {
  return std::make_unique<SgeBatch>(job, script);
}

}  // namespace dtrain::cluster
