// A program bound to its memory: the arguments of all steps are addresses, so dtrain's own code allocates nothing while
// running.
#pragma once

#include <chrono>
#include <string>
#include <vector>

#include "exec/cpu/arena.h"
#include "exec/cpu/program.h"
#include "exec/memory_plan.h"
#include "graph/graph.h"
#include "telemetry/timeline.h"

namespace dtrain::exec::cpu {

class Runner {
 public:
  // share: values that are never alive at the same time share memory (exec/memory_plan.h).
  Runner(const Program& program, bool share);

  // Records the steps on `timeline`; null: they are not recorded.
  void record_on(telemetry::Timeline* timeline, const graph::Graph& graph);

  // Runs step `index`, on the calling thread and its OpenMP team.
  void run(size_t index);
  [[nodiscard]] size_t size() const { return steps_.size(); }

  [[nodiscard]] void* address(ValueId value) const { return addresses_[value]; }
  [[nodiscard]] size_t memory_bytes() const { return arena_.size() + scratchpad_.size(); }
  // The value's elements in row-major order. Allocates.
  [[nodiscard]] std::vector<float> read(ValueId value) const;

  // Measures every step from now on. This costs two clock readings per step.
  void enable_profile() { profiling_ = true; }
  struct Cost {
    graph::NodeId node;
    const char* what;
    std::string implementation;  // oneDNN's name of the implementation, or "own" for dtrain's kernels
    double seconds;              // total time of all runs since enable_profile()
    double least;                // time of the shortest run
    size_t runs;
    size_t bytes;  // size of the tensors that the step reads and writes, each counted once
  };
  [[nodiscard]] std::vector<Cost> profile() const;

 private:
  struct BoundStep {
    graph::NodeId node = 0;
    const char* what = "";
    dnnl::primitive primitive;
    Kernel kernel;
    std::vector<dnnl::memory> memories;
    std::vector<dnnl_exec_arg_t> args;
    std::vector<void*> pointers;
    std::chrono::nanoseconds spent{0}, least{std::chrono::nanoseconds::max()};
    size_t runs = 0;
    size_t bytes = 0;
    // For instance "conv1: convolution forward"; set only if the steps are recorded on a timeline.
    const char* name = "";
  };

  void bind_addresses(const Program& program, const MemoryPlan& plan);
  [[nodiscard]] BoundStep bind(const Program& program, const Step& step) const;
  void execute_step(BoundStep& step) const;

  dnnl::engine engine_;
  dnnl::stream stream_;
  std::vector<Md> mds_;
  std::vector<void*> addresses_;  // the address of each value, indexed by value
  Arena arena_, scratchpad_;
  std::vector<BoundStep> steps_;
  bool profiling_ = false;
  telemetry::Timeline* timeline_ = nullptr;
};

}  // namespace dtrain::exec::cpu
