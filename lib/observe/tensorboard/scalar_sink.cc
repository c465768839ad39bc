#include "observe/tensorboard/scalar_sink.h"

#include <utility>
#include <vector>

namespace dtrain::observe {
namespace {

using telemetry::Metric;
using telemetry::Value;

// TensorBoard's heading for a metric; null if it is not drawn as a curve. The metrics below one heading are a group of
// telemetry::Metric.
const char* heading_of(Metric metric) {
  switch (metric) {
    case Metric::kEpoch:
    case Metric::kStep:            // a member of every event
    case Metric::kTimeToAccuracy:  // this metric and the next two describe an event, not a curve
    case Metric::kAccuracy:
    case Metric::kValidation: return nullptr;
    case Metric::kSamples:
    case Metric::kSeconds: return "progress";
    case Metric::kSamplesPerS: return "speed";
    case Metric::kLearningRate: return "rate";
    case Metric::kTrainAccuracy:
    case Metric::kTrainCrossEntropy:
    case Metric::kTrainMetric: return "train";
    case Metric::kValidationAccuracy:
    case Metric::kValidationMetric: return "validation";
    default: break;
  }
  if (metric < Metric::kDecodeThreads) return "time";
  if (metric < Metric::kSentBytes) return "data";
  if (metric < Metric::kMemoryBytes) return "exchange";
  if (metric < Metric::kJobWorkers) return "process";
  if (metric < Metric::kRunEpochs) return "job";
  return "run";
}

// The name without its beginning if that repeats the heading.
std::string name_below(const std::string& heading, std::string_view name) {
  if (name.starts_with(heading + "_")) name.remove_prefix(heading.size() + 1);
  return std::string(name);
}

}  // namespace

std::optional<std::string> scalar_tag(const Value& value) {
  const char* const heading = heading_of(value.metric);
  if (heading == nullptr) return std::nullopt;
  const std::string group = std::string(heading) + (value.of_epoch ? "_epoch" : "");
  const std::string name = name_below(heading, telemetry::info(value.metric).name);
  if (value.label.empty()) return group + "/" + name;
  switch (value.metric) {
    case Metric::kTrainMetric:
    case Metric::kValidationMetric: return group + "/" + value.label;
    case Metric::kPhaseSeconds: return group + "/" + value.label + "_s";
    default: return group + "/" + name + "/" + value.label;
  }
}

// The value to draw. Times of phases are cumulative, so their increase since the previous record is drawn.
double ScalarSink::shown(const Value& value, const std::string& tag) {
  if (value.metric != Metric::kPhaseSeconds) return value.value;
  return value.value - std::exchange(totals_[tag], value.value);
}

Result<> ScalarSink::write(const telemetry::Record& record) {
  std::vector<Scalar> scalars;
  for (const Value& value : record.values) {
    const std::optional<std::string> tag = scalar_tag(value);
    if (!tag) continue;
    const bool is_first = described_.insert(*tag).second;
    scalars.push_back({.tag = *tag,
                       .value = shown(value, *tag),
                       .description = is_first ? std::string(telemetry::info(value.metric).help) : ""});
  }
  if (!scalars.empty()) writer_.add(record.step, scalars_event(event_time(record.step), scalars));
  return {};
}

}  // namespace dtrain::observe
