#include "graph/symbol/read.h"

#include <fmt/core.h>

#include <algorithm>
#include <map>
#include <string_view>
#include <unordered_set>
#include <utility>
#include <vector>

#include "base/printable.h"
#include "graph/symbol/attribute_reader.h"
#include "graph/symbol/initializer_text.h"
#include "graph/symbol/operators.h"
#include "graph/symbol/parse.h"
#include "graph/symbol/upgrade.h"

namespace dtrain::graph {

namespace {

using Is = Variable::Role;
using Role = Argument::Role;

const std::string* find(const Attributes& attributes, std::string_view key) {
  const auto found = attributes.find(key);
  return found == attributes.end() ? nullptr : &found->second;
}

Result<std::optional<double>> multiplier(const FileNode& node, const char* key) {
  const std::string* text = find(node.attributes, key);
  if (text == nullptr) return std::nullopt;
  const std::optional<double> value = real_number(*text);
  if (value) return value;
  return fail(Code::kData, "'{}' of '{}' is '{}', which is not a number", key, printable(node.name), printable(*text));
}

Result<ParameterRule> rule_of(const FileNode& node) {
  ParameterRule rule;
  DT_TRY(rule.learning_rate, multiplier(node, "__lr_mult__"));
  DT_TRY(rule.weight_decay, multiplier(node, "__wd_mult__"));
  const std::string* initial = find(node.attributes, "__init__");
  if (initial == nullptr) return rule;
  DT_TRY(rule.initial, read_initializer(*initial), "reading '{}'", printable(node.name));
  return rule;
}

Is role_for(Role argument) {
  switch (argument) {
    case Role::kTensor:
    case Role::kImages: return Is::kInput;
    case Role::kLabel: return Is::kLabel;
    case Role::kMean:
    case Role::kVariance: return Is::kStatistic;
    case Role::kWeight:
    case Role::kBias:
    case Role::kGamma:
    case Role::kBeta: return Is::kLearned;
  }
  throw CheckFailed("the role of an argument is out of range");
}

ParameterKind kind_for(Role argument) {
  switch (argument) {
    case Role::kWeight: return ParameterKind::kWeight;
    case Role::kBias: return ParameterKind::kBias;
    case Role::kGamma: return ParameterKind::kGamma;
    case Role::kBeta: return ParameterKind::kBeta;
    case Role::kTensor:
    case Role::kImages:
    case Role::kLabel:
    case Role::kMean:
    case Role::kVariance: return ParameterKind::kOther;
  }
  throw CheckFailed("the role of an argument is out of range");
}

const char* name_of(Is role) {
  switch (role) {
    case Is::kInput: return "data";
    case Is::kLabel: return "a label";
    case Is::kLearned: return "a learned tensor";
    case Is::kStatistic: return "a statistic";
  }
  return "";
}

class Reader {
 public:
  explicit Reader(SymbolFile file) : file_(std::move(file)), tensors_(file_.nodes.size()) {}

  Result<Graph> run() {
    DT_TRY_VOID(check_names());
    for (size_t i = 0; i < file_.nodes.size(); i++) {
      const FileNode& node = file_.nodes[i];
      if (!is_variable(node)) DT_TRY_VOID(add(i), "node '{}' ({})", printable(node.name), printable(node.op));
    }
    for (const FileEntry& head : file_.heads) DT_TRY_VOID(add_head(head));
    return std::move(graph_);
  }

 private:
  // Checks that names of variables are unique, because they are the keys of stores and of arrays in checkpoints. Names
  // of operators need not be unique: files with repeated ones come from Caffe's converted models, and from Gluon
  // networks whose blocks share an activation.
  [[nodiscard]] Result<> check_names() {
    std::unordered_set<std::string_view> variables;
    for (const FileNode& node : file_.nodes) {
      names_.insert(node.name);
      if (!is_variable(node) || variables.insert(node.name).second) continue;
      return fail(Code::kData, "two variables are called '{}'", printable(node.name));
    }
    return {};
  }

  // The name of a new node: the name in the file or, if another node has taken it, a name that no node of the file has.
  std::string free_name(const std::string& name) {
    std::string chosen = name;
    for (int number = 2; taken_.contains(chosen) || (number > 2 && names_.contains(chosen)); number++) {
      chosen = fmt::format("{}_{}", name, number);
    }
    taken_.insert(chosen);
    return chosen;
  }

  Result<> add(size_t index) {
    FileNode& node = file_.nodes[index];
    DT_TRY(Op op, read_operator(node.op, node.attributes, node.inputs.size()));
    const std::vector<Argument> arguments = file_arguments(op, node.inputs.size());
    if (node.inputs.size() != arguments.size()) {
      return fail(Code::kData, "the node has {} inputs, but the operator takes {}", node.inputs.size(),
                  arguments.size());
    }
    std::vector<TensorId> given;
    for (size_t i = 0; i < arguments.size(); i++) {
      DT_TRY(const TensorId tensor, input(node.inputs[i], arguments[i]));
      given.push_back(tensor);
    }
    std::string name = free_name(node.name);
    Spelling spelling{.op = node.op == usual_name(op, given.size()) ? "" : node.op,
                      .name = name == node.name ? "" : node.name,
                      .attributes = {},
                      .statistic_version = statistic_version(node, arguments)};
    const int group = context_group(node);
    spelling.attributes = std::move(node.attributes);
    if (auto* pooling = std::get_if<Pooling>(&op)) keep_old_rounding(*pooling, spelling);
    const NodeId id = graph_.add_reader(std::move(name), op, std::move(given), group);
    graph_.set_spelling(id, std::move(spelling));
    tensors_[index] = graph_.tensor(Edge{id});
    return {};
  }

