// Plans that are stored in a file from run to run, so that the next start needs neither heuristics nor compilation. The
// key of a plan consists of the device (with driver and cuDNN version), the options and the operation. If one of them
// changes, a new plan is made.
#pragma once

#include <map>
#include <string>

#include "base/error.h"
#include "base/log.h"

namespace dtrain::cuda {

// Used by one thread.
class PlanCache {
 public:
  // Reads `path`; the cache is empty if there is no such file. A damaged file is ignored with a warning, and plans are
  // made again.
  static PlanCache open(std::string path, const Log& log);
  // A cache without a file, for this run only.
  PlanCache() = default;

  // Returns cuDNN's text of the plan (Plan::json), or null if there is none.
  [[nodiscard]] const std::string* find(const std::string& key) const;
  void put(const std::string& key, std::string plan);

  // Writes the file if plans were added since the last save. The file is replaced as a whole, so if several processes
  // save at the same time, the last one wins. If there are more than kPlansMax plans, those that this run did not use
  // are dropped.
  Result<> save();
  static constexpr size_t kPlansMax = 4096;

  [[nodiscard]] size_t size() const { return plans_.size(); }

 private:
  struct Entry {
    std::string plan;
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
