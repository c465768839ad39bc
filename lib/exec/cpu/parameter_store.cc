#include "exec/cpu/parameter_store.h"

namespace dtrain::exec::cpu {

namespace {

constexpr size_t kFloatsPerLine = 16;

size_t stride_of(const graph::ParameterInfo& info) {
  const auto count = static_cast<size_t>(element_count(info.shape));
  return (count + kFloatsPerLine - 1) / kFloatsPerLine * kFloatsPerLine;
}

size_t total(const std::vector<graph::ParameterInfo>& infos) {
  size_t sum = 0;
  for (const auto& info : infos) sum += stride_of(info);
  return sum;
}

std::vector<ParameterSpan> spans(const std::vector<graph::ParameterInfo>& infos, Buffer<float>& values,
                                 Buffer<float>& gradients) {
  std::vector<ParameterSpan> result;
  size_t begin = 0;
  for (const auto& info : infos) {
    const auto count = static_cast<size_t>(element_count(info.shape));
    const bool learned = gradients.size() > 0;
    result.push_back({info.name, info.shape, values.part(begin, count),
                      learned ? gradients.part(begin, count) : std::span<float>{}});
    begin += stride_of(info);
  }
  return result;
}

bool same(const std::vector<graph::ParameterInfo>& a, const std::vector<graph::ParameterInfo>& b) {
  if (a.size() != b.size()) return false;
  for (size_t i = 0; i < a.size(); i++) {
    if (a[i].name != b[i].name || a[i].shape != b[i].shape) return false;
  }
  return true;
}

std::optional<size_t> position(const std::vector<graph::ParameterInfo>& infos, graph::NodeId node,
                               graph::ParameterInfo::Role role) {
  for (size_t i = 0; i < infos.size(); i++) {
    if (infos[i].node == node && infos[i].role == role) return i;
  }
  return std::nullopt;
}

}  // namespace

ParameterStore::ParameterStore(const graph::Shapes& shapes, bool gradients)
    : parameters_(shapes.parameters),
      statistics_(shapes.statistics),
      weights_(total(parameters_)),
      gradients_(gradients ? total(parameters_) : 0),
      statistics_memory_(total(statistics_)) {
  Buffer<float> none;
  view_.parameters = spans(parameters_, weights_, gradients_);
  view_.statistics = spans(statistics_, statistics_memory_, none);
}

ParameterView ParameterStore::view_for_inference() const {
  ParameterView result = view_;
  for (ParameterSpan& span : result.parameters) span.gradient = {};
  return result;
}

std::optional<ParameterStore::Found> ParameterStore::find(graph::NodeId node, graph::ParameterInfo::Role role) const {
  if (const auto i = position(parameters_, node, role)) return Found{*i, &view_.parameters[*i]};
  if (const auto i = position(statistics_, node, role)) return Found{*i, &view_.statistics[*i]};
  return std::nullopt;
}

bool ParameterStore::fits(const graph::Shapes& shapes) const {
  return same(parameters_, shapes.parameters) && same(statistics_, shapes.statistics);
}

}  // namespace dtrain::exec::cpu
