#include "graph/graph.h"

#include <fmt/core.h>

#include <initializer_list>
#include <utility>

#include "base/overloaded.h"

namespace dtrain::graph {

std::string_view op_name(const Op& op) {
  return std::visit([](const auto& one) { return one.kNames.own; }, op);
}

namespace {

using Role = Argument::Role;

std::vector<Argument> tensors_and(size_t tensors, std::initializer_list<Argument> others) {
  std::vector<Argument> arguments(tensors);
  arguments.insert(arguments.end(), others.begin(), others.end());
  return arguments;
}

std::vector<Argument> weight_and_bias(size_t tensors, bool bias) {
  if (!bias) return tensors_and(tensors, {{Role::kWeight, "weight"}});
  return tensors_and(tensors, {{Role::kWeight, "weight"}, {Role::kBias, "bias"}});
}

Variable variable_for(const std::string& node, const Argument& argument) {
  using Is = Variable::Role;
  const std::string name = *argument.name == '\0' ? node : fmt::format("{}_{}", node, argument.name);
  switch (argument.role) {
    case Role::kTensor: break;
    case Role::kImages: return {.name = name, .role = Is::kInput};
    case Role::kLabel: return {.name = name, .role = Is::kLabel};
    case Role::kWeight: return {.name = name, .role = Is::kLearned, .kind = ParameterKind::kWeight};
    case Role::kBias: return {.name = name, .role = Is::kLearned, .kind = ParameterKind::kBias};
    case Role::kGamma: return {.name = name, .role = Is::kLearned, .kind = ParameterKind::kGamma};
    case Role::kBeta: return {.name = name, .role = Is::kLearned, .kind = ParameterKind::kBeta};
    case Role::kMean:
    case Role::kVariance: return {.name = name, .role = Is::kStatistic};
  }
  throw CheckFailed(fmt::format("node '{}' lacks an input", node));
}

}  // namespace

std::vector<Argument> arguments_of(const Op& op, size_t tensors) {
  const auto plain = [&] { return tensors_and(tensors, {}); };
  return std::visit(
      Overloaded{[&](const Input&) {
                   return tensors_and(tensors, {{Role::kImages, ""}});
                 },
                 [&](const Convolution& o) { return weight_and_bias(tensors, o.bias); },
                 [&](const FullyConnected& o) { return weight_and_bias(tensors, o.bias); },
                 [&](const BatchNorm&) {
                   return tensors_and(tensors, {{Role::kGamma, "gamma"},
                                                {Role::kBeta, "beta"},
                                                {Role::kMean, "moving_mean"},
                                                {Role::kVariance, "moving_var"}});
                 },
                 [&](const SoftmaxOutput&) {
                   return tensors_and(tensors, {{Role::kLabel, "label"}});
                 },
                 [&](const Activation&) { return plain(); }, [&](const Pooling&) { return plain(); },
                 [&](const Concat&) { return plain(); }, [&](const Add&) { return plain(); },
                 [&](const Flatten&) { return plain(); }, [&](const Identity&) { return plain(); },
                 [&](const Scale&) { return plain(); }, [&](const LocalResponseNorm&) { return plain(); },
                 [&](const Dropout&) { return plain(); }, [&](const SpatialTransformer&) { return plain(); }},
      op);
}

std::vector<VariableId> Graph::variables(Variable::Role role) const {
  std::vector<VariableId> found;
  for (VariableId id = 0; id < variables_.size(); id++) {
    if (variables_[id].role == role) found.push_back(id);
  }
  return found;
}

bool is_loss(const Op& op) {
  return std::holds_alternative<SoftmaxOutput>(op);
}

TensorId Graph::add_variable(Variable variable) {
  DT_CHECK(!variable.name.empty(), "a variable has no name");
  DT_CHECK(variable_names_.insert(variable.name).second, "two variables are called '{}'", variable.name);
  tensors_.emplace_back(std::in_place_index<0>, variables_.size());
  variables_.push_back(std::move(variable));
  return {static_cast<uint32_t>(tensors_.size() - 1)};
}

NodeId Graph::add(std::string name, Op op, const std::vector<NodeId>& inputs, int context_group) {
  std::vector<TensorId> given;
  for (const NodeId input : inputs) {
    DT_CHECK(input < nodes_.size(), "node '{}' reads node {} of {}", name, input, nodes_.size());
    given.push_back(first_output_[input]);
  }
  return add_reader(std::move(name), op, std::move(given), context_group);
}

NodeId Graph::add_reader(std::string name, Op op, std::vector<TensorId> given, int context_group) {
  DT_CHECK(!name.empty(), "a node of operator {} has no name", op_name(op));
  DT_CHECK(!node_names_.contains(name), "two nodes are called '{}'", name);
  std::vector<NodeId> computed;
  for (const TensorId tensor : given) {
    const std::optional<Edge> from = edge(tensor);
    if (!from) break;
    computed.push_back(from->node);
  }
  const std::vector<Argument> arguments = arguments_of(op, computed.size());
  DT_CHECK(given.size() <= arguments.size(), "node '{}' reads {} tensors, but {} takes {}", name, given.size(),
           op_name(op), arguments.size());
  for (size_t i = computed.size(); i < given.size(); i++) check_given(name, arguments[i], given[i]);
  for (size_t i = given.size(); i < arguments.size(); i++) {
    given.push_back(add_variable(variable_for(name, arguments[i])));
  }
  node_names_.insert(name);
  first_output_.push_back({static_cast<uint32_t>(tensors_.size())});
  tensors_.emplace_back(std::in_place_index<1>, Edge{nodes_.size(), 0});
  nodes_.push_back({.name = std::move(name),
                    .op = op,
                    .inputs = std::move(given),
                    .data_inputs = std::move(computed),
                    .context_group = context_group});
  return nodes_.size() - 1;
}

void Graph::check_given(const std::string& node, const Argument& argument, TensorId tensor) const {
  const std::optional<VariableId> id = variable(tensor);
  DT_CHECK(id, "the {} of node '{}' is computed by another node", argument.name, node);
  const Variable& given = variables_[*id];
  DT_CHECK(given.role == variable_for(node, argument).role, "'{}' cannot be the {} of node '{}'", given.name,
           argument.name, node);
}

void Graph::add_head(NodeId node) {
  DT_CHECK(node < nodes_.size(), "the head is node {}, but the graph has {} nodes", node, nodes_.size());
  heads_.push_back(node);
}

std::vector<NodeId> Graph::heads() const {
  if (!heads_.empty()) return heads_;
  return {nodes_.size() - 1};
}

void Graph::set_rule(NodeId node, size_t argument, const ParameterRule& rule) {
  const std::optional<VariableId> id = variable(nodes_.at(node).inputs.at(argument));
  DT_CHECK(id, "argument {} of node '{}' is not a variable", argument, nodes_[node].name);
  variables_[*id].rule = rule;
}

std::optional<VariableId> Graph::variable(TensorId tensor) const {
  const VariableId* id = std::get_if<0>(&tensors_.at(tensor.index));
  return id == nullptr ? std::nullopt : std::optional(*id);
}

std::optional<Edge> Graph::edge(TensorId tensor) const {
  const Edge* edge = std::get_if<1>(&tensors_.at(tensor.index));
  return edge == nullptr ? std::nullopt : std::optional(*edge);
}

std::vector<NodeId> Graph::canonical_order() const {
  std::vector<NodeId> order;
  if (nodes_.empty()) return order;
  // The depth-first walk has an explicit stack, because for a graph of a thousand layers the recursion would be deep.
  struct Visit {
    NodeId node;
    size_t next_input;
  };
  std::vector<bool> seen(nodes_.size(), false);
  std::vector<Visit> path;
  const auto enter = [&](NodeId node) {
    if (!seen[node]) path.push_back({node, 0});
    seen[node] = true;
  };
  for (const NodeId head : heads()) {
    enter(head);
    while (!path.empty()) {
      Visit& visit = path.back();
      const std::vector<NodeId>& inputs = nodes_[visit.node].data_inputs;
      if (visit.next_input < inputs.size()) {
        enter(inputs[visit.next_input++]);
      } else {
        order.push_back(visit.node);
        path.pop_back();
      }
    }
  }
  return order;
}

}  // namespace dtrain::graph
