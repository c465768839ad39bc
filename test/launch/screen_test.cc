#include "launch/screen.h"

#include <algorithm>
#include <array>
#include <csignal>
#include <thread>

#include "launch/message.h"
#include "proc/lines.h"
#include "proc/process_group.h"
#include "support/catch.h"
#include "support/must.h"

using namespace dtrain;
using namespace dtrain::launch;
using dtrain::test::must;

namespace {

// Reads the pipe to its end and returns what a user would see.
std::string shown(UniqueFd from) {
  std::string bytes;
  Console console([&](std::string_view text) { bytes += text; }, [] { return WindowSize(); });
  proc::LineSplitter splitter(kMessageMax);
  while (from.open()) {
    proc::read_lines(from, splitter, 1, [&](const std::string& message) { REQUIRE(show(message, console)); });
  }
  console.finish();
  return bytes;
}

}  // namespace

TEST_CASE("lines of a launcher reach the screen unchanged", "[launch]") {
  proc::Pipe pipe = must(proc::make_pipe());
  {
    Screen screen(std::move(pipe.write));
    screen.line("one");
    screen.live("step 1");
    screen.finish();
    screen.line("two\nlines, 50 % \x1b[1m");
    screen.line("");
  }
  CHECK(shown(std::move(pipe.read)) == "one\nstep 1\ntwo\nlines, 50 % \x1b[1m\n\n");
}

TEST_CASE("a block of live lines reaches the screen unchanged", "[launch]") {
  proc::Pipe pipe = must(proc::make_pipe());
  {
    Screen screen(std::move(pipe.write));
    screen.live({"half of 100 %", 0.5, {"worker 0  a b", ""}});
  }
  std::string bytes;
  Console console([&](std::string_view text) { bytes += text; }, [] { return WindowSize{80, 24}; });
  proc::LineSplitter splitter(kMessageMax);
  while (pipe.read.open()) {
    proc::read_lines(pipe.read, splitter, 1, [&](const std::string& message) { REQUIRE(show(message, console)); });
  }
  CHECK(bytes == "\r\x1b[K[==========>         ] half of 100 %\r\nworker 0  a b\r\n");
}

// Nothing is read at first. The pipe holds the first lines; of the other lines the last ones are kept.
TEST_CASE("a slow reader does not block the launcher and is told how many lines are missing", "[launch]") {
  proc::Pipe pipe = must(proc::make_pipe());
  constexpr int kLines = 100'000;
  std::string bytes;
  std::thread reader;
  {
    Screen screen(std::move(pipe.write), 1000);
    for (int i = 0; i < kLines; i++) screen.line(fmt::format("line {}", i));
    for (int i = 0; i < 10; i++) screen.live(fmt::format("step {}", i));
    screen.finish();
    screen.line("the end");
    reader = std::thread([&] { bytes = shown(std::move(pipe.read)); });
  }
  reader.join();
  const size_t gap = bytes.find("dtrain: ");
  REQUIRE(gap != std::string::npos);
  const int first = static_cast<int>(std::count(bytes.begin(), bytes.begin() + static_cast<int64_t>(gap), '\n'));
  const int missed = std::atoi(bytes.c_str() + gap + std::string("dtrain: ").size());
  CHECK(bytes.find(fmt::format("line {}\ndtrain: {} lines are not shown", first - 1, missed)) != std::string::npos);
  CHECK(bytes.find(fmt::format("have them)\nline {}\n", first + missed)) != std::string::npos);
  CHECK(bytes.ends_with(fmt::format("line {}\nstep 9\nthe end\n", kLines - 1)));
}

TEST_CASE("a closed reader does not block the launcher", "[launch]") {
  struct sigaction ignore {
  }, before{};
  ignore.sa_handler = SIG_IGN;
  ::sigaction(SIGPIPE, &ignore, &before);
  proc::Pipe pipe = must(proc::make_pipe());
  {
    Screen screen(std::move(pipe.write));
    pipe.read.close();
    for (int i = 0; i < 100'000; i++) screen.line("a line that nobody reads");
  }
  ::sigaction(SIGPIPE, &before, nullptr);
  std::string bytes;
  Console console([&](std::string_view text) { bytes += text; }, [] { return WindowSize(); });
  CHECK_FALSE(show("line", console));
  CHECK_FALSE(show("something else", console));
  CHECK(bytes.empty());
}
