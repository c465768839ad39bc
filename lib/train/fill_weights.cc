#include "train/fill_weights.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <variant>
#include <vector>

namespace dtrain::train {
namespace {

constexpr size_t kNamedMax = 20;  // maximum number of arrays of a kind that the error names

struct Differences {
  std::vector<std::string> missing, unknown, misshapen, doubled;
};

using ArraysByName = std::unordered_map<std::string_view, const NamedArray*>;
using Copies = std::vector<std::pair<const NamedArray*, const ParameterSpan*>>;

using Names = std::unordered_set<std::string_view>;

// The names of the graph's inputs that are fed with data and not learned.
Names fed_names(const graph::Graph& graph) {
  Names names;
  for (const graph::Variable& variable : graph.variables()) {
    using Role = graph::Variable::Role;
    if (variable.role == Role::kInput || variable.role == Role::kLabel) names.insert(variable.name);
  }
  return names;
}

void add(const std::vector<NamedArray>& arrays, const Names& fed, ArraysByName& by_name, Differences& differences) {
  for (const NamedArray& array : arrays) {
    if (fed.contains(array.name)) continue;
    if (!by_name.emplace(array.name, &array).second) differences.doubled.push_back(fmt::format("'{}'", array.name));
  }
}

// Finds the array of each span, and the arrays of the checkpoint that have no span. Moves the arrays that it finds out
// of `by_name`.
void match(ArraysByName& by_name, const std::vector<ParameterSpan>& spans, Copies& copies, Differences& differences) {
  for (const ParameterSpan& span : spans) {
    const auto found = by_name.find(span.name);
    if (found == by_name.end()) {
      differences.missing.push_back(fmt::format("'{}' {}", span.name, to_string(span.shape)));
      continue;
    }
    const NamedArray& array = *found->second;
    by_name.erase(found);
    if (array.shape == span.shape) {
      copies.emplace_back(&array, &span);
    } else {
      differences.misshapen.push_back(fmt::format("'{}' has the shape {}, but {} in the network", span.name,
                                                  to_string(array.shape), to_string(span.shape)));
    }
  }
  std::vector<std::string> left;
  for (const auto& [name, array] : by_name) left.push_back(fmt::format("'{}' {}", name, to_string(array->shape)));
  std::sort(left.begin(), left.end());
  differences.unknown.insert(differences.unknown.end(), left.begin(), left.end());
}

std::string listed(const std::vector<std::string>& names) {
  const size_t shown = std::min(names.size(), kNamedMax);
  std::string text = fmt::format("{}", fmt::join(std::span(names).first(shown), ", "));
  if (shown < names.size()) text += fmt::format(" and {} more", names.size() - shown);
  return text;
}

std::string text_of(const Differences& differences) {
  std::vector<std::string> parts;
  const auto part = [&](std::string_view what, const std::vector<std::string>& names) {
    if (!names.empty()) parts.push_back(fmt::format("{}: {}", what, listed(names)));
  };
  part("arrays that are missing in the file", differences.missing);
  part("arrays that are not in the network", differences.unknown);
  part("arrays with a different shape", differences.misshapen);
  part("arrays that the file has twice", differences.doubled);
  return fmt::format("{}", fmt::join(parts, "; "));
}

}  // namespace

Result<> fill_weights(const Checkpoint& checkpoint, const graph::Graph& graph, const ParameterView& view) {
  Differences differences;
  ArraysByName parameters;
  ArraysByName statistics;
  const Names fed = fed_names(graph);
  add(checkpoint.parameters, fed, parameters, differences);
  add(checkpoint.statistics, fed, statistics, differences);
  Names statistic_names;
  for (const ParameterSpan& span : view.statistics) statistic_names.insert(span.name);
  for (const NamedArray& array : checkpoint.without_prefix) {
    if (fed.contains(array.name)) continue;
    ArraysByName& by_name = statistic_names.contains(array.name) ? statistics : parameters;
    if (!by_name.emplace(array.name, &array).second) differences.doubled.push_back(fmt::format("'{}'", array.name));
  }
  Copies copies;
  match(parameters, view.parameters, copies, differences);
  match(statistics, view.statistics, copies, differences);
  const std::string text = text_of(differences);
  if (!text.empty()) return fail(Code::kData, "the file is not a checkpoint of this network; {}", text);
  for (const auto& [array, span] : copies) std::copy(array->values.begin(), array->values.end(), span->weight.begin());
  return {};
}

void set_fixed_gammas(const graph::Graph& graph, const ParameterView& view) {
  std::set<std::string> fixed;
  for (const graph::Node& node : graph.nodes()) {
    const auto* norm = std::get_if<graph::BatchNorm>(&node.op);
    if (norm == nullptr || !norm->fix_gamma) continue;
    const std::optional<graph::VariableId> gamma = graph.variable(node.inputs[graph::BatchNorm::kGamma]);
    if (gamma) fixed.insert(graph.variables()[*gamma].name);
  }
  for (const ParameterSpan& parameter : view.parameters) {
    if (fixed.contains(parameter.name)) std::fill(parameter.weight.begin(), parameter.weight.end(), 1.0F);
  }
}

}  // namespace dtrain::train
