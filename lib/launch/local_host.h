// Processes of a job on this host, in a group that ends with the launcher. They are recorded while they run
// (job_record.h).
#pragma once

#include <memory>
#include <string>

#include "launch/host.h"
#include "launch/job_record.h"

namespace dtrain::launch {

struct LocalHostOptions {
  std::string job;          // name of the job, used as a file name; empty: processes are not recorded
  std::string record_root;  // directory of the records of jobs, for JobRecord (job_record.h)
  // Time between TERM and KILL after the launcher has died; set_stop_time() changes it.
  std::chrono::milliseconds kill_after;
};

class LocalHost : public Host {
 public:
  static Result<std::unique_ptr<LocalHost>> create(const LocalHostOptions& options);

  [[nodiscard]] std::string_view name() const override { return "this host"; }
  Result<> start(size_t process, const Command& command) override;
  void send(size_t process, std::string_view text) override { children_->send(process, text); }
  void signal(int number) override { children_->signal(number); }
  void kill() override { children_->kill(); }
  void set_stop_time(std::chrono::milliseconds time) override;
  void record_scheduler(const std::string& address, const std::string& token) override {
    record_.set_scheduler(address, token);
  }
  void close() override {}
  void watch(std::vector<pollfd>& watched) const override { children_->watch(watched); }
  // No time: when a child ends, SIGCHLD wakes the caller.
  [[nodiscard]] std::optional<Clock::time_point> wakes_at() const override { return std::nullopt; }
  void take(std::vector<HostEvent>& events) override;
  [[nodiscard]] bool shares_run_dir() const override { return true; }

  [[nodiscard]] bool running() const { return children_->running(); }

 private:
  LocalHost(JobRecord record, std::unique_ptr<proc::Children> children)
      : record_(std::move(record)), children_(std::move(children)) {}

  JobRecord record_;  // declared before the children, so that the file exists as long as a process runs
  std::unique_ptr<proc::Children> children_;
};

}  // namespace dtrain::launch
