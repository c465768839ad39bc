#include "graph/fine_tune.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <optional>
#include <set>
#include <system_error>

#include "base/nearest.h"
#include "graph/copy.h"

namespace dtrain::graph {
namespace {

std::vector<std::string> node_names(const Graph& graph) {
  std::vector<std::string> names;
  for (const NodeId id : graph.canonical_order()) names.push_back(graph.node(id).name);
  return names;
}

std::optional<NodeId> find_node(const Graph& graph, std::string_view name) {
  for (const NodeId id : graph.canonical_order()) {
    if (graph.node(id).name == name) return id;
  }
  return std::nullopt;
}

// The node whose output the last FullyConnected reads.
std::optional<NodeId> before_last_layer(const Graph& graph) {
  std::optional<NodeId> found;
  for (const NodeId id : graph.canonical_order()) {
    const Node& node = graph.node(id);
    if (std::holds_alternative<FullyConnected>(node.op)) found = node.data_inputs.front();
  }
  return found;
}

std::string suggestion(std::string_view name, const std::vector<std::string>& names) {
  const std::optional<std::string> near = nearest(name, names);
  return near ? fmt::format("; did you mean '{}'?", *near) : "";
}

Result<NodeId> last_kept_node(const Graph& graph, const std::string& layer) {
  const bool chooses = layer == "auto";
  const std::optional<NodeId> found = chooses ? before_last_layer(graph) : find_node(graph, layer);
  if (found) return *found;
  if (chooses) {
    return fail(Code::kUsage,
                "the network has no fully connected layer to replace: name the layer before the new one "
                "with --layer-before-fullc");
  }
  const std::vector<std::string> names = node_names(graph);
  return fail(Code::kUsage, "--layer-before-fullc {}: the network has no such layer{}", layer,
              suggestion(layer, names));
}

// The learned tensors whose names match the pattern.
std::vector<VariableId> named_by(const std::string& pattern, const Graph& graph) {
  std::set<VariableId> found;
  for (const NodeId id : graph.canonical_order()) {
    const Node& node = graph.node(id);
    for (const TensorId input : node.inputs) {
      const std::optional<VariableId> variable = graph.variable(input);
      if (!variable || graph.variables()[*variable].role != Variable::Role::kLearned) continue;
      if (fits(pattern, node.name) || fits(pattern, graph.variables()[*variable].name)) found.insert(*variable);
    }
  }
  return {found.begin(), found.end()};
}

Result<std::vector<VariableId>> found_by(const std::string& pattern, const Graph& graph) {
  std::vector<VariableId> found = named_by(pattern, graph);
  if (!found.empty()) return found;
  std::vector<std::string> names;
  for (const NodeId id : graph.canonical_order()) {
    if (!named_by(graph.node(id).name, graph).empty()) names.push_back(graph.node(id).name);
  }
  constexpr size_t kShown = 10;
  const size_t shown = std::min(kShown, names.size());
  return fail(Code::kUsage, "--lr-mult {}: no layer with trainable parameters has this name{} (such layers are {}{})",
              pattern, suggestion(pattern, names),
              fmt::join(names.begin(), names.begin() + static_cast<long>(shown), ", "),
              shown < names.size() ? ", ..." : "");
}

struct Rate {
  std::string pattern;
  double multiplier = -1;
};

Result<Rate> parse_rate(const std::string& rule) {
  const size_t equals = rule.rfind('=');
  Rate rate{.pattern = rule.substr(0, equals)};
  const char* const end = rule.data() + rule.size();
  const auto parsed = equals == std::string::npos ? std::from_chars_result{nullptr, std::errc::invalid_argument}
                                                  : std::from_chars(rule.data() + equals + 1, end, rate.multiplier);
  const bool good =
      equals != 0 && parsed.ec == std::errc() && parsed.ptr == end && rate.multiplier >= 0 && rate.multiplier <= 1e6;
  if (good) return rate;
  return fail(Code::kUsage, "--lr-mult {}: must have the form PATTERN=X with X from 0 to 1e6", rule);
}

}  // namespace

bool fits(std::string_view pattern, std::string_view name) {
  // `star`: the position in the pattern after the last *. `from`: the end of the part of the name that this * matches.
  size_t p = 0, n = 0, star = std::string_view::npos, from = 0;
  while (n < name.size()) {
    if (p < pattern.size() && pattern[p] == '*') {
      star = ++p;
      from = n;
    } else if (p < pattern.size() && (pattern[p] == '?' || pattern[p] == name[n])) {
      p++;
      n++;
    } else if (star != std::string_view::npos) {
      p = star;
      n = ++from;
    } else {
      return false;
    }
  }
  return pattern.find_first_not_of('*', p) == std::string_view::npos;
}

std::vector<std::string> new_head_parameters() {
  return {fmt::format("{}_weight", kNewLayer), fmt::format("{}_bias", kNewLayer)};
}

Result<Graph> with_new_head(const Graph& graph, const std::string& layer, int64_t classes) {
  DT_TRY(const NodeId last, last_kept_node(graph, layer));
  Copy copy(graph);
  const NodeId kept = copy.up_to(last);
  Graph tuned = copy.take();
  for (const Node& node : tuned.nodes()) {
    if (node.name != kNewLayer && node.name != kNewLoss) continue;
    return fail(Code::kUsage,
                "--layer-before-fullc {}: the part of the network to keep has a layer '{}', but fine-tuning adds a "
                "layer with this name",
                layer, node.name);
  }
  tuned.add(kNewLoss, SoftmaxOutput{}, {tuned.add(kNewLayer, FullyConnected{.outputs = classes}, {kept})});
  return tuned;
}

Result<> apply_rates(const std::vector<std::string>& rules, Graph& graph) {
  for (const std::string& rule : rules) {
    DT_TRY(const Rate rate, parse_rate(rule));
    DT_TRY(const std::vector<VariableId> found, found_by(rate.pattern, graph));
    for (const VariableId id : found) graph.set_job_rate(id, rate.multiplier);
  }
  const auto learns = [](const Variable& v) { return v.role == Variable::Role::kLearned && !v.is_frozen(); };
  if (std::ranges::any_of(graph.variables(), learns)) return {};
  return fail(Code::kUsage, "--lr-mult {}: all parameters of the network are frozen, so there is nothing to train",
              fmt::join(rules, ","));
}

}  // namespace dtrain::graph
