#include "role/process/summary.h"

#include <cmath>

#include "base/json.h"

namespace dtrain::role {
namespace {

using Json = nlohmann::ordered_json;

Json or_null(const std::optional<double>& value) {
  return value && std::isfinite(*value) ? Json(*value) : Json(nullptr);
}

Json times(const std::vector<train::TimeToAccuracy>& levels) {
  Json json = Json::array();
  for (const train::TimeToAccuracy& level : levels) {
    json.push_back({{"accuracy", level.accuracy}, {"seconds", level.seconds}, {"samples", level.samples}});
  }
  return json;
}

// Which stage limits training: null if data does not.
Json limiting_stage(const train::DataLimit& limit) {
  if (!limit.is_limit) return nullptr;
  return limit.stage == job::DataStage::kNone ? "unknown" : name_of(limit.stage).key;
}

Json image_ms(const train::DataLimit& limit) {
  Json json = nullptr;
  for (const auto& [stage, ms] : train::stage_ms(limit.stages)) json[stage] = ms;
  return json;
}

}  // namespace

std::string to_json(const Summary& summary) {
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
      {"epochs", summary.epochs},
      {"train_accuracy", or_null(summary.train_accuracy)},
      {"validation_accuracy", or_null(summary.validation_accuracy)},
      {"best_validation_accuracy", or_null(summary.best_validation_accuracy)},
      {"time_to_accuracy",
       {{"train", times(summary.time_to_train_accuracy)}, {"validation", times(summary.time_to_validation_accuracy)}}},
      {"epochs_at_chance", summary.epochs_at_chance},
      {"samples", summary.samples},
      {"samples_per_s", summary.samples_per_s},
      {"seconds", summary.seconds},
      {"wait_data_share", summary.wait_data_share},
      {"wait_network_share", summary.wait_network_share},
      {"phases", summary.phases},
      {"data_limit", limiting_stage(summary.data_limit)},
      {"decoders_busy_share", or_null(summary.data_limit.decoders_busy)},
      {"image_ms", image_ms(summary.data_limit)},
      {"slow", Json::array()},
      {"peak_rss_bytes", summary.peak_rss_bytes},
      {"exit_code", summary.exit_code},
      {"error", summary.error.empty() ? Json(nullptr) : Json(summary.error)},
  };
  json.update(parse_json<Json>(observe::to_json(summary.conclusion)));
  return json_text(json, 2) + "\n";
}

}  // namespace dtrain::role
