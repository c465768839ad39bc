// What `dtrain bench train` measures on: the CPU, or one GPU.
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

inline constexpr uint64_t kBenchSeed = 1;  // of weights and data
kvstore::UpdateRule bench_rule();          // SGD with momentum

// One thread calls it.
class BenchDevice {
 public:
  virtual ~BenchDevice() = default;

  virtual std::string name() const = 0;  // for texts: "cpu", "gpu(0): NVIDIA H200, ..."
  // Once, before the calls below. The executor has its initial weights, and belongs to this object. The store updates
  // them by SGD; `waits` must outlive it.
  virtual Result<exec::Executor*> compile(const graph::Graph& graph, const exec::Options& options) = 0;
  virtual Result<std::unique_ptr<kvstore::Store>> make_store(Waits& waits) = 0;

  // What the device can do at most, and what a step's calls take. `run` makes so many steps. Of a CPU, the clock is
  // read at each call of all steps from begin_profile() on; of a GPU, in the steps that profile() makes.
  virtual Result<> measure_peak() = 0;  // again: the better figures count
  [[nodiscard]] const Peak& peak() const { return peak_; }
  virtual void begin_profile() = 0;
  virtual Result<std::vector<ProfileLine>> profile(const std::function<Result<>(int64_t steps)>& run) = 0;

 protected:
  void note_peak(const Peak& peak);  // other processes only lower the figures

 private:
  Peak peak_;
};

std::unique_ptr<BenchDevice> bench_cpu(int threads);
// `number`: as in --gpus. `module`: the file of the GPU module (role/setup/device_loader.h). Code::kDevice: it cannot
// be used.
Result<std::unique_ptr<BenchDevice>> bench_gpu(int number, const std::string& module);

}  // namespace dtrain::bench
