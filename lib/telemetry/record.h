// What a process writes down at certain points of a run, such as the end of an epoch: some metrics with their values.
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

// Seconds of training after which its speed is judged: the first steps are not like the others.
inline constexpr double kJudgedAfterSeconds = 30;

struct Value {
  Metric metric;
  double value;
  std::string label = {};  // as in Sample
  bool of_epoch = false;   // over a whole epoch, of a metric that is over a window elsewhere
};

struct Record {
  std::optional<int64_t> epoch = 0;  // nullopt: of a server, which does not know epochs
  uint64_t step = 0;                 // updates since the start of the run
  std::vector<Value> values;
};

// Takes the records of a process: a file, for example. One thread calls it.
class Sink {
 public:
  virtual ~Sink() = default;
  virtual Result<> write(const Record& record) = 0;
};

// Hands each record to all sinks, and to the registry, so that all see the same numbers. The registry does not get the
// values of whole epochs: a series there has one kind of value, those of windows.
class Recorder {
 public:
  explicit Recorder(Registry& registry) : registry_(registry) {}
  void add(std::unique_ptr<Sink> sink) { sinks_.push_back(std::move(sink)); }
  // The first error of a sink.
  Result<> write(const Record& record);

 private:
  Registry& registry_;
  std::vector<std::unique_ptr<Sink>> sinks_;
};

}  // namespace dtrain::telemetry
