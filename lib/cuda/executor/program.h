// The form into which a graph is lowered: a flat list of steps over values. A value is first written by the steps that
// define it and then only read. Its place in device memory is decided after lowering (exec/memory_plan.h); then every
// step becomes a call with all its pointers.
#pragma once

#include <functional>
#include <optional>
#include <utility>
#include <vector>

#include "cuda/executor/map.h"
#include "cuda/kernels/tensor.h"
#include "exec/memory_plan.h"
#include "graph/ids.h"

namespace dtrain::cuda {

struct Value {
  size_t bytes = 0;
  void* fixed = nullptr;  // memory that outlives the program (weights, gradients, statistics); null: none
  // If set: the value of whose memory this value is a part. The part begins at `offset` bytes from the start of that
  // memory.
  std::optional<ValueId> alias_of{};
  size_t offset = 0;
  bool scratch = false;  // used only during one step
  bool zeros = false;    // zero between steps
};

// The addresses of a planned program's values. Absent values and maps have null pointers.
class Addresses {
 public:
  explicit Addresses(std::vector<std::byte*> of_value) : of_value_(std::move(of_value)) {}
  template <class T = void>
  [[nodiscard]] T* at(ValueId value) const {
    return value == kNoValue ? nullptr : reinterpret_cast<T*>(of_value_[value]);
  }
  [[nodiscard]] In in(const Map& map) const { return {at(map.value), map.pitch}; }
  [[nodiscard]] Out out(const Map& map) const { return {at(map.value), map.pitch}; }

 private:
  std::vector<std::byte*> of_value_;
};

// Queues a step's work. May be captured in a CUDA graph.
using Call = std::function<void(cudaStream_t)>;

// The values that a step accesses; absent values are allowed. The first value written may reuse the memory of a value
// in `overwrites` that is not needed after this step.
struct Uses {
  std::vector<ValueId> reads, writes, overwrites = {};
};

struct Step {
  graph::NodeId node = 0;
  Uses uses;
  std::function<Call(const Addresses&)> bind;
};

class Program {
 public:
  static constexpr size_t kAlignment = 256;  // alignment of every value that is not an alias

  ValueId bytes(size_t count) { return add(Value{.bytes = count}); }
  ValueId floats(int64_t count) { return bytes(static_cast<size_t>(count) * sizeof(float)); }
  // For workspaces of kernels and plans. Steps run one after another, so they all share one block of memory.
  ValueId scratch(size_t count) { return add(Value{.bytes = count, .scratch = true}); }
  // Memory that is zero when a step begins, so all steps share it too. A kernel with counters (kernels/tensor.h) writes
  // to it, but leaves it at zero.
  ValueId zeros(size_t count) { return add(Value{.bytes = count, .zeros = true}); }
  ValueId counters(int64_t count) { return zeros(static_cast<size_t>(count) * sizeof(uint32_t)); }
  ValueId fixed(void* memory, size_t bytes) { return add(Value{.bytes = bytes, .fixed = memory}); }

  // A map with memory of its own, dense unless it has zeros.
  Map map(Type type, int64_t n, int64_t h, int64_t w, int64_t channels, int64_t zeros = 0);
  Map like(const Map& map) { return this->map(map.type, map.n, map.h, map.w, map.channels); }
  // The channels [begin, begin + count) of a dense map, as a view of its memory.
  Map slice(const Map& whole, int64_t begin, int64_t count);

  void step(graph::NodeId node, Uses uses, std::function<Call(const Addresses&)> bind);
  // Adds a step that calls kernel(arguments, stream); make(addresses) creates the arguments once the addresses are
  // known.
  template <class Arguments, class Make>
  void kernel(graph::NodeId node, void (*kernel)(const Arguments&, cudaStream_t), const Uses& uses, Make make) {
    step(node, uses, [kernel, make](const Addresses& at) -> Call {
      return [kernel, arguments = Arguments(make(at))](cudaStream_t stream) { kernel(arguments, stream); };
    });
  }

  // Marks a value that the caller reads after the last step, so that its memory is not reused.
  void keep(ValueId value) { kept_.push_back(value); }

  [[nodiscard]] const std::vector<Step>& steps() const { return steps_; }
  // The size of the memory that all steps share: the zeros, then the scratch values.
  [[nodiscard]] size_t scratch_bytes() const { return zero_bytes() + largest(&Value::scratch); }
  // The size of the values that a step reads and writes, without scratch.
  [[nodiscard]] int64_t bytes_of(const Step& step) const;
  // share: whether values may reuse each other's memory once it is free (exec/memory_plan.h).
  [[nodiscard]] exec::MemoryPlan plan_memory(bool share) const;
  // Computes the address of each value. `arena` must have the plan's size, and `scratch` must have scratch_bytes().
  // Both must be aligned to kAlignment. `scratch` must be zero before the first step, and only this program may use it.
  [[nodiscard]] Addresses addresses(const exec::MemoryPlan& plan, void* arena, void* scratch) const;

 private:
  ValueId add(const Value& value);
  // The size of the largest of the values for which `is` is true.
  [[nodiscard]] size_t largest(bool Value::*is) const;
  [[nodiscard]] size_t zero_bytes() const {
    return (largest(&Value::zeros) + kAlignment - 1) / kAlignment * kAlignment;
  }

  std::vector<Value> values_;
  std::vector<Step> steps_;
  std::vector<ValueId> kept_;
};

}  // namespace dtrain::cuda
