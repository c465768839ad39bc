#include "exec/parameter_store.h"

#include <algorithm>

#include "exec/contract.h"

namespace dtrain::exec {

namespace {

bool same(const std::vector<graph::ParameterInfo>& a, const std::vector<graph::ParameterInfo>& b) {
  if (a.size() != b.size()) return false;
  for (size_t i = 0; i < a.size(); i++) {
    if (a[i].name != b[i].name || a[i].shape != b[i].shape) return false;
  }
  return true;
}

std::optional<size_t> position(const std::vector<graph::ParameterInfo>& infos, graph::NodeId node, size_t argument) {
  for (size_t i = 0; i < infos.size(); i++) {
    if (std::ranges::count(infos[i].uses, graph::TensorUse{node, argument}) > 0) return i;
  }
  return std::nullopt;
}

}  // namespace

ParameterStore::ParameterStore(const graph::Shapes& shapes, Options::Purpose purpose, const FloatAllocator& allocate)
    : parameters_(shapes.parameters),
      statistics_(shapes.statistics),
      memory_(parameter_memory(shapes, purpose, allocate)) {}

std::optional<ParameterStore::Found> ParameterStore::find(graph::NodeId node, size_t argument) const {
  if (const auto i = position(parameters_, node, argument)) return Found{true, *i, &view().parameters[*i]};
  if (const auto i = position(statistics_, node, argument)) return Found{false, *i, &view().statistics[*i]};
  return std::nullopt;
}

bool ParameterStore::fits(const graph::Shapes& shapes) const {
  return same(parameters_, shapes.parameters) && same(statistics_, shapes.statistics);
}

}  // namespace dtrain::exec
