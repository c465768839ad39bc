// The CPU executor: float32 with oneDNN, OpenBLAS and dtrain's own kernels. Its additions to the Executor interface are
// for measurements; the rest of the program includes only exec/executor.h.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "exec/cpu/buckets.h"
#include "exec/cpu/lower.h"
#include "exec/cpu/runner.h"
#include "exec/executor.h"
#include "exec/parameter_store.h"
#include "graph/graph.h"

namespace dtrain::exec::cpu {

// One step of the program, such as a convolution's backward pass with respect to its weights.
struct ProfileLine {
  // For example "conv1", "convolution backward weights", and oneDNN's name of the implementation, or "own".
  std::string node, what, implementation;
  // Mean time of a run, and the time of the shortest run, which other processes disturb least.
  double mean_s = 0, least_s = 0;
  double flops = 0;  // two operations for each multiply-add of convolutions and fully connected layers; 0: not counted
  double bytes = 0;  // size of the tensors that the step reads and writes
};

class CpuExecutor final : public Executor {
 public:
  static Result<std::unique_ptr<CpuExecutor>> compile(const graph::Graph& graph, const Options& options,
                                                      Executor* weights_of = nullptr);

  Result<> forward(const Batch& batch, const WeightsWait& wait) override;
  Result<> backward(const GradientReady& ready) override;
  const ParameterView& parameters() override { return view_; }
  size_t heads() const override { return shapes_.heads.size(); }
  std::span<const float> result(size_t head) override;
  std::vector<float> node_output(graph::NodeId node) override { return read(outputs_[node]); }
  std::vector<float> node_gradient(graph::NodeId node) override { return read(gradients_[node]); }
  size_t memory_bytes() const override { return runner_->memory_bytes(); }

  // Measures how the time is spent on steps of the program. After enable_profile(), profile() returns the steps that
  // have run, in their order.
  void enable_profile() { runner_->enable_profile(); }
  [[nodiscard]] std::vector<ProfileLine> profile() const;

 private:
  CpuExecutor(const graph::Graph& graph, const Options& options, graph::Shapes shapes);
  void build();
  [[nodiscard]] std::vector<float> read(ValueId value) const;
  [[nodiscard]] bool training() const { return options_.purpose == Options::Purpose::kTraining; }

  graph::Graph graph_;
  Options options_;
  graph::Shapes shapes_;
  // Shared with the executors that were compiled with this one as their `weights_of`.
  std::shared_ptr<ParameterStore> store_;
  ParameterView view_;
  Batch batch_;
  std::vector<ValueId> outputs_, gradients_;
  std::vector<ValueId> results_;  // the network's results, indexed by head
  size_t forward_count_ = 0;
  BucketSchedule schedule_;
  std::unique_ptr<Runner> runner_;
};

}  // namespace dtrain::exec::cpu
