// --monitor: prints the norm of every tensor of a step, in the format of MXNet's Monitor.
#pragma once

#include <cstdint>
#include <utility>

#include "base/error.h"
#include "base/log.h"
#include "exec/device_group.h"
#include "graph/ids.h"

namespace dtrain::train {

class Monitor {
 public:
  // `every`: the interval in steps; 0: never. The graph and the log's sink must outlive the monitor.
  Monitor(int64_t every, const graph::Graph& graph, Log log) : every_(every), graph_(graph), log_(std::move(log)) {}

  // Whether to print the step with this number, counted from 0.
  [[nodiscard]] bool is_due(uint64_t step) const { return every_ > 0 && step % static_cast<uint64_t>(every_) == 0; }

  // Prints one line for each tensor of the first device: its norm divided by the square root of its size. The outputs
  // of the nodes come first, in the order in which they are computed, then the learned tensors and their gradients,
  // then the statistics. The executor must be compiled with keep_all, and no step may be in progress. `step` counts
  // from 0.
  Result<> print(uint64_t step, exec::DeviceGroup& training) const;

 private:
  int64_t every_;
  const graph::Graph& graph_;
  Log log_;
};

}  // namespace dtrain::train
