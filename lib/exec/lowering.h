// What all backends share when they lower a graph to a program: the order of the steps, the values that nodes read and
// write, and the terms of which gradients consist. The program itself, its values and the kernels differ.
#pragma once

#include <algorithm>
#include <cstddef>
#include <functional>
#include <utility>
#include <variant>
#include <vector>

#include "exec/executor.h"
#include "exec/fuse.h"
#include "graph/flow.h"
#include "graph/graph.h"

namespace dtrain::exec {

// A lowered graph. Program: a list of steps over values, which are numbered. Value: a tensor of the program; the one
// that a backend calls "none" is absent.
template <class Program, class Value>
struct LoweredGraph {
  Program program;
  std::vector<Value> outputs;    // indexed by node: its output; none if a fusion removed it
  std::vector<Value> gradients;  // indexed by node: the gradient with respect to its output; none if no gradient flows
  std::vector<size_t> results;   // indexed by head: the number of the value that has the network's result
};

// The base of a backend's class Lowering, which is `Backend`. lower_all() calls these members of it:
//
//   fusions()             a Fusions, or a class derived from it
//   await_weights(id)     before the node's forward steps: the weights that it is the first to read are needed
//   result_of(id)         emits what the network's result needs in addition to the node's output; returns its value
//   begin_backward()      after the forward pass
//   finish_gradients(id)  after the node's backward steps: the gradients of the parameters of first_read(id) have all
//                         their terms
//
// and for each operator the function lower_node(Backend&, graph::NodeId, const graph::OPERATOR&), which emits the
// node's forward steps, sets its output and returns the function that emits its backward steps.
template <class Backend, class Program, class Value>
class LoweringBase {
 public:
  // Called in training if a gradient with respect to the node's output exists (all its terms have been contributed), or
  // if the node is a loss.
  using EmitBackward = std::function<void()>;

  [[nodiscard]] bool training() const { return options_.purpose == Options::Purpose::kTraining; }
  [[nodiscard]] const Options& options() const { return options_; }
  Program& program() { return program_; }

  [[nodiscard]] const graph::Node& node(graph::NodeId id) const { return graph_.node(id); }
  [[nodiscard]] size_t input_of(graph::NodeId id) const { return graph::input_of(graph_, shapes_, id); }
  [[nodiscard]] size_t label_of(graph::NodeId id) const { return graph::label_of(graph_, shapes_, id); }
  [[nodiscard]] size_t label_count() const { return shapes_.labels.size(); }
  [[nodiscard]] graph::NodeId input_node(graph::NodeId id, size_t i = 0) const { return node(id).data_inputs[i]; }
  // What node `id` reads as its input number i, in the layout in which it was written.
  [[nodiscard]] const Value& input(graph::NodeId id, size_t i = 0) const { return outputs_[input_node(id, i)]; }
  [[nodiscard]] const Value& output(graph::NodeId id) const { return outputs_[id]; }
  void set_output(graph::NodeId id, const Value& value) { outputs_[id] = value; }
  // The node whose output the steps of node `id` compute: the ReLU that is fused with it, or the node itself.
  [[nodiscard]] graph::NodeId computed_node(graph::NodeId id) const {
    const graph::NodeId relu = backend().fusions().relu_after[id];
    return relu == Fusions::kNone ? id : relu;
  }

  // Whether the node's output depends on a learned tensor that is not frozen (graph::depends_on_training).
  [[nodiscard]] bool depends_on_training(graph::NodeId id) const { return depends_on_training_[id] != 0; }
  // Whether the gradient with respect to the node's output is needed (graph::wants_gradient). If it is needed for a
  // node without parameters that has one input, then also for that input.
  [[nodiscard]] bool wants_gradient(graph::NodeId id) const { return wants_gradient_[id] != 0; }
  // Adds a term to the gradient with respect to the node's output; ignored if that gradient is not needed. `own`:
  // nothing else reads the term, so another one may be added to it in its memory.
  void contribute(graph::NodeId id, const Value& term, bool own = false) {
    if (wants_gradient(id)) terms_[id].push_back({term, own});
  }

 protected:
  struct Term {
    Value value;
    bool own = false;
  };

  // `none`: the value that is absent.
  LoweringBase(const graph::Graph& graph, const graph::Shapes& shapes, const Options& options, Program program,
               const Value& none)
      : graph_(graph),
        shapes_(shapes),
        options_(options),
        program_(std::move(program)),
        none_(none),
        outputs_(graph.nodes().size(), none),
        terms_(outputs_.size()),
        parameter_terms_(shapes.parameters.size()),
        wants_gradient_(graph::wants_gradient(graph, shapes)),
        depends_on_training_(graph::depends_on_training(graph, shapes)) {}

