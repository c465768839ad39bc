// Finds the worker or server that slows the others down, and the cause, with numbers; for the log, the page and the
// summary.
#pragma once

#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "observe/period.h"

namespace dtrain::observe {

enum class Cause : uint8_t { kData, kCompute, kNetwork, kServer };

const char* to_text(Cause cause);  // returns "data", "compute", "network" or "server"

struct Slow {
  std::string who;        // the slow process: "worker 3"
  std::string host = {};  // the process's host; empty: not known
  Cause cause = Cause::kData;
  // The numbers in the sentence, with their names in summary.json (docs/formats.md, "Run directory").
  std::vector<std::pair<const char*, double>> figures = {};
  // For example: "worker 3 (node7) takes 310 ms a step, the others 100: its data wait is 190 ms (4 decode threads; disk
  // 12 MB/s)"
  std::string sentence = {};
};

// Compares the workers with each other, and the servers with each other. A single worker or server is not compared. A
// worker is reported only if its step is slower than that of the others by a quarter, by 5 ms, and by a tenth of the
// step including its waits.
std::vector<Slow> find_slow(const JobPeriod& period);

// How the workers spend their time, as shares of the steps' time that add up to 1.
struct TimeShares {
  double data_wait = 0, compute = 0, push = 0, pull_wait = 0;
};
TimeShares time_shares(const JobPeriod& period);
// For example: "of the workers' time, computing took 61 %, waiting for data 2 %, sending gradients 4 %, waiting for
// weights 33 %"
std::string time_shares_text(const TimeShares& shares);

// What advice() needs to know about a job: values of its flags, and its run directory. advice() returns a sentence with
// the one change that would help the job most. It is empty if nothing stands out, or if the period is shorter than 30
// s.
struct JobForm {
  size_t servers = 0;
  bool waits_for_slow = false;      // BSP and SSP: fast workers wait for slow ones
  bool decoders_are_tuned = false;  // whether --data-nthreads auto chooses the number of decode threads
  std::string run_dir;
};
std::string advice(const JobPeriod& period, const JobForm& form);

// Conclusions about a whole run: how its workers spent their time (nullopt if none of them made a step), and the
// advice.
struct Conclusion {
  std::optional<TimeShares> time_shares;
  std::string advice = {};
};
Conclusion conclude(const JobPeriod& run, const JobForm& form);

// Convert to JSON objects with the keys of summary.json: {"slow": {"process": "worker 3", ...}} and
// {"time_shares": {...}, "advice": "..."}.
std::string to_json(const Slow& slow);
std::string to_json(const Conclusion& conclusion);

// Reports each slow process once. Not thread-safe.
class SlowWatch {
 public:
  // Compares the sources with those of an update at least kPeriodSeconds ago, once every worker has made kStepsMin
  // steps since then. Returns the slow processes that have not been reported before.
  std::vector<Slow> update(const std::vector<Source>& sources, double now_s);

  static constexpr double kPeriodSeconds = 10;
  static constexpr double kStepsMin = 10;

 private:
  std::vector<Source> before_;
  double before_s_ = -1;
  std::set<std::pair<std::string, Cause>> said_;
};

}  // namespace dtrain::observe
