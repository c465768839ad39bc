// Provides the executor's plans: takes them from files of earlier starts, or chooses new ones and stores them.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>

#include "base/log.h"
#include "cuda/dnn/convolution.h"
#include "cuda/dnn/plan.h"
#include "cuda/dnn/plan_cache.h"

namespace dtrain::cuda {

// The plans of earlier starts. Both may be null and must outlive the planner. The caller saves them.
struct PlanFiles {
  PlanCache* cache = nullptr;  // the user's, for all runs
  // The run's own, which is searched first and gets every plan that is used. A resumed run needs the same plans for the
  // same bits, even if the user's cache has been deleted or changed since.
  PlanCache* run = nullptr;
  // Whether `run` had plans when it was opened. If it then lacks one that is needed, a warning says so.
  bool is_resumed = false;
};

// How plans are measured. Plans with the option `deterministic` are never measured, because times vary from start to
// start.
struct PlanTiming {
  // Prepares the measurement of plans for a pass on the device. Null: nothing is measured.
  std::function<Result<Measure>(const ConvolutionPass& pass)> prepare = {};
  double seconds_max = 60;  // for all plans of a graph together; later ones are chosen without measurement
  // The current time in seconds. Tests replace it.
  std::function<double()> now = seconds_now;

  static double seconds_now();
};

// Used by one thread.
class Planner {
 public:
  Planner(Device device, const PlanOptions& options, PlanFiles files = {}, PlanTiming timing = {},
          Log log = Log::silent())
      : device_(std::move(device)),
        options_(options),
        files_(files),
        timing_(std::move(timing)),
        log_(std::move(log)) {}

  // Code::kDevice, naming the operation, if no engine can run it.
  Result<Plan> plan(const ConvolutionPass& pass);
  // All plans of a graph were requested. The time limit begins again with the next graph.
  void graph_done();

  [[nodiscard]] const Device& device() const { return device_; }
  [[nodiscard]] int64_t from_cache() const { return from_cache_; }  // plans that needed no heuristics
  [[nodiscard]] int64_t chosen() const { return chosen_; }

 private:
  std::optional<Plan> stored(const std::string& key);
  Result<TimedPlan> choose(const ConvolutionPass& pass);
  Result<TimedPlan> first_choice(const ConvolutionPass& pass, const Descriptor& graph);
  void store(const std::string& key, const TimedPlan& chosen);
  [[nodiscard]] bool measures() const { return timing_.prepare != nullptr && !options_.deterministic; }
  bool is_time_up();
  void warn_once(const std::string& text);

  Device device_;
  PlanOptions options_;
  PlanFiles files_;
  PlanTiming timing_;
  Log log_;
  int64_t from_cache_ = 0, chosen_ = 0;
  // Of the current graph:
  std::optional<double> began_;  // when the first plan was measured
  int64_t measured_ = 0;         // passes whose plans were measured
  bool has_warned_ = false;
  bool has_warned_of_bits_ = false;  // of all graphs
};

}  // namespace dtrain::cuda
