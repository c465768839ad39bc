#include "exec/folded_values.h"

#include <algorithm>
#include <cmath>
#include <string_view>
#include <unordered_map>

namespace dtrain::exec {
namespace {

using Values = std::unordered_map<std::string_view, std::span<float>>;

Values by_name(const ParameterView& view) {
  Values values;
  for (const auto* spans : {&view.parameters, &view.statistics}) {
    for (const ParameterSpan& span : *spans) values.emplace(span.name, span.weight);
  }
  return values;
}

void fill_layer(const graph::Fold& fold, const Values& from, const Values& to) {
  const std::span<const float> weight = from.at(fold.weight), gamma = from.at(fold.gamma), beta = from.at(fold.beta),
                               mean = from.at(fold.mean), variance = from.at(fold.variance);
  const std::span<float> new_weight = to.at(fold.weight), new_bias = to.at(fold.bias);
  const size_t channels = new_bias.size(), each = weight.size() / channels;
  for (size_t c = 0; c < channels; c++) {
    const double scale = (fold.fix_gamma ? 1 : double{gamma[c]}) / std::sqrt(double{variance[c]} + fold.epsilon);
    const double bias = fold.had_bias ? double{from.at(fold.bias)[c]} : 0;
    for (size_t i = c * each; i < (c + 1) * each; i++) new_weight[i] = static_cast<float>(scale * double{weight[i]});
    new_bias[c] = static_cast<float>(scale * (bias - double{mean[c]}) + double{beta[c]});
  }
}

}  // namespace

void fill_folded(const graph::FoldedGraph& folded, const ParameterView& values, const ParameterView& filled) {
  const Values from = by_name(values), to = by_name(filled);
  for (const auto& [name, span] : to) {
    const auto found = from.find(name);  // no value is found for a bias that folding has added to a layer
    if (found != from.end()) std::ranges::copy(found->second, span.begin());
  }
  for (const graph::Fold& fold : folded.folds) fill_layer(fold, from, to);
}

}  // namespace dtrain::exec
