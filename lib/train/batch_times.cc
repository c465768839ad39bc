#include "train/batch_times.h"

#include <fmt/core.h>

#include <algorithm>

#include "base/json.h"

namespace dtrain::train {
namespace {

double seconds_of(SteadyTime begin, SteadyTime end) {
  return std::chrono::duration<double>(end - begin).count();
}

// Shares the durations of the slowest worker's batches, in parts that fit into a message.
Result<std::vector<double>> share_durations(job::Coordinator& coordinator, uint32_t slowest, uint64_t batches,
                                            const std::vector<double>& own_ms) {
  constexpr uint64_t kAtOnce = job::kContributionBytesMax / (2 * sizeof(double));
  std::vector<double> all;
  while (all.size() < batches) {
    job::BatchDurations part;
    if (coordinator.rank() == slowest) {
      const auto first = own_ms.begin() + static_cast<int64_t>(all.size());
      part.ms.assign(first, first + static_cast<int64_t>(std::min<uint64_t>(kAtOnce, batches - all.size())));
    }
    DT_TRY(const std::vector<job::BatchDurations> parts,
           coordinator.all_gather("the slowest worker's batches", std::move(part)));
    const std::vector<double>& ms = parts[slowest].ms;
    if (ms.empty()) return fail(Code::kInternal, "worker {} sent the times of fewer than {} batches", slowest, batches);
    all.insert(all.end(), ms.begin(), ms.end());
  }
  return all;
}

}  // namespace

void BatchTimes::step(SteadyTime end, SteadyTime::duration data_wait, int64_t samples,
                      const kvstore::StoreTimes& times) {
  steps_++;
  const SteadyTime since = std::exchange(last_, end);
  now_ = times;
  if (!after_) return;
  if (steps_ <= *after_) {
    before_ = times;
    return;
  }
  samples_ += samples;
  seconds_ += seconds_of(since, end);
  batches_ms_.push_back(1e3 * seconds_of(since, end));
  wait_data_s_ += std::chrono::duration<double>(data_wait).count();
}

void BatchTimes::end_epoch(SteadyTime now, const kvstore::StoreTimes& times) {
  if (!batches_ms_.empty()) {
    seconds_ += seconds_of(last_, now);
    batches_ms_.back() += 1e3 * seconds_of(last_, now);
  }
  now_ = times;
}

Result<std::optional<std::string>> BatchTimes::share(job::Coordinator& coordinator) const {
  if (!after_) return std::nullopt;
  DT_TRY(const std::vector<job::WorkerTimes> workers,
         coordinator.all_gather("the times of the batches", job::WorkerTimes{.samples = static_cast<uint64_t>(samples_),
                                                                             .batches = batches_ms_.size(),
                                                                             .seconds = seconds_}));
  uint64_t samples = 0;
  for (const job::WorkerTimes& worker : workers) samples += worker.samples;
  const auto slowest = std::ranges::max_element(workers, {}, &job::WorkerTimes::seconds);
  const auto slowest_rank = static_cast<uint32_t>(slowest - workers.begin());
  DT_TRY(const std::vector<double> slowest_ms,
         share_durations(coordinator, slowest_rank, slowest->batches, batches_ms_));
  nlohmann::ordered_json json = {{"rank", coordinator.rank()},
                                 {"samples", samples_},
                                 {"seconds", seconds_},
                                 {"batches_ms", batches_ms_},
                                 {"wait_data_s", wait_data_s_},
                                 {"wait_network_s", now_.wait_s - before_.wait_s},
                                 {"bytes_sent", nullptr},
                                 {"bytes_received", nullptr},
                                 {"workers", coordinator.workers()},
                                 {"job_samples", samples},
                                 {"job_seconds", slowest->seconds},
                                 {"slowest", slowest_rank},
                                 {"slowest_batches_ms", slowest_ms}};
  if (now_.traffic) {
    const kvstore::Traffic before = before_.traffic.value_or(kvstore::Traffic{});
    json["bytes_sent"] = now_.traffic->sent - before.sent;
    json["bytes_received"] = now_.traffic->received - before.received;
  }
  return json_text(json) + "\n";
}

std::string batch_times_file(uint32_t rank) {
  return fmt::format("batch-times-{}.json", rank);
}

}  // namespace dtrain::train
