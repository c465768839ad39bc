// Processes on this machine, in a group that ends with the launcher. They are recorded while they run (job_record.h).
#pragma once

#include <deque>
#include <memory>
#include <string>

#include "launch/host.h"
#include "launch/job_record.h"
#include "launch/output.h"
#include "launch/process_group.h"

namespace dtrain::launch {

struct LocalHostOptions {
  std::string job;                       // used as a file name; empty: processes are not recorded
  std::string record_root;               // see job_record.h
  std::chrono::milliseconds kill_after;  // between TERM and KILL after the launcher has died; see set_stop_time
  LineEnds stdout_ends = LineEnds::kNewline;
};

class LocalHost : public Host {
 public:
  static Result<std::unique_ptr<LocalHost>> create(const LocalHostOptions& options);

  [[nodiscard]] std::string_view name() const override { return "this machine"; }
  Result<> start(size_t process, const Command& command) override;
  void signal(int number) override;
  void kill() override;
  void set_stop_time(std::chrono::milliseconds time) override;
  void close() override {}
  void watch(std::vector<pollfd>& watched) const override;
  [[nodiscard]] std::optional<Clock::time_point> wakes_at() const override { return std::nullopt; }  // SIGCHLD wakes
  void take(std::vector<HostEvent>& events) override;
  [[nodiscard]] bool shares_run_dir() const override { return true; }

  [[nodiscard]] bool running() const;

 private:
  struct Member {
    size_t id = 0;
    Process process;
    LineSplitter out, err;
    bool running = true;
  };

  LocalHost(std::optional<JobRecord> record, ProcessGroup group, const LocalHostOptions& options)
      : record_(std::move(record)),
        group_(std::move(group)),
        stop_time_(options.kill_after),
        stdout_ends_(options.stdout_ends) {}
  Result<> record(const Command& command, pid_t pid);
  static void read(Member& member, int reads_max, std::vector<HostEvent>& events);
  static void reap(Member& member, std::vector<HostEvent>& events);

  std::optional<JobRecord> record_;  // declared before the group, so that the file exists as long as a process runs
  ProcessGroup group_;
  std::chrono::milliseconds stop_time_;
  LineEnds stdout_ends_;
  std::deque<Member> members_;
};

}  // namespace dtrain::launch
