// Starts a job again after a failure (--max-restarts). All of its processes start anew, and training continues from the
// run's last checkpoint, or from the beginning if there is none. See docs/runs.md, "Restarts".
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "base/error.h"
#include "launch/job.h"
#include "launch/screen.h"

namespace dtrain::launch {

// Decides whether a job that has ended starts again, and when. Pure: it only counts what it is told.
class RestartPolicy {
 public:
  explicit RestartPolicy(int64_t restarts_max) : max_(restarts_max) {}

  struct Decision {
    bool restarts = false;
    std::chrono::seconds wait{0};  // how long to wait before the restart
    std::string why_not = {};      // why a failed job does not start again; empty: it has no restarts at all
  };
  // `replace_hosts`: replaces the hosts that have failed by spare ones, and returns whether there was one for each. It
  // is called only if the job would otherwise start again.
  //
  // A job does not start again if its cause cannot go away: a wrong flag, damaged data, a start that has never
  // succeeded, or the same failure three times. Failures are the same if processes, of whatever rank, reported the same
  // error and the later run of the job got no further, or if a process was killed after the same step. The first
  // restart follows at once, and later ones after 1, 2, 4, ... 60 s. A run of the job that gets further than all before
  // it resets this.
  Decision after(const JobEnd& end, const std::function<bool()>& replace_hosts);

 private:
  [[nodiscard]] bool never_started(const JobEnd& end) const;
  [[nodiscard]] std::string objection(const JobEnd& end) const;
  void count(const JobEnd& end);

  const int64_t max_;
  int64_t restarts_ = 0;
  bool has_trained_ = false;      // whether any run of the job has trained
  int64_t furthest_step_ = 0;     // the last step that any run of the job has reported
  int64_t without_progress_ = 0;  // number of restarts since the job last made progress
  std::optional<JobEnd> last_;    // how the job failed last
  int64_t times_same_ = 0;        // how many times in a row it has failed like that
};

// The runs of a job's processes, for supervise_with_restarts.
struct RestartableJob {
  int64_t restarts_max = 0;
  // The processes. `restart`: 0 for the first start, then counted.
  std::function<Result<Job>(int64_t restart)> make;
  // Puts a spare host in the place of this host of the last run, counted as in Command::host_number. Returns a sentence
  // about it; nullopt: there is no spare host. Used only with restarts.
  std::function<std::optional<std::string>(size_t host_number)> use_spare = {};
};

// Runs the job as supervise() does, and again as RestartPolicy decides. A signal that asks the job to stop also ends
// the wait before a restart. Returns the end of the last run, with JobEnd::restarts. Errors are those of supervise()
// and `make` at the first start; later they count as failures.
Result<JobEnd> supervise_with_restarts(const RestartableJob& job, Screen& screen);

// For the last line of a job: "the job was restarted 2 times: ...". Empty without restarts.
std::string restarts_text(const std::vector<Restart>& restarts);

}  // namespace dtrain::launch
