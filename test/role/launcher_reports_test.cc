#include "role/scheduler/launcher_reports.h"

#include <unistd.h>

#include <array>
#include <future>

#include "support/catch.h"

using namespace dtrain;

namespace {

std::string text_of(const job::EndedProcess& ended) {
  return to_text(ended.process) + ": " + ended.how;
}

}  // namespace

TEST_CASE("the scheduler takes what its launcher reports as it comes, and skips what it does not know", "[role]") {
  std::array<int, 2> ends{};
  REQUIRE(::pipe(ends.data()) == 0);
  const UniqueFd read(ends[0]);
  UniqueFd write(ends[1]);
  std::promise<std::string> first, second;
  std::vector<std::promise<std::string>*> waiting = {&second, &first};
  const role::LauncherReports reports(
      read.get(),
      [&](const job::EndedProcess& ended) {
        waiting.back()->set_value(text_of(ended));
        waiting.pop_back();
      },
      Log::silent());
  const auto send = [&](std::string_view text) { REQUIRE(::write(write.get(), text.data(), text.size()) > 0); };
  send("nonsense\nended worker\nended worker:1 was killed by signal 9 (Killed)\nended ser");
  CHECK(first.get_future().get() == "worker:1: was killed by signal 9 (Killed)");
  send("ver:0 ended with code 0 (ok)\n");
  CHECK(second.get_future().get() == "server:0: ended with code 0 (ok)");
  write.close();  // the launcher is gone
}
