// A job whose scheduler gets more connections from strangers than it may have file descriptors.
#include <poll.h>
#include <sys/resource.h>
#include <memory>

#include "net/tcp.h"
#include "rpc/child.h"
#include "rpc/job.h"
#include "support/catch.h"

namespace dtrain::rpc::test {

using namespace dtrain::test;
namespace {

constexpr rlim_t kDescriptors = 256;
constexpr int kStrangers = 600;

void limit_descriptors(rlim_t count) {
  rlimit limit{};
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_max < count) throw std::runtime_error("getrlimit");
  limit.rlim_cur = count;
  if (setrlimit(RLIMIT_NOFILE, &limit) != 0) throw std::runtime_error("setrlimit");
}

Result<> run_crowded_scheduler(int out) {
  limit_descriptors(kDescriptors);
  SchedulerOptions options;
  options.security = security();
  options.membership = settings(1, 1);
  options.membership.start_timeout_ms = 60'000;
  DT_TRY(const std::unique_ptr<Scheduler> scheduler, Scheduler::start(std::move(options), Log::silent()));
  Child::say(out, std::to_string(scheduler->port()));
  while (true) {
    if (auto outcome = scheduler->wait(1s)) return *outcome;
  }
}

Result<> run_member(uint16_t port, Role role) {
  Process process(port, role);
  process.options.start_timeout = 60s;
  process.create();
  DT_TRY_VOID(process.client->join(process.request));
  Result<> outcome;
  if (role == Role::kWorker) {
    DT_TRY_VOID(process.client->sum("step", {}));
  } else {
    outcome = finish_of(*process.client);
  }
  process.client->done(outcome);
  return outcome;
}

// 600 strangers connect and each sends `words`. Then a job of one worker and one server must start and end.
void run_job_beside_strangers(std::string_view words) {
  limit_descriptors(1'000);
  const auto deadline = Child::Clock::now() + 60s;
  Child scheduler(run_crowded_scheduler);
  const auto port = static_cast<uint16_t>(std::stoi(scheduler.line(deadline)));
  std::vector<UniqueFd> strangers;
  while (strangers.size() < kStrangers) {
    strangers.push_back(connect_to(port));
    say(strangers.back(), words);
  }
  Child server([=](int) { return run_member(port, Role::kServer); });
  Child worker([=](int) { return run_member(port, Role::kWorker); });
  CHECK(worker.line(deadline) == "well");
  CHECK(server.line(deadline) == "well");
  CHECK(scheduler.line(deadline) == "well");
}

}  // namespace

TEST_CASE("a job runs despite more silent connections than the scheduler has file descriptors", "[rpc][cluster]") {
  run_job_beside_strangers("");
}

TEST_CASE("a job runs despite more idle HTTP/2 connections than the scheduler has file descriptors", "[rpc][cluster]") {
  run_job_beside_strangers(kHttp2Greeting);
}

// A refused call must not give its connection more time than one has that says nothing at all, which is closed after 5
// s.
TEST_CASE("a connection whose call was refused is closed sooner than a silent one", "[rpc][cluster]") {
  const auto deadline = Child::Clock::now() + 60s;
  Child scheduler(run_crowded_scheduler);
  const auto port = static_cast<uint16_t>(std::stoi(scheduler.line(deadline)));
  const UniqueFd caller = connect_to(port);
  say(caller, kHttp2Greeting);
  say(caller, call_without_token());
  const UniqueFd silent = connect_to(port);
  CHECK(is_closed_within(caller, 60s));
  pollfd open{.fd = silent.get(), .events = POLLIN, .revents = 0};
  CHECK(::poll(&open, 1, 0) == 0);
}

}  // namespace dtrain::rpc::test
