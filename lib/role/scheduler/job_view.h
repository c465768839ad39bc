// What the scheduler knows about the processes of its job while it runs: their metrics, and which of them are slow.
#pragma once

#include <chrono>
#include <cstdint>
#include <vector>

#include "base/log.h"
#include "job/process/progress.h"
#include "observe/member_change.h"
#include "observe/slow.h"
#include "observe/source.h"
#include "observe/stall_watch.h"
#include "rpc/scheduler.h"
#include "telemetry/registry.h"

namespace dtrain::role {

// The metrics that a process has reported.
observe::Source source_of(rpc::MemberPulse member);
// The progress that each worker has reported.
std::vector<job::WorkerProgress> worker_progress(const std::vector<rpc::MemberPulse>& members);

// Used by the scheduler's main thread.
class JobView {
 public:
  // `own`: the scheduler's registry, to which the metrics of the job are added. Borrowed.
  // `stall_timeout_s`: --stall-timeout in seconds; 0: none.
  JobView(telemetry::Registry& own, observe::JobForm form, double stall_timeout_s, Log log);

  // Takes the processes' newest reports. Logs and returns the processes that have turned out to be slow, each only
  // once.
  std::vector<observe::Slow> update(const job::Progress& progress, std::vector<rpc::MemberPulse> members);
  // Logs the processes that live but have not moved for a minute, each once. Returns all of them; see StallWatch.
  std::vector<observe::Stalled> find_stalled(const std::vector<rpc::MemberPulse>& members);
  // The changes, as findings that happen now.
  [[nodiscard]] std::vector<observe::MemberChange> note(const std::vector<rpc::MemberChange>& changes) const;
  // Determines how the workers spent their time and what would help most. Logs both and returns them.
  [[nodiscard]] observe::Conclusion end() const;

 private:
  using Clock = std::chrono::steady_clock;
  void set_job_metrics(const job::Progress& progress, const std::vector<rpc::MemberPulse>& members);

  telemetry::Registry& own_;
  const observe::JobForm form_;
  const Log log_;
  std::vector<observe::Source> sources_;  // the newest metrics of all processes: workers, servers, the scheduler
  Clock::time_point began_ = Clock::now();
  observe::SlowWatch slow_;
  observe::StallWatch stalls_;
};

}  // namespace dtrain::role
