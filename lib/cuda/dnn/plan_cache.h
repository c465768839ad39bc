// Plans that are stored in a file, so that the next start needs neither heuristics nor compilation nor measurements.
// The key of a plan consists of the device (with driver and cuDNN version), the options and the operation. If one of
// them changes, a new plan is made.
//
// There are two such files: the user's cache, and a file in the run directory with the plans that the run uses, from
// which a resumed run takes the same plans (planner.h).
#pragma once

#include <map>
#include <optional>
#include <string>

#include "base/error.h"
#include "base/log.h"

namespace dtrain::cuda {

struct StoredPlan {
  std::string text;  // cuDNN's text of the plan (Plan::json)
  // How long one run took when the plan was chosen; nullopt if it was not measured.
  std::optional<double> milliseconds = {};
};

// Used by one thread at a time.
class PlanCache {
 public:
  // Reads `path`; the cache is empty if there is no such file. A file that is damaged or has another version of the
  // format is ignored with a warning, and plans are made again.
  static PlanCache open(std::string path, const Log& log);
  // Opens the file of a run, which is saved in `path`. If there is no such file yet, reads that of the run that is
  // resumed; `resumed` is empty if none is.
  static PlanCache open_of_run(std::string path, const std::string& resumed, const Log& log);
  // A cache without a file, for this run only.
  PlanCache() = default;

  // Returns null if there is no such plan. Valid until the next put().
  [[nodiscard]] const StoredPlan* find(const std::string& key) const;
  void put(const std::string& key, StoredPlan plan);

  // Writes the file if plans were added since the last save. The file is replaced as a whole, so if several processes
  // save at the same time, the last one wins. If there are more than kPlansMax plans, those that this run did not use
  // are dropped.
  Result<> save();
  static constexpr size_t kPlansMax = 4096;

  [[nodiscard]] size_t size() const { return plans_.size(); }

 private:
  struct Entry {
    StoredPlan plan;
    mutable bool used = false;  // whether this run has used it
  };
  explicit PlanCache(std::string path) : path_(std::move(path)) {}
  [[nodiscard]] std::string text() const;
  Result<> read();

  std::string path_;
  std::map<std::string, Entry> plans_;
  bool changed_ = false;
};

}  // namespace dtrain::cuda
