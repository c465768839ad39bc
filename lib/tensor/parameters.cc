#include "tensor/parameters.h"

#include "base/error.h"

namespace dtrain {

FlatInterval flat_interval(const ParameterView& view, size_t first, size_t end) {
  DT_CHECK(first < end && end <= view.parameters.size(), "parameters {} to {} of {}", first, end,
           view.parameters.size());
  DT_CHECK(!view.all_weights.empty(), "the parameters lie scattered");
  const auto place = [&](size_t index) {
    return index == view.parameters.size()
               ? view.all_weights.size()
               : static_cast<size_t>(view.parameters[index].weight.data() - view.all_weights.data());
  };
  return {place(first), place(end) - place(first)};
}

}  // namespace dtrain
