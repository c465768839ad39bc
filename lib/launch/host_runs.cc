#include "launch/host_runs.h"

#include <algorithm>
#include <csignal>
#include <cstring>

#include "base/overloaded.h"
#include "base/poll_until.h"
#include "launch/hosts.h"

namespace dtrain::launch {

Result<std::unique_ptr<HostRuns>> HostRuns::create(const Job& job, const std::string& mark) {
  std::unique_ptr<HostRuns> runs(new HostRuns());
  DT_TRY(runs->hosts_, make_hosts(job, mark));
  runs->lost_.resize(runs->hosts_.size());
  return runs;
}

HostRuns::~HostRuns() {
  for (const auto& host : hosts_) {
    host->kill();
    host->close();
  }
}

Result<size_t> HostRuns::start(const Command& command) {
  const size_t number = runs_.size();
  runs_.push_back({.host_number = command.host_number});
  if (lost_.at(command.host_number)) {
    runs_.back().ended = true;
    return number;
  }
  DT_TRY_VOID(hosts_.at(command.host_number)->start(number, command), "on {}", hosts_[command.host_number]->name());
  return number;
}

Result<> HostRuns::wait(const std::vector<size_t>& runs, Clock::time_point until, const Enough& enough) {
  const auto done = [&](size_t number) {
    const Run& run = runs_[number];
    return run.ended || (enough && enough(run.result));
  };
  while (!std::all_of(runs.begin(), runs.end(), done) && Clock::now() < until) {
    wait_for_events(until);
    for (const int signal : signals_.take()) {
      if (signal != SIGCHLD) return fail(Code::kPreempted, "stopped by a signal ({})", strsignal(signal));
    }
    take_events();
  }
  return {};
}

void HostRuns::wait_for_events(Clock::time_point until) {
  std::vector<pollfd> watched{{.fd = signals_.fd(), .events = POLLIN, .revents = 0}};
  for (const auto& host : hosts_) {
    host->watch(watched);
    if (const std::optional<Clock::time_point> wake = host->wakes_at()) until = std::min(until, *wake);
  }
  poll_until(watched, until);
}

void HostRuns::take_events() {
  for (size_t host_number = 0; host_number < hosts_.size(); host_number++) {
    std::vector<HostEvent> events;
    hosts_[host_number]->take(events);
    for (const HostEvent& event : events) {
      std::visit(Overloaded{[&](const proc::OutputLine& line) {
                              proc::Finished& result = runs_.at(line.process).result;
                              (line.is_stdout ? result.output : result.errors).push_back(line.text);
                            },
                            [&](const proc::ProcessEnd& end) {
                              runs_.at(end.process).ended = true;
                              runs_[end.process].result.status = end.status;
                            },
                            // A host's own messages are not needed here, because the error of a lost host quotes them.
                            [](const HostMessage&) {},
                            [&](const HostLost& lost) {
                              lost_[host_number] = lost.error;
                              for (Run& run : runs_) run.ended = run.ended || run.host_number == host_number;
                            }},
                 event);
    }
  }
}

}  // namespace dtrain::launch
