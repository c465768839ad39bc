#include "cluster/ask.h"

#include "proc/run.h"

namespace dtrain::cluster {

Result<std::vector<std::string>> ask(const Question& question) {
  using Taken = proc::SignalQueue::Taken;
  proc::SignalQueue signals(question.is_order ? Taken::kOnlyChildren : Taken::kAll);
  Result<proc::Finished> finished = proc::run(question.program, signals, question.limit);
  if (!finished && finished.error().code == Code::kStartup)
    return fail(Code::kStartup, "{}; {}", finished.error().message, question.missing);
  if (!finished) return tl::unexpected(std::move(finished.error()));
  if (!finished->ended_with(0))
    return fail(Code::kStartup, "{}", proc::failure_of(question.program.arguments, *finished));
  return std::move(finished->output);
}

}  // namespace dtrain::cluster
