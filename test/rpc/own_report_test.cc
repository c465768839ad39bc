// A process whose report cannot be prepared, or a scheduler whose log cannot be written, is slow and not lost.
#include <fcntl.h>
#include <unistd.h>

#include <thread>

#include "base/unique_fd.h"
#include "rpc/job.h"
#include "support/catch.h"
#include "support/terminal.h"

namespace dtrain::rpc::test {

using dtrain::test::await;

TEST_CASE("heartbeats do not wait for metrics that cannot be collected, and say how old their report is", "[rpc]") {
  sync::membership::Settings limits = settings(1, 0);
  limits.heartbeat_timeout_ms = 500;
  Job job(limits);
  Process& worker = job.add(Role::kWorker);
  telemetry::Registry registry;
  std::promise<void> go_on;
  const telemetry::Registry::Handle blocks =
      registry.collect([may_go_on = go_on.get_future().share()](telemetry::Registry&) { may_go_on.wait(); });
  worker.options.registry = &registry;
  worker.create();
  within(worker.join()).value();
  const auto age = [&] {
    const std::vector<MemberPulse> pulses = job.scheduler->pulses();
    return pulses.empty() ? -1 : pulses.front().pulse.report_age_s;
  };
  await([&] { return age() > 2; });
  CHECK_FALSE(job.scheduler->wait(0ms).has_value());
  go_on.set_value();
  await([&] { return age() < 1; });
  worker.client->done({});
  CHECK(job.scheduler->wait(kPatience).value().has_value());
}

TEST_CASE("a scheduler whose log blocks still answers", "[rpc]") {
  dtrain::test::Terminal terminal;
  Log log = Log::silent();
  REQUIRE(log.add_file(terminal.path()));
  const UniqueFd writer(::open(terminal.path().c_str(), O_WRONLY | O_NOCTTY | O_CLOEXEC | O_NONBLOCK));
  while (::write(writer.get(), "text ", 5) > 0) continue;  // from now on, writing waits until somebody reads
  std::jthread reader;
  {
    Job job(settings(2, 1), security(), {}, log);
    job.start(2, 1);
    auto other = std::async(std::launch::async, [&] { return job[1].client->sum("loss", {}); });
    CHECK(job[0].client->sum("loss", {}).has_value());
    const Result<std::vector<double>> sums = within(std::move(other));
    CHECK(sums.has_value());
    for (const auto& process : job.processes) process->client->done({});
    CHECK(job.scheduler->wait(kPatience).value().has_value());
    reader = std::jthread([&](const std::stop_token& stop) {
      while (!stop.stop_requested()) terminal.take();
    });
  }
}

}  // namespace dtrain::rpc::test
