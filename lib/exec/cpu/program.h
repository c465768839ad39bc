// The form into which a graph is lowered: a flat list of steps over values. A value is first written by the steps that
// define it and then only read, so it has a lifetime from a first to a last step. Its place in memory is decided
// afterwards (exec/memory_plan.h).
#pragma once

#include <cstddef>
#include <deque>
#include <functional>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "exec/cpu/dnnl_api.h"
#include "exec/memory_plan.h"
#include "graph/ids.h"

namespace dtrain::exec::cpu {

using ValueId = size_t;
constexpr ValueId kNoValue = static_cast<ValueId>(-1);

// A tensor of the program: its layout, and where its memory comes from.
struct Value {
  Md md;
  void* fixed = nullptr;  // memory that outlives the program (weights, gradients, statistics); null: none
  // Index of the parameter of which this is the weight or gradient; nullopt: of none.
  std::optional<size_t> parameter{};
  std::optional<ValueId> alias_of{};  // the value whose memory this value views; nullopt: it has its own memory
  bool scratchpad = false;            // whether the memory is used only during one step
  bool kept = false;                  // whether the caller reads the value after the last step
};

struct Arg {
  int key = 0;  // oneDNN's argument key; dtrain's own kernels take their arguments by position
  ValueId value = kNoValue;
  bool write = false;
};
inline Arg in(ValueId value) {
  return {0, value, false};
}
inline Arg out(ValueId value) {
  return {0, value, true};
}
inline Arg in(int key, ValueId value) {
  return {key, value, false};
}
inline Arg out(int key, ValueId value) {
  return {key, value, true};
}

// One of dtrain's own kernels. It gets the addresses of the step's arguments, in order.
using Kernel = std::function<void(void* const* pointers)>;

struct Step {
  graph::NodeId node = 0;
  const char* what = "";      // what the step does, as static text such as "convolution forward"
  dnnl::primitive primitive;  // oneDNN's primitive; empty if the step has a kernel
  Kernel kernel;
  std::vector<Arg> args;
  // The values that are used for the last time in this step and whose memory the first written value may reuse.
  std::vector<ValueId> overwrites;
};

class Program {
 public:
  explicit Program(dnnl::engine engine) : engine_(std::move(engine)) {}

  ValueId tensor(const Md& md) { return add(Value{.md = md}); }
  ValueId fixed(const Md& md, void* memory, std::optional<size_t> parameter);
  ValueId alias(ValueId value, const Md& md) { return add(Value{.md = md, .alias_of = value}); }
  ValueId scratchpad(const Md& md) { return add(Value{.md = md, .scratchpad = true}); }
  void keep(ValueId value) { values_[root(value)].kept = true; }

  void primitive(graph::NodeId node, const char* what, const dnnl::primitive& primitive, std::vector<Arg> args,
                 std::vector<ValueId> overwrites = {});
  void kernel(graph::NodeId node, const char* what, Kernel kernel, std::vector<Arg> args,
              std::vector<ValueId> overwrites = {});

  // Returns the value in another layout: the value itself, an earlier result of the same conversion, or the result of a
  // new reorder.
  ValueId converted(graph::NodeId node, ValueId value, const Md& md);
  // Where a step that produces the layout `md` should write its result for `target`: `target` itself, or a new value
  // that finish_write() then reorders into it.
  ValueId staging(ValueId target, const Md& md) { return md == values_[target].md ? target : tensor(md); }
  void finish_write(graph::NodeId node, ValueId staged, ValueId target);

  // Steps before this call are the forward pass, steps after it the backward pass.
  void begin_backward() { forward_count_ = steps_.size(); }

  [[nodiscard]] const std::deque<Value>& values() const { return values_; }
  [[nodiscard]] const std::vector<Step>& steps() const { return steps_; }
  [[nodiscard]] size_t forward_count() const { return forward_count_; }
  [[nodiscard]] const Md& md(ValueId value) const { return values_[value].md; }
  // The value itself or, for an alias, the value whose memory it views.
  [[nodiscard]] ValueId root(ValueId value) const;
  [[nodiscard]] const dnnl::engine& engine() const { return engine_; }

  // Places all values in memory, except fixed values and scratchpads. share: see exec/memory_plan.h.
  [[nodiscard]] MemoryPlan plan_memory(bool share) const;

 private:
  ValueId add(const Value& value);
  void add_step(Step step);
  void reorder(graph::NodeId node, ValueId from, ValueId to);

  dnnl::engine engine_;
  std::deque<Value> values_;  // a deque, so that references to an md stay valid when values are added
  std::vector<Step> steps_;
  std::vector<std::vector<ValueId>> conversions_;  // for each value: the values with the same tensor in other layouts
  std::map<void*, std::vector<ValueId>> fixed_;
  size_t forward_count_ = 0;
};

}  // namespace dtrain::exec::cpu
