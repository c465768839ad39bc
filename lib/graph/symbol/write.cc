#include "graph/symbol/write.h"

#include <fmt/core.h>

#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "graph/symbol/initializer_text.h"
#include "graph/symbol/operators.h"

namespace dtrain::graph {

namespace {

using Is = Variable::Role;

// Writes the nodes of the file in the order of a depth-first walk from the heads. In the file, variables are nodes too,
// without inputs and with the operator "null".
class Writer {
 public:
  explicit Writer(const Graph& graph) : graph_(graph), readers_(graph.tensor_count(), 0) {
    for (const Node& node : graph.nodes()) {
      for (const TensorId input : node.inputs) readers_[input.index]++;
    }
  }

  SymbolFile run() {
    file_.version = kMxnetVersion;
    for (const NodeId id : graph_.canonical_order()) add(id);
    for (const NodeId head : graph_.heads()) file_.heads.push_back({.node = index_.at(graph_.tensor(Edge{head}))});
    return std::move(file_);
  }

 private:
  void add(NodeId id) {
    const Node& node = graph_.node(id);
    const TensorId output = graph_.tensor(Edge{id});
    if (std::holds_alternative<Input>(node.op)) {
      const Variable& data = graph_.variables()[*graph_.variable(node.inputs[0])];
      index_[output] = append({.op = "null", .name = data.name, .attributes = data.attributes.value_or(Attributes())});
      return;
    }
    const size_t tensors = node.data_inputs.size();
    FileNode written{
        .op = node.spelling.op.empty() ? std::string(usual_name(node.op, tensors)) : node.spelling.op,
        .name = node.spelling.name.empty() ? node.name : node.spelling.name,
        .attributes = node.spelling.attributes ? *node.spelling.attributes : attributes_of(node.op, tensors)};
    const std::vector<Argument> arguments = arguments_of(node.op, tensors);
    for (size_t i = 0; i < node.inputs.size(); i++) {
      const TensorId tensor = node.inputs[i];
      if (!index_.contains(tensor)) index_[tensor] = append(variable_node(tensor, arguments[i].role, written));
      const std::optional<VariableId> variable = graph_.variable(tensor);
      const bool is_statistic = variable && graph_.variables()[*variable].role == Is::kStatistic;
      written.inputs.push_back({.node = index_[tensor], .version = is_statistic ? node.spelling.statistic_version : 0});
    }
    index_[output] = append(std::move(written));
  }

  // A variable that belongs to one node has that node's attributes, as in MXNet's files. Statistics state their initial
  // value, even if it is the usual one.
  FileNode variable_node(TensorId tensor, Argument::Role argument, const FileNode& reader) const {
    const Variable& variable = graph_.variables()[*graph_.variable(tensor)];
    FileNode node{.op = "null", .name = variable.name};
    if (variable.attributes) {
      node.attributes = *variable.attributes;
      return node;
    }
    if (readers_[tensor.index] == 1) node.attributes = reader.attributes;
    if (argument == Argument::Role::kMean) node.attributes["__init__"] = R"(["zero", {}])";
    if (argument == Argument::Role::kVariance) node.attributes["__init__"] = R"(["one", {}])";
    const ParameterRule& rule = variable.rule;
    if (rule.learning_rate) node.attributes["__lr_mult__"] = fmt::format("{}", *rule.learning_rate);
    if (rule.weight_decay) node.attributes["__wd_mult__"] = fmt::format("{}", *rule.weight_decay);
    const std::string initial = rule.initial ? initializer_text(*rule.initial) : "";
    if (!initial.empty()) node.attributes["__init__"] = initial;
    return node;
  }

  uint32_t append(FileNode node) {
    file_.nodes.push_back(std::move(node));
    return static_cast<uint32_t>(file_.nodes.size() - 1);
  }

  const Graph& graph_;
  std::vector<size_t> readers_;         // for each tensor: how often it is read by nodes
  std::map<TensorId, uint32_t> index_;  // index of each tensor's node in the file
  SymbolFile file_;
};

}  // namespace

SymbolFile symbol_of(const Graph& graph) {
  return Writer(graph).run();
}

std::string symbol_text(const Graph& graph) {
  return text(symbol_of(graph));
}

}  // namespace dtrain::graph
