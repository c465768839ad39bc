// Plans kept in a file from run to run: the next start asks no heuristics and compiles nothing. A plan is found by the
// device (with driver and cuDNN version), the options and the operation; whoever changes one of them gets a new plan.
#pragma once

#include <map>
#include <string>

#include "base/error.h"
#include "base/log.h"

namespace dtrain::cuda {

// One thread uses it.
class PlanCache {
 public:
  // What `path` holds; nothing if there is no such file. A damaged file is ignored with a warning: plans are made anew.
  static PlanCache open(std::string path, const Log& log);
  // Holds plans for this run only.
  PlanCache() = default;

  // cuDNN's text of the plan (Plan::json), or null.
  [[nodiscard]] const std::string* find(const std::string& key) const;
  void put(const std::string& key, std::string plan);

  // Writes the file, if something was put since. The file is replaced whole: of processes that save at the same time
  // the last one's is kept. Holds at most kPlansMax: past that what this run did not use goes.
  Result<> save();
  static constexpr size_t kPlansMax = 4096;

  [[nodiscard]] size_t size() const { return plans_.size(); }

 private:
  struct Entry {
    std::string plan;
    mutable bool used = false;  // by this run
  };
  explicit PlanCache(std::string path) : path_(std::move(path)) {}
  [[nodiscard]] std::string text() const;
  Result<> read();

  std::string path_;
  std::map<std::string, Entry> plans_;
  bool changed_ = false;
};

}  // namespace dtrain::cuda
