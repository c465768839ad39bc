#include "proc/run.h"

#include <csignal>
#include <string>

#include "base/poll_until.h"
#include "support/catch.h"
#include "support/must.h"

using namespace dtrain;
using namespace dtrain::proc;
using dtrain::test::must;

namespace {

using Words = std::vector<std::string>;

Program shell(const std::string& script) {
  return {.arguments = {"sh", "-c", script}};
}

Finished finish(Run& run, SignalQueue& signals) {
  while (true) {
    std::vector<pollfd> watched{{.fd = signals.fd(), .events = POLLIN, .revents = 0}};
    run.watch(watched);
    poll_until(watched, run.wakes_at());
    signals.take();
    if (std::optional<Finished> finished = run.take()) return *finished;
  }
}

}  // namespace

TEST_CASE("a program reads the whole input, however slowly, and its output is split into lines", "[proc]") {
  SignalQueue signals;
  const std::string input(3 << 20, 'x');  // more than a pipe holds
  const Words counted = must(output_of({.arguments = {"sh", "-c", "wc -c"}, .input = input}, signals));
  REQUIRE(counted.size() == 1);
  CHECK(std::stoull(counted.front()) == input.size());
  CHECK(must(output_of({.arguments = {"true"}, .input = input}, signals)).empty());  // it need not read it
  CHECK(must(output_of(shell("cat; echo out; echo err >&2"), signals)) == Words{"out"});
}

TEST_CASE("a program that fails, is killed or takes too long is complained of by its command and its words", "[proc]") {
  SignalQueue signals;
  const auto message = [&](const std::string& script, std::chrono::milliseconds limit) {
    return output_of(shell(script), signals, limit).error().message;
  };
  CHECK(message("echo no such queue >&2; exit 4", {}) ==
        "'sh -c 'echo no such queue >&2; exit 4'' ended with code 4: no such queue");
  CHECK(message("kill -9 $$", {}) == "'sh -c 'kill -9 $$'' was killed by signal 9 (Killed)");
  CHECK(message("exec sleep 1000", std::chrono::milliseconds(10)) ==
        "'sh -c 'exec sleep 1000'' did not end within 1 s");
  const Result<Words> missing = output_of({.arguments = {"no-such-tool"}}, signals);
  CHECK(missing.error().code == Code::kStartup);
  CHECK(missing.error().message == "cannot execute 'no-such-tool': No such file or directory");
}

TEST_CASE("several programs run, some at a time, and the first that fails stops the others", "[proc]") {
  SignalQueue signals;
  const std::vector<Program> programs = {shell("echo 0"), shell("echo 1; exit 3"), shell("echo 2")};
  std::vector<pid_t> pids;
  const auto all = must(run_all(programs,
                                {.at_once = 1,
                                 .on_start =
                                     [&](size_t, pid_t pid) {
                                       pids.push_back(pid);
                                       return Result<>();
                                     }},
                                signals));
  CHECK(pids.size() == 3);
  CHECK(all[0].output == Words{"0"});
  CHECK(all[1].ended_with(3));
  CHECK(all[2].output == Words{"2"});
  const auto some = must(run_all(
      programs, {.at_once = 1, .goes_on = [](size_t, const Finished& one) { return one.ended_with(0); }}, signals));
  CHECK(some[1].ended_with(3));
  CHECK(some[2].status == -1);
}

TEST_CASE("a program whose start cannot be recorded is killed", "[proc]") {
  SignalQueue signals;
  pid_t started = 0;
  const auto refused = run_all({shell("sleep 1000")}, {.on_start = [&](size_t, pid_t pid) -> Result<> {
                                 started = pid;
                                 return fail(Code::kStartup, "the disk is full");
                               }},
                               signals);
  CHECK(refused.error().message == "the disk is full");
  CHECK(::kill(started, 0) == -1);
}

TEST_CASE("a signal ends the programs that are waited for", "[proc]") {
  SignalQueue signals;
  ::raise(SIGTERM);
  CHECK(run(shell("sleep 1000"), signals).error().code == Code::kPreempted);
}

TEST_CASE("a run that nobody waits for is ended at its time limit", "[proc]") {
  SignalQueue signals;
  Run fails = must(Run::start(shell("echo words; exit 2"), std::chrono::minutes(1)));
  const Finished failed = finish(fails, signals);
  CHECK(failed.ended_with(2));
  CHECK(failed.output == Words{"words"});
  Run slow = must(Run::start({.arguments = {"sleep", "1000"}}, std::chrono::milliseconds(20)));
  const Finished over = finish(slow, signals);
  CHECK(over.over == std::chrono::milliseconds(20));
  CHECK(failure_of({"sleep", "1000"}, over) == "'sleep 1000' did not end within 1 s");
  CHECK(Run::start({.arguments = {"no-such-tool"}}, std::chrono::minutes(1)).error().code == Code::kStartup);
}
