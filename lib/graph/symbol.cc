#include "graph/symbol.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <map>
#include <optional>
#include <string_view>

#include "base/overloaded.h"

namespace dtrain::graph {

namespace {

using Attributes = std::map<std::string, std::string>;  // MXNet sorts the keys

constexpr int kMxnetVersion = 10901;  // 1.9.1: the version whose rules the attributes follow

// MXNet's layout: a space after each comma, even at the end of a line, and two spaces of indentation per level.
std::string sequence(char open, char close, const std::vector<std::string>& items, bool multi_line, size_t indent) {
  if (items.empty()) return {open, close};
  if (!multi_line) return fmt::format("{}{}{}", open, fmt::join(items, ", "), close);
  const std::string outside(indent, ' '), inside = "\n" + outside + "  ";
  return fmt::format("{}{}{}\n{}{}", open, inside, fmt::join(items, ", " + inside), outside, close);
}

// Arrays of integers or entries stay on one line up to 10 items.
std::string array(const std::vector<std::string>& items, size_t indent) {
  return sequence('[', ']', items, items.size() > 10, indent);
}

std::string quoted(std::string_view text) {
  std::string result = "\"";
  for (const char c : text) {
    switch (c) {
      case '"': result += "\\\""; break;
      case '\\': result += "\\\\"; break;
      case '\n': result += "\\n"; break;
      case '\r': result += "\\r"; break;
      case '\t': result += "\\t"; break;
      default: result += c;
    }
  }
  return result + '"';
}

std::string pair(std::string_view key, const std::string& json) {
  return fmt::format("{}: {}", quoted(key), json);
}

std::string boolean(bool value) {
  return value ? "True" : "False";
}
std::string size2(int64_t h, int64_t w) {
  return to_string(Shape{h, w});
}

const char* act_type(Activation::Kind kind) {
  switch (kind) {
    case Activation::Kind::kRelu: return "relu";
    case Activation::Kind::kTanh: return "tanh";
    case Activation::Kind::kSigmoid: return "sigmoid";
    case Activation::Kind::kSoftrelu: return "softrelu";
  }
  return "";
}

// MXNet's __init__ attribute: the name of its initializer and the arguments. Empty if MXNet has no equivalent.
std::string init(const InitializerSpec& spec) {
  static constexpr const char* kFactors[] = {"avg", "in", "out"};
  switch (spec.kind) {
    case InitializerSpec::Kind::kXavier:
      return fmt::format(R"(["xavier", {{"rnd_type": "{}", "factor_type": "{}", "magnitude": {}}}])",
                         spec.gaussian ? "gaussian" : "uniform", kFactors[static_cast<int>(spec.factor)],
                         spec.magnitude);
    case InitializerSpec::Kind::kUniform: return fmt::format(R"(["uniform", {{"scale": {}}}])", spec.magnitude);
    case InitializerSpec::Kind::kNormal: return fmt::format(R"(["normal", {{"sigma": {}}}])", spec.magnitude);
    case InitializerSpec::Kind::kConstant:
      if (spec.magnitude == 0) return R"(["zero", {}])";
      return fmt::format(R"(["constant", {{"value": {}}}])", spec.magnitude);
    case InitializerSpec::Kind::kDiagonal: break;
  }
  return "";
}

// The attributes of a variable. Statistics always state their initializer, even the usual one.
Attributes attributes_of(const Variable& variable, Argument::Role role) {
  Attributes attributes;
  if (role == Argument::Role::kMean) attributes["__init__"] = R"(["zero", {}])";
  if (role == Argument::Role::kVariance) attributes["__init__"] = R"(["one", {}])";
  const ParameterRule& rule = variable.rule;
  if (rule.learning_rate) attributes["__lr_mult__"] = fmt::format("{}", *rule.learning_rate);
  if (rule.weight_decay) attributes["__wd_mult__"] = fmt::format("{}", *rule.weight_decay);
  const std::string begin = rule.initial ? init(*rule.initial) : "";
  if (!begin.empty()) attributes["__init__"] = begin;
  return attributes;
}

// A node in MXNet's terms.
struct Operator {
  std::string name;
  Attributes attributes{};
  int64_t outputs = 1;
};

Operator convolution_operator(const Convolution& op) {
  Operator result{.name = "Convolution",
                  .attributes = {{"kernel", size2(op.kernel_h, op.kernel_w)},
                                 {"stride", size2(op.stride_h, op.stride_w)},
                                 {"pad", size2(op.pad_h, op.pad_w)},
                                 {"num_filter", std::to_string(op.filters)},
                                 {"no_bias", boolean(!op.bias)}}};
  if (op.groups != 1) result.attributes["num_group"] = std::to_string(op.groups);
  return result;
}

Operator fully_connected_operator(const FullyConnected& op) {
  Operator result{.name = "FullyConnected", .attributes = {{"num_hidden", std::to_string(op.outputs)}}};
  if (!op.bias) result.attributes["no_bias"] = "True";
  return result;
}

Operator batch_norm_operator(const BatchNorm& op) {
  return {.name = "BatchNorm",
          .attributes = {{"eps", fmt::format("{}", op.epsilon)},
                         {"momentum", fmt::format("{}", op.momentum)},
                         {"fix_gamma", boolean(op.fix_gamma)}},
          .outputs = 3};
}

Operator pooling_operator(const Pooling& op) {
  Operator result{.name = "Pooling",
                  .attributes = {{"kernel", size2(op.kernel_h, op.kernel_w)},
                                 {"stride", size2(op.stride_h, op.stride_w)},
                                 {"pad", size2(op.pad_h, op.pad_w)},
                                 {"pool_type", op.kind == Pooling::Kind::kMax ? "max" : "avg"},
                                 {"global_pool", boolean(op.global)}}};
  if (op.rounding != Pooling::Rounding::kValid) result.attributes["pooling_convention"] = "full";
  return result;
}

Operator add_operator(size_t inputs) {
  if (inputs == 2) return {.name = "elemwise_add"};
  return {.name = "add_n", .attributes = {{"num_args", std::to_string(inputs)}}};
}

Operator softmax_operator(const SoftmaxOutput& op) {
  Operator result{.name = "SoftmaxOutput"};
  if (op.smooth_alpha != 0) result.attributes["smooth_alpha"] = fmt::format("{}", op.smooth_alpha);
  return result;
}

Operator operator_of(const Node& node) {
  return std::visit(
      Overloaded{[](const Input&) { return Operator{.name = "null"}; },
                 [](const Convolution& op) { return convolution_operator(op); },
                 [](const FullyConnected& op) { return fully_connected_operator(op); },
                 [](const BatchNorm& op) { return batch_norm_operator(op); },
                 [](const Activation& op) {
                   return Operator{.name = "Activation", .attributes = {{"act_type", act_type(op.kind)}}};
                 },
                 [](const Pooling& op) { return pooling_operator(op); },
                 [&](const Concat&) {
                   return Operator{.name = "Concat",
                                   .attributes = {{"num_args", std::to_string(node.data_inputs.size())}, {"dim", "1"}}};
                 },
                 [&](const Add&) { return add_operator(node.data_inputs.size()); },
                 [](const Flatten&) { return Operator{.name = "Flatten"}; },
                 [](const Identity&) { return Operator{.name = "_copy"}; },
                 [](const Scale& op) {
                   return Operator{.name = "_mul_scalar", .attributes = {{"scalar", fmt::format("{}", op.factor)}}};
                 },
                 [](const SoftmaxOutput& op) { return softmax_operator(op); }},
      node.op);
}

// Collects the nodes of the file. There, variables are nodes too, without inputs and with the operator "null".
class Writer {
 public:
  explicit Writer(const Graph& graph) : graph_(graph) {}

