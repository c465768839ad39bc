#include "role/setup/drawn_network.h"

#include <algorithm>
#include <cctype>
#include <map>
#include <set>

#include "graph/symbol/operators.h"
#include "tensor/shape.h"

namespace dtrain::role {
namespace {

using observe::GraphNode;

bool is_letter(char c) {
  return std::isalpha(static_cast<unsigned char>(c)) != 0;
}
bool is_digit(char c) {
  return std::isdigit(static_cast<unsigned char>(c)) != 0;
}

// "stage1", "unit12", "g0".
bool is_unit(std::string_view word) {
  const auto* const digits = std::ranges::find_if_not(word, is_letter);
  return digits != word.begin() && digits != word.end() && std::all_of(digits, word.end(), is_digit);
}

std::vector<int64_t> with_batch(const Shape& shape) {
  std::vector<int64_t> all = {-1};
  all.insert(all.end(), shape.begin(), shape.end());
  return all;
}

const char* op_of(graph::Variable::Role role) {
  switch (role) {
    case graph::Variable::Role::kInput: return "Input";
    case graph::Variable::Role::kLabel: return "Label";
    case graph::Variable::Role::kLearned: return "Parameter";
    case graph::Variable::Role::kStatistic: return "Statistic";
  }
  return "";
}

class Drawing {
 public:
  Drawing(const Network& network, const std::string& device) : network_(network), device_(device) {}

  void add(graph::NodeId id) {
    const graph::Node& node = network_.graph.node(id);
    GraphNode drawn{.name = unique(group_of(node) + drawn_name(node.name)),
                    .op = std::string(graph::op_name(node.op)),
                    .device = device_};
    drawn.shape = with_batch(network_.shapes.output[id]);
    for (const auto& [key, text] : graph::attributes_of(node.op, node.inputs.size())) {
      drawn.attributes.emplace_back(key, text);
    }
    for (const graph::TensorId tensor : node.inputs) {
      if (const auto edge = network_.graph.edge(tensor)) drawn.inputs.push_back(nodes_.at(edge->node));
      if (const auto variable = network_.graph.variable(tensor))
        drawn.inputs.push_back(name_of(*variable, node, drawn));
    }
    // The node of an input is the variable that it reads.
    if (std::holds_alternative<graph::Input>(node.op)) drawn.inputs.clear();
    nodes_[id] = drawn.name;
    all_.push_back(std::move(drawn));
  }

  std::vector<GraphNode> finish() { return std::move(all_); }

 private:
  // Of a node without a name of its own; empty for others. Ends with a slash.
  std::string group_of(const graph::Node& node) const {
    if (!node.name.starts_with('_') || node.data_inputs.empty()) return {};
    const std::string& input = nodes_.at(node.data_inputs.front());
    return input.substr(0, input.rfind('/') + 1);
  }

  std::string unique(std::string name) {
    while (!names_.insert(name).second) name += "_";
    return name;
  }

  // Draws the variable if this node is the first one that reads it: "conv1_weight" within the node "conv1".
  std::string name_of(graph::VariableId id, const graph::Node& reader, const GraphNode& drawn) {
    const graph::Variable& variable = network_.graph.variables()[id];
    if (variable.role == graph::Variable::Role::kInput) return "";
    if (const auto known = variables_.find(id); known != variables_.end()) return known->second;
    const bool is_own = variable.name.starts_with(reader.name + "_");
    const std::string name =
        is_own ? drawn.name + "/" + variable.name.substr(reader.name.size() + 1) : drawn_name(variable.name);
    GraphNode out{.name = unique(name), .op = op_of(variable.role), .device = device_};
    if (const size_t place = network_.shapes.position[id]; place != graph::Shapes::kNowhere) {
      const auto& all =
          variable.role == graph::Variable::Role::kStatistic ? network_.shapes.statistics : network_.shapes.parameters;
      out.shape = all[place].shape;
    }
    variables_[id] = out.name;
    all_.push_back(std::move(out));
    return variables_[id];
  }

  const Network& network_;
  const std::string& device_;
  std::vector<GraphNode> all_;
  std::set<std::string> names_;
  std::map<graph::NodeId, std::string> nodes_;
  std::map<graph::VariableId, std::string> variables_;
};

}  // namespace

std::string drawn_name(std::string_view name) {
  std::string drawn;
  for (;;) {
    const size_t end = name.find('_');
    const bool has_more = end != std::string_view::npos && end + 1 < name.size() && is_letter(name[end + 1]);
    if (!has_more || !is_unit(name.substr(0, end))) break;
    drawn.append(name.substr(0, end)).push_back('/');
    name.remove_prefix(end + 1);
  }
  drawn += name;
  std::ranges::replace_if(
      drawn, [](char c) { return !is_letter(c) && !is_digit(c) && c != '_' && c != '.' && c != '-' && c != '/'; }, '_');
  return drawn;
}

std::vector<observe::GraphNode> drawn_network(const Network& network, const std::string& device) {
  Drawing drawing(network, device);
  for (const graph::NodeId id : network.graph.canonical_order()) drawing.add(id);
  return drawing.finish();
}

}  // namespace dtrain::role
