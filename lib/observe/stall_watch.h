// Finds the processes of a job that live but do not move, and of these the ones that hold up the others.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

namespace dtrain::observe {

// What a process does, as its last report says.
struct Activity {
  std::string who;                     // "worker 3"
  std::string host = {};               // empty: not known
  std::optional<uint64_t> steps = {};  // for a worker: its own steps since the run began
  // The oldest open wait for another process; if there is none, the own work that takes longest, such as "validation";
  // else empty.
  std::string wait = {};
  bool is_own_work = false;  // whether `wait` is own work
  double report_age_s = 0;   // the age of `wait`: how long the process has not been able to report
  bool has_ended = false;
};

// A process that has not moved for `seconds`, and does not wait for another one.
struct Stalled {
  std::string who;
  double seconds = 0;
  std::string sentence;  // "worker 3 (node7) has made no step for 61 s, and waits for no other process"
  bool is_news = false;  // false: an earlier update returned it too
};

// Not thread-safe.
class StallWatch {
 public:
  static constexpr double kUsualSeconds = 60;
  // Without a step, or without a report, for this time, a process counts as stalled.
  explicit StallWatch(double seconds = kUsualSeconds) : seconds_(seconds) {}

  // Returns the processes that are stalled now. Work of its own that takes long, such as validation, is no stall. If
  // all workers wait for other processes and none makes a step, returns the worker that has stood longest, with the
  // waits of all.
  std::vector<Stalled> update(const std::vector<Activity>& processes, double now_s);

 private:
  struct Standing {
    uint64_t steps = 0;
    double since_s = 0;
  };
  double standing_s(const Activity& process, double now_s);
  void mark_news(std::vector<Stalled>& stalled);

  const double seconds_;
  std::map<std::string, Standing> standing_;  // by Activity::who
  std::set<std::string> reported_;            // the names that the last update returned
};

}  // namespace dtrain::observe
