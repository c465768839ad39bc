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

}  // namespace

ParameterStore::ParameterStore(const graph::Shapes& shapes, Options::Purpose purpose, const FloatAllocator& allocate)
    : parameters_(shapes.parameters),
      statistics_(shapes.statistics),
      memory_(parameter_memory(shapes, purpose, allocate)) {
  for (const auto* infos : {&parameters_, &statistics_}) {
    for (size_t i = 0; i < infos->size(); i++) {
      for (const graph::TensorUse& use : (*infos)[i].uses) {
        places_.push_back({use.node, use.argument, infos == &parameters_, i});
      }
    }
  }
  std::ranges::sort(places_, {}, &Place::key);
}

std::optional<ParameterStore::Found> ParameterStore::find(graph::NodeId node, size_t argument) const {
  const auto found = std::ranges::lower_bound(places_, std::pair{node, argument}, {}, &Place::key);
  if (found == places_.end() || found->key() != std::pair{node, argument}) return std::nullopt;
  const std::vector<ParameterSpan>& spans = found->learned ? view().parameters : view().statistics;
  return Found{found->learned, found->index, &spans[found->index]};
}

bool ParameterStore::fits(const graph::Shapes& shapes) const {
  return same(parameters_, shapes.parameters) && same(statistics_, shapes.statistics);
}

}  // namespace dtrain::exec
