#include "launch/cluster/ask.h"

#include <sys/wait.h>

#include "launch/output.h"
#include "launch/run_all.h"

namespace dtrain::launch {

Result<std::vector<std::string>> ask(const Question& question) {
  const std::string& program = question.arguments.front();
  SignalQueue signals;
  const RunAllOptions options{
      .host = {"", "", std::chrono::seconds(1)}, .at_once = 1, .limit = question.limit, .goes_on = {}};
  Result<std::vector<Finished>> all = run_all({{.role = program, .arguments = question.arguments}}, options, signals);
  if (!all && all.error().code == Code::kStartup)
    return fail(Code::kStartup, "{}; {}", all.error().message, question.missing);
  if (!all) return tl::unexpected(std::move(all.error()));
  const Finished& answer = all->front();
  const std::string line = shell_line(question.arguments);
  const std::string words = answer.errors.empty() ? "" : ": " + first_words(answer.errors);
  if (answer.timed_out)
    return fail(Code::kStartup, "'{}' did not end within {} s{}", line, question.limit.count(), words);
  if (WIFSIGNALED(answer.status))
    return fail(Code::kStartup, "'{}' was killed by signal {}{}", line, WTERMSIG(answer.status), words);
  if (!answer.ended_with(0))
    return fail(Code::kStartup, "'{}' ended with code {}{}", line, WEXITSTATUS(answer.status), words);
  return answer.output;
}

}  // namespace dtrain::launch
