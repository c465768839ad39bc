// Which lines of a job's processes are on the launcher's screen.
#include "launch/shown_lines.h"

#include "support/catch.h"

using namespace dtrain;
using namespace dtrain::launch;

namespace {

const Command kTheScheduler{.role = "scheduler", .host = "a"}, kServer{.role = "server", .rank = 1, .host = "b"},
    kFirst{.role = "worker", .rank = 0, .host = "a"}, kSecond{.role = "worker", .rank = 1, .host = "b"};

std::string shown(bool is_for_people, const Command& command, const std::string& line) {
  ShownLines lines(is_for_people);
  for (const Command& worker : {kSecond, kFirst}) lines.started(worker);
  const std::optional<ShownLine> one = lines.shown(command, line);
  return one ? one->text : "nothing";
}

const std::string kBegin = "2016-05-12 10:11:12,345 Node[0] ", kSpeed = kBegin + "Epoch[0] Batch [0-20]",
                  kFound = kBegin + "training: 10 images", kWarning = kBegin + "warning: lost";

}  // namespace

TEST_CASE("a launcher shows the logs of the first worker and of the scheduler, and all warnings", "[launch]") {
  CHECK(shown(false, kFirst, kSpeed) == "[worker 0 a] " + kSpeed);
  CHECK(shown(false, kTheScheduler, kFound) == "[scheduler a] " + kFound);
  CHECK(shown(false, kSecond, kSpeed) == "nothing");
  CHECK(shown(false, kServer, kFound) == "nothing");
  CHECK(shown(false, kServer, kWarning) == "[server 1 b] " + kWarning);
  CHECK(shown(false, kServer, "Segmentation fault") == "[server 1 b] Segmentation fault");
}

TEST_CASE("on a terminal a launcher shows what is for people, without time and node", "[launch]") {
  CHECK(shown(true, kFirst, kSpeed) == "nothing");
  CHECK(shown(true, kFirst, kFound) == "training: 10 images");
  CHECK(shown(true, kSecond, kFound) == "nothing");
  CHECK(shown(true, kServer, kWarning) == "[server 1 b] warning: lost");
  CHECK(shown(true, kServer, "Segmentation fault") == "[server 1 b] Segmentation fault");
}
