#include "launch/local_host.h"

namespace dtrain::launch {

Result<std::unique_ptr<LocalHost>> LocalHost::create(const LocalHostOptions& options) {
  DT_TRY(JobRecord record, JobRecord::create(options.record_root, options.job, options.kill_after));
  DT_TRY(auto children, proc::Children::create({.kill_after = options.kill_after,
                                                .leftover_file = record.file(),
                                                .leftover_directory = record.directory()}));
  return std::unique_ptr<LocalHost>(new LocalHost(std::move(record), std::move(children)));
}

// Starts a process and records it. If it cannot be recorded, it is ended, because `dtrain kill` could not find it.
Result<> LocalHost::start(size_t process, const Command& command) {
  return children_->start(process, command.program(),
                          [&](pid_t pid) { return record_.add(command.role, command.rank, pid); });
}

void LocalHost::set_stop_time(std::chrono::milliseconds time) {
  children_->set_kill_after(time);
  record_.set_stop_time(time);
}

void LocalHost::take(std::vector<HostEvent>& events) {
  std::vector<proc::Event> taken;
  children_->take(taken);
  for (proc::Event& event : taken) {
    std::visit([&](auto& one) { events.emplace_back(std::move(one)); }, event);
  }
}

}  // namespace dtrain::launch
