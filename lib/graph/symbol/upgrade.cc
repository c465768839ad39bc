#include "graph/symbol/upgrade.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "graph/symbol/operators.h"

namespace dtrain::graph {

namespace {

constexpr int64_t kStatisticsListed = 900, kStatisticsInitialized = 904;
constexpr std::array<std::string_view, 5> kPlainNames = {"ctx_group", "lr_mult", "wd_mult", "force_mirroring",
                                                         "mirror_stage"};

// The name in kPlainNames that the key equals or, after a "_", ends with; empty if there is none.
std::string_view plain_name(std::string_view key) {
  for (const std::string_view name : kPlainNames) {
    if (key == name ||
        (key.ends_with(name) && key.size() > name.size() + 1 && key[key.size() - name.size() - 1] == '_')) {
      return name;
    }
  }
  return {};
}

// Rewrites the nodes in order. Added nodes are placed right before the nodes that read them, so that the order of the
// file remains that of a depth-first walk.
class Upgrade {
 public:
  explicit Upgrade(SymbolFile file) : old_(std::move(file)) {}

  SymbolFile run() {
    new_.nodes.reserve(old_.nodes.size());
    new_.version = kMxnetVersion;
    new_.is_from_before_0_9 = old_.is_from_before_0_9;
    new_.numpy_shapes = old_.numpy_shapes;
    for (FileNode& node : old_.nodes) {
      for (FileEntry& input : node.inputs) input.node = moved_to_[input.node];
      upgrade(node);
      moved_to_.push_back(static_cast<uint32_t>(new_.nodes.size()));
      new_.nodes.push_back(std::move(node));
    }
    for (FileEntry head : old_.heads) {
      head.node = moved_to_[head.node];
      new_.heads.push_back(head);
    }
    return std::move(new_);
  }

 private:
  void upgrade(FileNode& node) {
    node.op = written_name(node.op);
    if (old_.version >= kMxnetVersion) return;
    std::vector<Attributes::Attribute> hidden = take_plain_names(node);
    const std::vector<Argument> arguments = arguments_of(node);
    for (auto& [key, value] : hidden) place(node, arguments, key, std::move(value));
    if (old_.version < kStatisticsListed) add_statistics(node, arguments);
    if (old_.version < kStatisticsInitialized) initialize_statistics(node, arguments);
  }

  static std::vector<Attributes::Attribute> take_plain_names(FileNode& node) {
    std::vector<Attributes::Attribute> taken;
    node.attributes.remove_if([&](Attributes::Attribute& attribute) {
      const bool is_plain = !plain_name(attribute.first).empty();
      if (is_plain) taken.push_back(std::move(attribute));
      return is_plain;
    });
    return taken;
  }

  // The arguments of the node. Empty for variables, and for operators that dtrain does not support.
  static std::vector<Argument> arguments_of(const FileNode& node) {
    if (is_variable(node)) return {};
    const Result<Op> op = read_operator(node.op, node.attributes, node.inputs.size());
    return op ? file_arguments(*op, node.inputs.size()) : std::vector<Argument>();
  }

  void place(FileNode& node, const std::vector<Argument>& arguments, const std::string& key, std::string value) {
    const std::string_view name = plain_name(key);
    const std::string hidden = fmt::format("__{}__", name);
    if (key == name) {
      node.attributes[hidden] = std::move(value);
      return;
    }
    const std::string_view argument = std::string_view(key).substr(0, key.size() - name.size() - 1);
    for (size_t i = 0; i < std::min(arguments.size(), node.inputs.size()); i++) {
      FileNode& input = new_.nodes[node.inputs[i].node];
      if (arguments[i].name != argument || !is_variable(input)) continue;
      input.attributes[hidden] = std::move(value);
      return;
    }
    node.attributes[key] = std::move(value);
  }

  static bool is_statistic(const Argument& argument) {
    return argument.role == Argument::Role::kMean || argument.role == Argument::Role::kVariance;
  }

  void add_statistics(FileNode& node, const std::vector<Argument>& arguments) {
    for (size_t i = node.inputs.size(); i < arguments.size() && is_statistic(arguments[i]); i++) {
      node.inputs.push_back({.node = static_cast<uint32_t>(new_.nodes.size())});
      new_.nodes.push_back(
          {.op = "null", .name = fmt::format("{}_{}", node.name, arguments[i].name), .attributes = node.attributes});
    }
  }

  void initialize_statistics(FileNode& node, const std::vector<Argument>& arguments) {
    for (size_t i = 0; i < std::min(arguments.size(), node.inputs.size()); i++) {
      FileNode& input = new_.nodes[node.inputs[i].node];
      if (!is_statistic(arguments[i]) || !is_variable(input)) continue;
      const bool is_mean = arguments[i].role == Argument::Role::kMean;
      input.attributes.try_emplace("__init__", is_mean ? R"(["zero", {}])" : R"(["one", {}])");
    }
  }

  SymbolFile old_, new_;
  std::vector<uint32_t> moved_to_;  // maps old indices to new ones
};

}  // namespace

SymbolFile upgraded(SymbolFile file) {
  return Upgrade(std::move(file)).run();
}

}  // namespace dtrain::graph
