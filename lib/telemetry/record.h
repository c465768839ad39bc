// What a process records at certain points of a run, such as the end of an epoch: some metrics with their values.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/error.h"
#include "telemetry/registry.h"

namespace dtrain::telemetry {

// How long training must have run before its speed is judged, because the first steps are not typical.
inline constexpr double kJudgedAfterSeconds = 30;

struct Value {
  Metric metric;
  double value;
  std::string label = {};  // the label's value, as in Sample
  // Whether the value is over a whole epoch; for a metric whose values are otherwise over a window.
  bool of_epoch = false;
};

struct Record {
  std::optional<int64_t> epoch = 0;  // the epoch; nullopt: the record of a server, which does not know epochs
  uint64_t step = 0;                 // number of updates since the start of the run
  std::vector<Value> values;
};

// Receives the records of a process, for example to write a file. One thread calls it.
class Sink {
 public:
  virtual ~Sink() = default;
  virtual Result<> write(const Record& record) = 0;
};

// Passes each record to all sinks and to the registry, so that all get the same numbers. The registry does not get
// values of whole epochs, because each of its series has only values of windows.
class Recorder {
 public:
  explicit Recorder(Registry& registry) : registry_(registry) {}
  void add(std::unique_ptr<Sink> sink) { sinks_.push_back(std::move(sink)); }
  // Returns the first error of a sink.
  Result<> write(const Record& record);

 private:
  Registry& registry_;
  std::vector<std::unique_ptr<Sink>> sinks_;
};

}  // namespace dtrain::telemetry
