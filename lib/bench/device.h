// The device whose speed `dtrain bench train` measures: the CPU, or one GPU.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/waits.h"
#include "exec/cpu/executor.h"
#include "exec/cpu/peak.h"
#include "exec/executor.h"
#include "graph/graph.h"
#include "kvstore/store.h"
#include "kvstore/update_rule.h"

namespace dtrain::bench {

using exec::cpu::Peak;
using exec::cpu::ProfileLine;

inline constexpr uint64_t kBenchSeed = 1;  // seed of the weights and the data
kvstore::UpdateRule bench_rule();          // the rule by which the weights are updated: SGD with momentum

// Used by one thread.
class BenchDevice {
 public:
  virtual ~BenchDevice() = default;

  virtual std::string name() const = 0;  // the device's name, for messages: "cpu", "gpu(0): NVIDIA H200, ..."
  // First compile() must be called, then make_store(), each once; only then the functions below. compile() returns an
  // executor with its initial weights, which this object owns. make_store() returns a store that updates these weights
  // with SGD; `waits` must outlive the store.
  virtual Result<exec::Executor*> compile(const graph::Graph& graph, const exec::Options& options) = 0;
  virtual Result<std::unique_ptr<kvstore::Store>> make_store(Waits& waits) = 0;

  // The following functions measure the peak performance of the device and the duration of the calls in a step. `run`
  // makes the given number of steps. A CPU is measured by reading the clock at each call, in all steps after
  // begin_profile(); a GPU in the steps that profile() makes.
  virtual Result<> measure_peak() = 0;  // if called again, keeps the higher rates
  [[nodiscard]] const Peak& peak() const { return peak_; }
  virtual void begin_profile() = 0;
  virtual Result<std::vector<ProfileLine>> profile(const std::function<Result<>(int64_t steps)>& run) = 0;

 protected:
  // Keeps the larger figures, because other processes on the host can only lower them.
  void note_peak(const Peak& peak);

 private:
  Peak peak_;
};

std::unique_ptr<BenchDevice> bench_cpu(int threads);
// `number`: the GPU's number, as in --gpus. `module`: the file of the GPU module (role/setup/device_loader.h).
// Code::kDevice: the GPU cannot be used.
Result<std::unique_ptr<BenchDevice>> bench_gpu(int number, const std::string& module);

}  // namespace dtrain::bench
