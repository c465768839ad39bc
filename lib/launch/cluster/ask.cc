#include "launch/cluster/ask.h"

#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>

#include "base/poll_until.h"
#include "launch/output.h"
#include "launch/process_group.h"
#include "launch/run_all.h"

namespace dtrain::launch {

namespace {

// The lines of a program that has ended, or why it failed.
Result<std::vector<std::string>> lines_of(const Question& question, const Finished& answer) {
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

// Writes as much of the input as the program takes now; closes the pipe at its end.
void feed(Process& process, std::string_view& input) {
  while (process.in.open() && !input.empty()) {
    const ssize_t put = ::write(process.in.get(), input.data(), input.size());
    if (put < 0 && (errno == EAGAIN || errno == EINTR)) return;
    if (put < 0) break;
    input.remove_prefix(static_cast<size_t>(put));
  }
  process.in.close();
}

}  // namespace

Result<std::vector<std::string>> ask_with_input(const Question& question, const std::string& input) {
  Result<Process> process = start_with_input({.role = question.arguments.front(), .arguments = question.arguments});
  if (!process) return fail(Code::kStartup, "{}; {}", process.error().message, question.missing);
  Finished answer;
  LineSplitter out, err;
  std::string_view rest = input;
  const auto until = Clock::now() + question.limit;
  while (process->out.open() || process->err.open()) {
    feed(*process, rest);
    std::vector<pollfd> watched;
    for (const UniqueFd* fd : {&process->out, &process->err}) {
      if (fd->open()) watched.push_back({.fd = fd->get(), .events = POLLIN, .revents = 0});
    }
    if (process->in.open()) watched.push_back({.fd = process->in.get(), .events = POLLOUT, .revents = 0});
    if (Clock::now() >= until) {
      answer.timed_out = true;
      ::kill(-process->pid, SIGKILL);
      break;
    }
    poll_until(watched, until);
    read_lines(process->out, out, kReadsPerTurn, [&](const std::string& line) { answer.output.push_back(line); });
    read_lines(process->err, err, kReadsPerTurn, [&](const std::string& line) { answer.errors.push_back(line); });
  }
  while (::waitpid(process->pid, &answer.status, 0) < 0 && errno == EINTR) {
  }
  return lines_of(question, answer);
}

Result<std::vector<std::string>> ask(const Question& question) {
  const std::string& program = question.arguments.front();
  SignalQueue signals;
  const RunAllOptions options{
      .host = {"", "", std::chrono::seconds(1)}, .at_once = 1, .limit = question.limit, .goes_on = {}};
  Result<std::vector<Finished>> all = run_all({{.role = program, .arguments = question.arguments}}, options, signals);
  if (!all && all.error().code == Code::kStartup)
    return fail(Code::kStartup, "{}; {}", all.error().message, question.missing);
  if (!all) return tl::unexpected(std::move(all.error()));
  return lines_of(question, all->front());
}

}  // namespace dtrain::launch
