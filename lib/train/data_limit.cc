#include "train/data_limit.h"

#include <fmt/core.h>
#include <algorithm>
#include <array>
#include <cmath>

namespace dtrain::train {
namespace {

using job::DataStage;

// Data counts as the limit if the steps wait for batches for a larger share of the time than this.
constexpr double kLimits = 0.1;
// Decoders need no help if they are busy for a smaller share of the time than this.
constexpr double kDecodersIdle = 0.6;
// If a larger share of the cores is busy than this, more threads would only take turns.
constexpr double kCoresBusy = 0.9;

struct StageTime {
  DataStage stage;
  double seconds;
};
std::array<StageTime, 5> times_of(const images::Stages& stages) {
  return {{{DataStage::kRead, stages.read},
           {DataStage::kHeader, stages.header},
           {DataStage::kDecode, stages.decode},
           {DataStage::kColor, stages.color},
           {DataStage::kRows, stages.rows}}};
}

double share_of(double part, double all) {
  return all > 0 ? std::clamp(part / all, 0.0, 1.0) : 0;
}

std::string smaller_images(const DataLimit& limit, const Decoders& decoders) {
  const std::string busy =
      fmt::format("{} busy", decoders.cores == 1 ? "the core is" : fmt::format("all {} cores are", decoders.cores));
  if (limit.stage == DataStage::kColor) return busy + ": leave out some of the color changes, or use more cores";
  return busy + ": pack smaller images (im2rec --resize), or use more cores";
}

std::string advice(const DataLimit& limit, const Decoders& decoders) {
  if (limit.decoders_busy && *limit.decoders_busy < kDecodersIdle) {
    return "the decoders keep up on average, but not always: give a larger --prefetch-buffer";
  }
  if (limit.stage == DataStage::kRead) {
    return "the disk or the network is the limit: use a faster disk or network, or pack smaller images (im2rec "
           "--resize)";
  }
  // For the steps never to wait, the decoders would have to be 1 / (1 - wait_share) times as fast.
  const double needed = std::ceil(decoders.threads / std::max(1 - limit.wait_share, 0.01));
  const int threads =
      std::min(decoders.cores, std::max(decoders.threads + 1, static_cast<int>(std::min(needed, 1024.0))));
  if (threads > decoders.threads && limit.cores_busy < kCoresBusy) {
    return decoders.are_tuned
               ? "--data-nthreads auto already chooses the number of threads; pack smaller images (im2rec --resize)"
               : fmt::format("use --data-nthreads {}", threads);
  }
  return smaller_images(limit, decoders);
}

}  // namespace

DataUse operator-(const DataUse& now, const DataUse& before) {
  return {.seconds = now.seconds - before.seconds,
          .wait_s = now.wait_s - before.wait_s,
          .images = now.images - before.images,
          .stages = {.images = now.stages.images - before.stages.images,
                     .read = now.stages.read - before.stages.read,
                     .header = now.stages.header - before.stages.header,
                     .decode = now.stages.decode - before.stages.decode,
                     .color = now.stages.color - before.stages.color,
                     .rows = now.stages.rows - before.stages.rows},
          .cpu_s = now.cpu_s - before.cpu_s};
}

bool is_data_limit(double wait_share) {
  return wait_share > kLimits;
}

DataLimit data_limit(const DataUse& period, const Decoders& decoders, double trained_s) {
  DataLimit limit{.wait_share = share_of(period.wait_s, period.seconds), .stages = period.stages};
  limit.is_judged = trained_s >= telemetry::kJudgedAfterSeconds;
  limit.is_limit = limit.is_judged && is_data_limit(limit.wait_share);
  limit.cores_busy = share_of(period.cpu_s, period.seconds * decoders.cores);
  const double all = period.stages.all();
  if (period.stages.images <= 0 || all <= 0) return limit;
  const auto times = times_of(period.stages);
  const auto most = std::ranges::max_element(times, {}, &StageTime::seconds);
  limit.stage = most->stage;
  limit.stage_share = share_of(most->seconds, all);
  const double of_image = all / static_cast<double>(period.stages.images);
  limit.decoders_busy = share_of(of_image * static_cast<double>(period.images), period.seconds * decoders.threads);
  return limit;
}

std::string data_limit_text(const DataLimit& limit, const Decoders& decoders) {
  const std::string waited = fmt::format("{:.{}f} % of the time was spent waiting for batches", 100 * limit.wait_share,
                                         limit.wait_share < 0.095 ? 1 : 0);
  const std::string threads = fmt::format("{} thread{}", decoders.threads, decoders.threads == 1 ? "" : "s");
  const std::string busy = limit.decoders_busy
                               ? fmt::format("{}, busy for {:.0f} % of the time", threads, 100 * *limit.decoders_busy)
                               : threads;
  if (!limit.is_judged) return fmt::format("data: {}; decoders: {}", waited, busy);
  if (!limit.is_limit) return fmt::format("data is not the limit: {}; decoders: {}", waited, busy);
  if (limit.stage == DataStage::kNone) return fmt::format("data is the limit: {}; decoders: {}", waited, busy);
  const double ms = 1e3 / static_cast<double>(limit.stages.images);
  return fmt::format(
      "data is the limit: {}; {} takes {:.0f} % of the decoders' time ({:.3g} of {:.3g} ms per image; {}); {}", waited,
      name_of(limit.stage).activity, 100 * limit.stage_share, ms * limit.stage_share * limit.stages.all(),
      ms * limit.stages.all(), busy, advice(limit, decoders));
}

std::vector<std::pair<std::string, double>> stage_ms(const images::Stages& stages) {
  std::vector<std::pair<std::string, double>> all;
  if (stages.images <= 0) return all;
  for (const StageTime& time : times_of(stages)) {
    all.emplace_back(name_of(time.stage).key, 1e3 * time.seconds / static_cast<double>(stages.images));
  }
  return all;
}

std::vector<telemetry::Value> stage_values(const images::Stages& stages) {
  std::vector<telemetry::Value> all;
  for (const auto& [key, ms] : stage_ms(stages)) {
    const std::optional<telemetry::Metric> metric = telemetry::find_metric(key + "_ms");
    DT_CHECK(metric, "there is no metric for the stage '{}'", key);
    all.push_back({*metric, ms});
  }
  return all;
}

}  // namespace dtrain::train
