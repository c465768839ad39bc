#include "role/setup/labels.h"

#include <fmt/ranges.h>

#include <algorithm>

#include "job/flags/flags.h"

namespace dtrain::role {
namespace {

std::vector<std::string> names_of(const graph::Shapes& shapes) {
  std::vector<std::string> names;
  for (const graph::LabelInfo& label : shapes.labels) names.push_back(label.name);
  return names;
}

}  // namespace

Result<std::vector<data::BatchLabel>> batch_labels(const job::AugmentFlags& flags, const graph::Shapes& shapes) {
  if (shapes.labels.size() != static_cast<size_t>(flags.label_width)) {
    return fail(Code::kUsage,
                "the network uses {0} label{1} per image ({2}), but --label-width is {3}: give --label-width {0}",
                shapes.labels.size(), shapes.labels.size() == 1 ? "" : "s", fmt::join(names_of(shapes), ", "),
                flags.label_width);
  }
  std::vector<data::BatchLabel> labels;
  for (const graph::LabelInfo& label : shapes.labels) {
    labels.push_back({.name = label.name, .classes = label.classes});
  }
  return labels;
}

train::MetricSpec metrics_of(const job::JobFlags& flags, const graph::Shapes& shapes) {
  train::MetricSpec spec{.top_k = flags.top_k, .losses = flags.loss, .heads = {}, .labels = shapes.labels.size()};
  for (const graph::HeadInfo& head : shapes.heads) spec.heads.push_back({.name = head.name, .label = head.label});
  return spec;
}

}  // namespace dtrain::role
