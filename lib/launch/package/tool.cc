#include "launch/package/tool.h"

#include <sys/wait.h>

namespace dtrain::launch {

Result<Finished> run_tool(const std::vector<std::string>& arguments, SignalQueue& signals) {
  const RunAllOptions options{.host = {"", "", std::chrono::seconds(1)}, .at_once = 1, .goes_on = {}};
  DT_TRY(std::vector<Finished> all, run_all({{.role = arguments.front(), .arguments = arguments}}, options, signals));
  return std::move(all.front());
}

Result<Finished> must_run_tool(const std::vector<std::string>& arguments, SignalQueue& signals) {
  DT_TRY(Finished end, run_tool(arguments, signals));
  if (end.ended_with(0)) return end;
  const std::string words = end.errors.empty() ? "" : ": " + first_words(end.errors);
  if (WIFSIGNALED(end.status)) {
    return fail(Code::kData, "{} was killed by signal {}{}", arguments.front(), WTERMSIG(end.status), words);
  }
  return fail(Code::kData, "{} ended with code {}{}", arguments.front(), WEXITSTATUS(end.status), words);
}

}  // namespace dtrain::launch
