#include "base/log.h"

#include <algorithm>
#include <new>
#include <sstream>
#include <vector>

#include "base/file.h"
#include "support/catch.h"
#include "support/patience.h"
#include "support/temp_dir.h"
#include "support/terminal.h"

using namespace dtrain;

TEST_CASE("a log file gets every line", "[base]") {
  const test::TempDir dir;
  Log log = Log::silent();
  REQUIRE(log.add_file(dir.path("log")));
  REQUIRE(log.add_file("/dev/null"));
  log.named("7").warn("lost {}", 3);
  CHECK_THAT(*read_file(dir.path("log")), Catch::EndsWith("Node[7] warning: lost 3\n"));
}

// A terminal holds 4 KiB that nobody has read.
TEST_CASE("a queued log does not wait for a terminal that nobody reads, and loses no line", "[base]") {
  test::Terminal terminal;
  Log log = Log::silent();
  REQUIRE(log.add_file(terminal.path()));
  std::string seen;
  {
    const Log queued = log.named("7").queued();
    for (int i = 0; i < 1000; i++) queued.info("line {}", i);
    queued.error("the last one");
    test::await([&] {
      seen += terminal.take();
      return seen.ends_with("the last one\n");
    });
  }
  CHECK(log.error_count() == 1);
  std::istringstream lines(seen);
  std::string line;
  std::getline(lines, line);  // an empty one, with which add_file tried the terminal
  for (int i = 0; i < 1000; i++) {
    std::getline(lines, line);
    CHECK_THAT(line, Catch::EndsWith(fmt::format("Node[7] line {}", i)));
  }
}

TEST_CASE("warnings and errors can be told from other lines", "[base]") {
  const test::TempDir dir;
  Log log = Log::silent();
  REQUIRE(log.add_file(dir.path("log")));
  log.named("server 1").info("Epoch[0] Train-accuracy=0.5");
  log.warn("lost");
  log.error("gRPC is lost");
  log.error("{}", Error{Code::kData, "a", {}}.line());
  std::vector<std::string> nodes;
  std::istringstream lines(*read_file(dir.path("log")));
  for (std::string line; std::getline(lines, line);) nodes.emplace_back(node_of_ordinary_line(line));
  CHECK(nodes == std::vector<std::string>{"server 1", "", "", ""});
  CHECK(node_of_ordinary_line("terminate called after throwing an instance of 'std::bad_alloc'").empty());
  CHECK(node_of_ordinary_line("").empty());
  CHECK(node_of_ordinary_line("2016-05-12 10:11:12,345 Node[0").empty());
}

TEST_CASE("a log record is one line of printable text, whatever text it quotes", "[base]") {
  const test::TempDir dir;
  const Log log = Log::silent();
  Log copy = log;
  REQUIRE(copy.add_file(dir.path("log")));
  copy.named("0").warn("build '{}'", "b\n2016-05-12 10:11:12,345 Node[0] Epoch[0] Train-accuracy=1\x1b[2J\r");
  copy.info("{}", std::string(1 << 20, 'x'));
  copy.error("{}", Error{Code::kData, "a\nb", {"reading 'c'", "starting"}}.line());
  const std::string text = *read_file(dir.path("log"));
  CHECK(std::ranges::count(text, '\n') == 3);
  CHECK_THAT(text, Catch::Contains("build 'b\\x0a2016-05-12") && Catch::Contains("Train-accuracy=1\\x1b[2J\\x0d'\n"));
  CHECK_THAT(text, Catch::EndsWith("error [data] a\\x0ab (while reading 'c', while starting)\n"));
  CHECK(text.size() < 100'000);
}

TEST_CASE("a log file that cannot be written is refused when it is opened", "[base]") {
  const test::TempDir dir;
  Log log = Log::silent();
  const Result<> full = log.add_file("/dev/full");
  REQUIRE_FALSE(full);
  CHECK(full.error().code == Code::kUsage);
  CHECK(full.error().message == "cannot write the log file '/dev/full': No space left on device");
  CHECK_THAT(log.add_file(dir.path("no/log")).error().message, Catch::EndsWith("No such file or directory"));
}
