// A scheduler and the control clients of a job's processes, all in this process, over loopback. A lost connection is
// noticed soon; other limits are long, because a test that needs them short sets them.
#pragma once

#include <future>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "rpc/control_client.h"
#include "rpc/scheduler.h"
#include "support/patience.h"

namespace dtrain::rpc::test {

using namespace std::chrono_literals;
using dtrain::test::within, dtrain::test::kPatience;

// Waits until all workers are done, whatever views come before that.
inline Result<> finish_of(ControlClient& server) {
  while (true) {
    DT_TRY(const std::optional<sync::View> view, server.wait_view());
    if (!view) return {};
  }
}

inline Security security() {
  return {.token = "secret", .build_id = "build-1", .tls = {}};
}

inline sync::membership::Settings settings(uint32_t workers, uint32_t servers) {
  sync::membership::Settings settings;
  settings.workers = workers;
  settings.servers = servers;
  settings.job_text = "network = lenet\nlr = 0.1\n";
  settings.start_timeout_ms = 60'000;
  settings.heartbeat_timeout_ms = 30'000;
  settings.reconnect_ms = 1'000;
  return settings;
}

// The control client of one process of the job, and what its callbacks report.
class Process {
 public:
  Process(uint16_t port, Role role, Security as = security()) {
    options.scheduler = {"127.0.0.1", port};
    options.security = std::move(as);
    options.incarnation = make_incarnation();
    options.start_timeout = 60s;
    options.heartbeat_interval = 100ms;
    options.heartbeat_timeout = 30s;
    options.scheduler_grace = 500ms;
    request.role = role;
    request.host = "here";
    request.job_text = "network = lenet\nlr = auto\n";
    if (role == Role::kServer) request.address = "127.0.0.1:1";
    create();
  }
  // Creates the client from `options`. Call it again after changing them.
  void create() {
    client.reset();
    seat.emplace();
    options.seat = request.role == Role::kWorker ? &*seat : nullptr;
    (void)seat->ask(options.incarnation);
    client = ControlClient::create(options, waits, Log::silent());
    client->on_failure([this](const Error& error) { failed.set_value(error); });
  }
  std::future<Result<JoinReply>> join() {
    return std::async(std::launch::async, [this] { return client->join(request, prepare); });
  }

  ControlOptions options;
  std::optional<OwnSeat> seat;
  JoinRequest request;
  ControlClient::Prepare prepare;
  Waits waits;
  std::promise<Error> failed;
  std::unique_ptr<ControlClient> client;
};

class Job {
 public:
  explicit Job(sync::membership::Settings settings, Security as = security(), std::vector<uint32_t> stop_set_of = {},
               const Log& log = Log::silent()) {
    SchedulerOptions options;
    options.security = std::move(as);
    options.membership = std::move(settings);
    options.finish_job = [text = options.membership.job_text, stop_set_of](const Joined&) -> Result<CompleteJob> {
      return CompleteJob{text + "placement = 0:0:0:4:0\n", stop_set_of};
    };
    scheduler = Scheduler::start(std::move(options), log).value();
  }
  Process& add(Role role) {
    processes.push_back(std::make_unique<Process>(scheduler->port(), role));
    return *processes.back();
  }
  // Adds the workers, then the servers, in order of rank, and waits until all have joined.
  void start(uint32_t workers, uint32_t servers) {
    std::vector<std::future<Result<JoinReply>>> joins;
    for (uint32_t i = 0; i < workers + servers; i++) {
      Process& process = add(i < workers ? Role::kWorker : Role::kServer);
      process.request.want_rank = i < workers ? i : i - workers;
      joins.push_back(process.join());
    }
    for (auto& join : joins) (void)join.get().value();
  }
  Process& operator[](size_t i) { return *processes[i]; }

  std::unique_ptr<Scheduler> scheduler;
  std::vector<std::unique_ptr<Process>> processes;
};

}  // namespace dtrain::rpc::test