  void add(NodeId id) {
    const Node& node = graph_.node(id);
    const TensorId output = graph_.tensor(Edge{id});
    Operator op = operator_of(node);
    if (op.name == "null") {
      index_[output] = append_variable(node.name, {});
      return;
    }
    const std::vector<Argument> arguments = arguments_of(node.op, node.data_inputs.size());
    std::vector<std::string> inputs;
    for (size_t i = 0; i < node.inputs.size(); i++) inputs.push_back(input(node.inputs[i], arguments[i].role));
    index_[output] = append(op.name, node.name, op.attributes, inputs, op.outputs);
  }

  std::string text() const {
    return sequence('{', '}',
                    {pair("nodes", sequence('[', ']', nodes_, true, 2)), pair("arg_nodes", array(arg_nodes_, 2)),
                     pair("node_row_ptr", array(row_ptr_, 2)), pair("heads", array(heads(), 2)),
                     pair("attrs", fmt::format("{{\"mxnet_version\": [\"int\", {}]}}", kMxnetVersion))},
                    true, 0);
  }

 private:
  std::vector<std::string> heads() const {
    std::vector<std::string> entries;
    for (const NodeId head : graph_.heads()) entries.push_back(entry(index_.at(graph_.tensor(Edge{head})), 0));
    return entries;
  }

  static std::string entry(size_t node, int version) { return fmt::format("[{}, 0, {}]", node, version); }

  // The entry of what a node reads. A variable is written before its first reader.
  std::string input(TensorId tensor, Argument::Role role) {
    const std::optional<VariableId> id = graph_.variable(tensor);
    if (!id) return entry(index_.at(tensor), 0);
    const Variable& variable = graph_.variables()[*id];
    if (!index_.contains(tensor)) index_[tensor] = append_variable(variable.name, attributes_of(variable, role));
    // Inputs that the operator modifies itself have version 1.
    return entry(index_[tensor], variable.role == Variable::Role::kStatistic ? 1 : 0);
  }

  size_t append_variable(const std::string& name, const Attributes& attributes) {
    arg_nodes_.push_back(std::to_string(nodes_.size()));
    return append("null", name, attributes, {}, 1);
  }

  size_t append(const std::string& op, const std::string& name, const Attributes& attributes,
                const std::vector<std::string>& inputs, int64_t outputs) {
    constexpr size_t kIndent = 4;  // indentation of a node's brace
    std::vector<std::string> items = {pair("op", quoted(op)), pair("name", quoted(name))};
    if (!attributes.empty()) {
      std::vector<std::string> pairs;
      for (const auto& [key, value] : attributes) pairs.push_back(pair(key, quoted(value)));
      items.push_back(pair("attrs", sequence('{', '}', pairs, pairs.size() > 1, kIndent + 2)));
    }
    items.push_back(pair("inputs", array(inputs, kIndent + 2)));
    nodes_.push_back(sequence('{', '}', items, true, kIndent));
    outputs_ += outputs;
    row_ptr_.push_back(std::to_string(outputs_));
    return nodes_.size() - 1;
  }

  const Graph& graph_;
  std::map<TensorId, size_t> index_;  // position in the file
  std::vector<std::string> nodes_, arg_nodes_, row_ptr_ = {"0"};
  int64_t outputs_ = 0;
};

}  // namespace

std::string symbol_json(const Graph& graph) {
  Writer writer(graph);
  for (const NodeId id : graph.canonical_order()) writer.add(id);
  return writer.text();
}

}  // namespace dtrain::graph