  // The tensor that an entry refers to. A variable becomes part of the graph with its first reader.
  Result<TensorId> input(const FileEntry& entry, const Argument& argument) {
    const FileNode& node = file_.nodes[entry.node];
    if (entry.output != 0) {
      return fail(Code::kUsage, "the node reads output {} of '{}', but dtrain's operators have only output 0",
                  entry.output, printable(node.name));
    }
    if (is_variable(node)) return variable(entry.node, argument);
    if (argument.role == Role::kTensor) return *tensors_[entry.node];
    return fail(Code::kUsage,
                "the node's {} is computed by the node '{}', but dtrain accepts only a variable as this input",
                argument.name, printable(node.name));
  }

  Result<TensorId> variable(size_t index, const Argument& argument) {
    const FileNode& node = file_.nodes[index];
    const Is role = role_for(argument.role);
    const ParameterKind kind = kind_for(argument.role);
    const auto found = uses_.find(index);
    if (found == uses_.end()) return new_variable(index, role, kind);
    const auto& [known_role, known_kind] = found->second;
    if (known_role == role && known_kind == kind) return *tensors_[index];
    if (known_role != role) {
      return fail(Code::kUsage, "the node reads '{}' as {}, but another node reads it as {}", printable(node.name),
                  name_of(role), name_of(known_role));
    }
    return fail(Code::kUsage,
                "the node reads '{}' as its {}, but another node reads it as a different kind of argument",
                printable(node.name), argument.name);
  }

  Result<TensorId> new_variable(size_t index, Is role, ParameterKind kind) {
    FileNode& node = file_.nodes[index];
    DT_TRY(const ParameterRule rule, rule_of(node));
    Variable variable{
        .name = node.name, .role = role, .kind = kind, .rule = rule, .attributes = std::move(node.attributes)};
    uses_[index] = {role, kind};
    TensorId tensor = graph_.add_variable(std::move(variable));
    if (role == Is::kInput) tensor = graph_.tensor(Edge{graph_.add_reader(free_name(node.name), Input{}, {tensor})});
    tensors_[index] = tensor;
    return tensor;
  }

  Result<> add_head(const FileEntry& head) {
    const FileNode& node = file_.nodes[head.node];
    if (is_variable(node) || head.output != 0) {
      return fail(Code::kUsage,
                  "the output of the network is {} of '{}', but dtrain accepts only output 0 of an operator",
                  is_variable(node) ? "the value" : fmt::format("output {}", head.output), printable(node.name));
    }
    graph_.add_head(graph_.edge(*tensors_[head.node])->node);
    return {};
  }

  // Files from before 0.9 do not state how pooling rounds; it rounds up, as in 0.7. The node must state this from now
  // on, because dtrain writes files in the form of 1.9.1, where the default is to round down.
  void keep_old_rounding(Pooling& op, Spelling& spelling) const {
    if (!file_.is_from_before_0_9 || op.global || spelling.attributes->contains("pooling_convention")) return;
    op.rounding = Pooling::Rounding::kV07;
    op.divisor = Pooling::Divisor::kKernel;
    (*spelling.attributes)["pooling_convention"] = "full";
  }

  static unsigned statistic_version(const FileNode& node, const std::vector<Argument>& arguments) {
    for (size_t i = 0; i < arguments.size(); i++) {
      if (role_for(arguments[i].role) == Is::kStatistic) return node.inputs[i].version;
    }
    return Spelling{}.statistic_version;
  }

  // The number of a node's device group. Groups are numbered in the order of the file. Nodes without a group are in
  // group 0, and so is the first group.
  int context_group(const FileNode& node) {
    const std::string* group = find(node.attributes, "__ctx_group__");
    if (group == nullptr) return 0;
    return groups_.try_emplace(*group, static_cast<int>(groups_.size())).first->second;
  }

  SymbolFile file_;                                // the graph takes over the attributes of these nodes
  std::unordered_set<std::string> names_, taken_;  // names of the file's nodes, and of the graph's nodes
  Graph graph_;
  std::vector<std::optional<TensorId>> tensors_;         // the tensor of each node of the file, indexed by node
  std::map<size_t, std::pair<Is, ParameterKind>> uses_;  // how each variable is used, indexed by node of the file
  std::map<std::string, int, std::less<>> groups_;
};

}  // namespace

Result<Graph> read_symbol(SymbolFile file) {
  return Reader(upgraded(std::move(file))).run();
}

std::optional<Shape> stated_image(const Graph& graph) {
  for (const Variable& variable : graph.variables()) {
    if (variable.role != Is::kInput || !variable.attributes) continue;
    const std::string* text = find(*variable.attributes, "__shape__");
    const std::optional<std::vector<int64_t>> shape = text == nullptr ? std::nullopt : dimensions(*text);
    if (!shape || shape->size() != 4 ||
        std::any_of(shape->begin() + 1, shape->end(), [](int64_t n) { return n < 1; })) {
      continue;
    }
    return Shape(shape->begin() + 1, shape->end());
  }
  return std::nullopt;
}

}  // namespace dtrain::graph
