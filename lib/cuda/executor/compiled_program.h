// A lowered network on a device: its memory, and its calls with all their pointers.
#pragma once

#include <cuda_runtime_api.h>

#include <memory>
#include <vector>

#include "cuda/executor/lower.h"
#include "cuda/executor/segment.h"
#include "cuda/executor/timing.h"
#include "cuda/runtime/device_spans.h"
#include "cuda/runtime/memory.h"

namespace dtrain::cuda {

class CompiledProgram {
 public:
  // Calls that the device runs without synchronizing with a store, and the buckets for which it does synchronize: in
  // the forward pass before these calls, in the backward pass after them (StepRange).
  struct Part {
    Segment segment;
    std::vector<size_t> buckets;
    size_t first_call = 0;  // index of the segment's first call in calls()
  };

  // Allocates the memory on the current device and binds the calls. Code::kDevice, with the number of images that fit,
  // if the device has too little free memory for the batch. `spans` must outlive the program.
  static Result<std::unique_ptr<CompiledProgram>> bind(const Lowered& lowered, const graph::Graph& graph,
                                                       const exec::Options& options, DeviceSpans& spans);

  std::vector<Part>& forward() { return forward_; }
  std::vector<Part>& backward() { return backward_; }
  // The calls of the forward and then of the backward pass, without times.
  [[nodiscard]] const std::vector<TimedCall>& calls() const { return calls_; }
  // Queues a part's calls: as a CUDA graph from the second run on, or one by one, without a graph of their own
  // (plainly) or between events that time them (recorded).
  static void queue(Part& part, cudaStream_t stream) { part.segment.run(stream); }
  static void queue_plainly(Part& part, cudaStream_t stream) { part.segment.queue(stream); }
  void queue_recorded(Part& part, cudaStream_t stream);

  // The address, in device memory, of the result of a head: [n, outputs], float32.
  [[nodiscard]] const void* result_at(size_t head) const { return result_at_[head]; }
  // Only with Options::keep_all. read_output returns a node's output, read_gradient the gradient with respect to that
  // output, multiplied by `factor`. Both are in [n, c, h, w] order, or empty if the node has none. Waits for the
  // stream.
  std::vector<float> read_output(graph::NodeId node, cudaStream_t stream);
  std::vector<float> read_gradient(graph::NodeId node, float factor, cudaStream_t stream);

  [[nodiscard]] size_t bytes() const { return arena_.bytes() + scratch_.bytes() + read_memory_.bytes(); }

 private:
  // The outputs of all nodes, or the gradients, for read_output and read_gradient.
  struct NodeMaps {
    std::vector<Map> maps;      // indexed by node
    std::vector<void*> places;  // indexed by node: addresses of the maps
  };

  explicit CompiledProgram(DeviceSpans& spans) : spans_(spans) {}
  std::vector<Part> parts_of(const Program& program, const std::vector<StepRange>& ranges, const Addresses& at,
                             const graph::Graph& graph, bool backward);
  std::vector<float> read(const Map& map, const void* address, float factor, cudaStream_t stream);

  DeviceSpans& spans_;
  DeviceMemory arena_, scratch_, read_memory_;
  std::vector<Part> forward_, backward_;
  std::vector<TimedCall> calls_;
  std::vector<const char*> span_names_;  // names of the calls on a timeline; empty texts without one
  std::vector<const void*> result_at_;   // indexed by head
  NodeMaps outputs_, gradients_;
};

}  // namespace dtrain::cuda
