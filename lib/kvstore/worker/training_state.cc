#include "kvstore/worker/training_state.h"

#include <map>
#include <string_view>

namespace dtrain::kvstore {

std::string slot_name(const ParameterSpan& parameter, const std::string& slot) {
  return parameter.name + ":" + slot;
}

void make_slots(TrainingState& state, const ParameterView& view, std::span<const std::string> slots) {
  if (state.slots.size() == view.parameters.size() * slots.size()) return;
  state.slots.clear();
  for (const ParameterSpan& parameter : view.parameters) {
    for (const std::string& slot : slots) {
      state.slots.push_back({slot_name(parameter, slot), parameter.shape, std::vector<float>(parameter.weight.size())});
    }
  }
}

Result<SlotSpans> match_state(const TrainingState& state, const ParameterView& view,
                              std::span<const std::string> slots) {
  SlotSpans matched;
  if (state.slots.empty()) return matched;
  std::map<std::string_view, const NamedArray*> by_name;
  for (const NamedArray& array : state.slots) by_name[array.name] = &array;
  for (const ParameterSpan& parameter : view.parameters) {
    matched.emplace_back();
    for (const std::string& slot : slots) {
      const std::string name = slot_name(parameter, slot);
      const auto found = by_name.find(name);
      if (found == by_name.end()) return fail(Code::kData, "the optimizer's state has no '{}'", name);
      const std::vector<float>& values = found->second->values;
      if (values.size() != parameter.weight.size()) {
        return fail(Code::kData, "array '{}' of the optimizer's state has {} elements instead of {}", name,
                    values.size(), parameter.weight.size());
      }
      matched.back().emplace_back(values);
    }
  }
  return matched;
}

}  // namespace dtrain::kvstore
