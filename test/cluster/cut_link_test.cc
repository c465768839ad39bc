// The connection between a worker and a server is cut, while the scheduler still reaches both: the job ends in time and
// names who counts as lost. (hosts_test.cc cuts the connection between two hosts of a simulated cluster.)
#include <chrono>
#include <memory>

#include "cluster/loopback_job.h"
#include "support/catch.h"
#include "support/command_line.h"
#include "support/forwarder.h"
#include "support/held_port.h"

using namespace dtrain;
using namespace dtrain::test;

namespace {

constexpr double kStartSeconds = 60;
constexpr double kTimeout = 3;         // the heartbeat timeout of endless_training()
constexpr double kSilenceSeconds = 3;  // a silent connection is noticed within the heartbeat timeout
constexpr double kNoise = 3;           // time for processes to be told and to exit

// Two workers and two servers. The workers reach server 0 through a forwarder, which has the same port at another
// address.
struct ForwardedJob {
  ForwardedJob() {
    job.start("server", 0,
              command_line("--bind 127.0.0.1 --advertise 127.0.0.2 --port", std::to_string(port.number())));
    job.start("server", 1);
    for (int worker : {0, 1}) job.start("worker", worker);
    const bool trains = job.await_step(1, kStartSeconds);
    INFO(job.output());
    REQUIRE(trains);
  }
  static JobSetting setting() {
    JobSetting setting;
    setting.start_all = false;
    return setting;
  }
  // Waits until all processes have ended, and returns the seconds that they took.
  double end_seconds(double limit) {
    const auto began = std::chrono::steady_clock::now();
    const bool ended = job.await_end(limit);
    INFO(job.output());
    REQUIRE(ended);
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - began).count();
  }

  HeldPort port;
  Forwarder forwarder{"127.0.0.2", port.number(), port.number()};
  LoopbackJob job{setting()};
};

}  // namespace

TEST_CASE("a worker that is cut off from a server is lost, and the error names both", "[cut-link]") {
  ForwardedJob forwarded;
  LoopbackJob& job = forwarded.job;
  double limit = kTimeout + kNoise;
  SECTION("the connection is closed, and so is each new one") {
    forwarded.forwarder.cut(Forwarder::Cut::kClose, sent_first_by_worker(1));
  }
  SECTION("the connection swallows what is sent") {
    limit += kSilenceSeconds;
    forwarded.forwarder.cut(Forwarder::Cut::kSwallow, sent_first_by_worker(1));
  }
  const double seconds = forwarded.end_seconds(limit);
  INFO(job.output());
  CHECK(seconds >= kTimeout);
  for (const char* role : {"scheduler", "server", "worker"}) CHECK(job.codes(role) == "5");
  for (const LoopbackJob::Member& member : job.members()) {
    INFO(member.name());
    CHECK_THAT(
        member.process->output(),
        Catch::Contains("worker 1 was lost: it has lost its connection to server 0 and could not open another") &&
            Catch::Contains(" to 127.0.0.2:" + std::to_string(forwarded.port.number())));
  }
}

TEST_CASE("a server from which all workers are cut off is lost", "[cut-link]") {
  ForwardedJob forwarded;
  LoopbackJob& job = forwarded.job;
  forwarded.forwarder.cut(Forwarder::Cut::kClose, "");
  forwarded.end_seconds(kTimeout + kNoise);
  INFO(job.output());
  for (const char* role : {"scheduler", "server", "worker"}) CHECK(job.codes(role) == "5");
  CHECK_THAT(job.member("worker", 0).process->output(),
             Catch::Contains("server 0 was lost: 2 of 2 workers (worker 0, worker 1) have lost their connections"));
}
