#include "launch/tool_run.h"

#include <sys/wait.h>

#include "launch/output.h"

namespace dtrain::launch {

Result<ToolRun> ToolRun::start(const std::vector<std::string>& arguments, std::chrono::milliseconds limit) {
  DT_TRY(std::unique_ptr<LocalHost> host, LocalHost::create({"", "", std::chrono::seconds(1)}));
  DT_TRY_VOID(host->start(0, {.role = arguments.front(), .arguments = arguments}));
  return ToolRun(std::move(host), Clock::now() + limit);
}

std::optional<Clock::time_point> ToolRun::wakes_at() const {
  return finished_.timed_out ? std::nullopt : std::optional(deadline_);
}

std::optional<Finished> ToolRun::take() {
  std::vector<HostEvent> events;
  host_->take(events);
  bool over = false;
  for (const HostEvent& event : events) {
    if (const OutputLine* line = std::get_if<OutputLine>(&event)) {
      (line->is_stdout ? finished_.output : finished_.errors).push_back(line->text);
    } else if (const ProcessEnd* end = std::get_if<ProcessEnd>(&event)) {
      finished_.status = end->status;
      over = true;
    }
  }
  if (over) return std::move(finished_);
  if (!finished_.timed_out && Clock::now() >= deadline_) {
    finished_.timed_out = true;
    host_->kill();
  }
  return std::nullopt;
}

std::string complaint_of(const std::vector<std::string>& arguments, const Finished& finished) {
  const std::string line = shell_line(arguments);
  const std::string words = finished.errors.empty() ? "" : ": " + first_words(finished.errors);
  if (finished.timed_out) return fmt::format("'{}' did not end in time{}", line, words);
  if (WIFSIGNALED(finished.status))
    return fmt::format("'{}' was killed by signal {}{}", line, WTERMSIG(finished.status), words);
  return fmt::format("'{}' ended with code {}{}", line, WEXITSTATUS(finished.status), words);
}

}  // namespace dtrain::launch