  LoweredGraph<Program, Value> lower_all() {
    const std::vector<graph::NodeId> order = graph_.canonical_order();
    std::vector<EmitBackward> emit_backward;  // in the order of `order`
    emit_backward.reserve(order.size());
    for (const graph::NodeId id : order) emit_backward.push_back(lower_forward(id));
    std::vector<size_t> results;
    for (const graph::HeadInfo& head : shapes_.heads) {
      results.push_back(backend().result_of(head.node));
      program_.keep(results.back());
    }
    backend().begin_backward();
    for (size_t i = order.size(); training() && i-- > 0;) {
      if (graph::is_loss(node(order[i]).op) || !terms_[computed_node(order[i])].empty()) emit_backward[i]();
      backend().finish_gradients(order[i]);
    }
    std::vector<Value> gradients(outputs_.size(), none_);
    for (graph::NodeId id = 0; id < gradients.size(); id++) {
      if (terms_[id].size() == 1) gradients[id] = terms_[id][0].value;
    }
    return {std::move(program_), std::move(outputs_), std::move(gradients), std::move(results)};
  }

  // The values of the terms that were contributed to the gradient of the node's output.
  [[nodiscard]] std::vector<Value> terms_of(graph::NodeId id) const {
    std::vector<Value> values;
    values.reserve(terms_[id].size());
    for (const Term& term : terms_[id]) values.push_back(term.value);
    return values;
  }
  // Replaces all terms by their sum, and returns it.
  const Value& set_gradient(graph::NodeId id, const Value& sum) {
    terms_[id] = {{sum, true}};
    return terms_[id][0].value;
  }

  // Whether several nodes read the parameter. Then each of them writes a term of its gradient. Otherwise the only
  // reader may write the gradient itself.
  [[nodiscard]] bool is_shared(size_t parameter) const { return shapes_.parameters[parameter].uses.size() > 1; }
  // The parameters [first, second) that no node before this one reads. They are in the order of their first readers.
  [[nodiscard]] std::pair<size_t, size_t> first_read(graph::NodeId id) const {
    const auto reads = [id](const graph::ParameterInfo& parameter) { return parameter.uses[0].node == id; };
    const auto& all = shapes_.parameters;
    const auto begin = std::ranges::find_if(all, reads), end = std::find_if_not(begin, all.end(), reads);
    return {static_cast<size_t>(begin - all.begin()), static_cast<size_t>(end - all.begin())};
  }

  const graph::Graph& graph_;
  const graph::Shapes& shapes_;
  const Options& options_;
  Program program_;
  Value none_;
  std::vector<Value> outputs_;            // indexed by node
  std::vector<std::vector<Term>> terms_;  // indexed by node: the terms of the gradient with respect to its output
  // Indexed by parameter: the values of the terms of its gradient that backward steps have written, in their order.
  std::vector<std::vector<size_t>> parameter_terms_;

 private:
  Backend& backend() { return static_cast<Backend&>(*this); }
  [[nodiscard]] const Backend& backend() const { return static_cast<const Backend&>(*this); }

  // A ReLU that is computed with another node has no steps. Its output is that of the other node.
  EmitBackward lower_forward(graph::NodeId id) {
    if (backend().fusions().computed_by[id] != Fusions::kNone) {
      set_output(id, input(id));
      return [] {};
    }
    backend().await_weights(id);
    return std::visit([&](const auto& op) -> EmitBackward { return lower_node(backend(), id, op); }, node(id).op);
  }

  std::vector<char> wants_gradient_, depends_on_training_;  // indexed by node
};

// For kernels that add at most `at_once` terms: while there are more than `most` terms, replaces the first ones by
// their sum. sum(terms) -> Value emits the sum of the terms.
template <class Value, class Sum>
void sum_first_terms(std::vector<Value>& terms, size_t most, size_t at_once, const Sum& sum) {
  while (terms.size() > most) {
    const auto end = terms.begin() + static_cast<std::ptrdiff_t>(std::min(terms.size(), at_once));
    const Value total = sum(std::vector<Value>(terms.begin(), end));
    terms.insert(terms.erase(terms.begin(), end), total);
  }
}

}  // namespace dtrain::exec
