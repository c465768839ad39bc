#include "role/process/summary.h"

#include <cmath>
#include <map>

#include "base/json.h"
#include "job/process/data_stage.h"
#include "train/data_limit.h"
#include "train/run_metrics.h"

namespace dtrain::role {
namespace {

using Json = nlohmann::ordered_json;
using telemetry::Metric;

class Figures {
 public:
  explicit Figures(const telemetry::Snapshot& metrics) : metrics_(metrics) {}

  [[nodiscard]] double number(Metric metric) const { return value_of(metrics_, metric).value_or(0); }
  [[nodiscard]] uint64_t count(Metric metric) const { return static_cast<uint64_t>(number(metric)); }
  // The value of the metric; null if it was not measured or is not finite.
  [[nodiscard]] Json or_null(Metric metric) const {
    const std::optional<double> value = value_of(metrics_, metric);
    return value && std::isfinite(*value) ? Json(*value) : Json(nullptr);
  }
  [[nodiscard]] Json reached(train::DataSet of) const {
    Json json = Json::array();
    for (const train::TimeToAccuracy& level : train::reached_levels(metrics_, of)) {
      json.push_back({{"accuracy", level.accuracy}, {"seconds", level.seconds}, {"samples", level.samples}});
    }
    return json;
  }
  [[nodiscard]] Json phases() const {
    std::map<std::string, double> phases;
    for (const telemetry::Sample& sample : metrics_) {
      if (sample.metric == Metric::kPhaseSeconds) phases[sample.label] = sample.value;
    }
    return phases;
  }
  // The stage that limits training; null if data is not the limit.
  [[nodiscard]] Json limiting_stage() const {
    if (!train::is_data_limit(number(Metric::kRunWaitDataShare))) return nullptr;
    const job::DataStage stage = train::slowest_stage(metrics_);
    return stage == job::DataStage::kNone ? "unknown" : name_of(stage).key;
  }
  [[nodiscard]] Json image_ms() const {
    Json json = nullptr;
    for (const job::DataStageName& stage : job::kDataStageNames) {
      if (const auto ms = value_of(metrics_, Metric::kRunImageMs, stage.key)) json[stage.key] = *ms;
    }
    return json;
  }
  [[nodiscard]] Json peak_rss_bytes() const {
    Json json = Json::object();
    if (const auto bytes = value_of(metrics_, Metric::kPeakMemoryBytes)) {
      json["worker 0"] = static_cast<uint64_t>(*bytes);
    }
    return json;
  }

 private:
  const telemetry::Snapshot& metrics_;
};

}  // namespace

std::string to_json(const Summary& summary) {
  const Figures figures(summary.metrics);
  Json json = {
      {"job", summary.job},
      {"job_hash", summary.job_hash},
      {"build", summary.build},
      {"network", summary.network},
      {"store", summary.store},
      {"workers", summary.workers},
      {"servers", summary.servers},
      {"devices", summary.devices},
      {"dtype", summary.dtype},
      {"epochs", figures.count(Metric::kRunEpochs)},
      {"train_accuracy", figures.or_null(Metric::kRunTrainAccuracy)},
      {"validation_accuracy", figures.or_null(Metric::kRunValidationAccuracy)},
      {"validation_cross_entropy", figures.or_null(Metric::kRunValidationCrossEntropy)},
      {"best_validation_accuracy", figures.or_null(Metric::kBestValidationAccuracy)},
      {"time_to_accuracy",
       {{"train", figures.reached(train::DataSet::kTraining)},
        {"validation", figures.reached(train::DataSet::kValidation)}}},
      {"epochs_at_chance", figures.count(Metric::kEpochsAtChance)},
      {"samples", figures.count(Metric::kRunSamples)},
      {"samples_per_s", figures.number(Metric::kRunSamplesPerS)},
      {"seconds", summary.seconds},
      {"wait_data_share", figures.number(Metric::kRunWaitDataShare)},
      {"wait_network_share", figures.number(Metric::kRunWaitNetworkShare)},
      {"phases", figures.phases()},
      {"data_limit", figures.limiting_stage()},
      {"decoders_busy_share", figures.or_null(Metric::kRunDecodersBusyShare)},
      {"image_ms", figures.image_ms()},
      {"slow", Json::array()},
      {"peak_rss_bytes", figures.peak_rss_bytes()},
      {"exit_code", summary.exit_code},
      {"error", summary.error.empty() ? Json(nullptr) : Json(summary.error)},
  };
  json.update(parse_json<Json>(observe::to_json(summary.conclusion)));
  return json_text(json, 2) + "\n";
}

}  // namespace dtrain::role
