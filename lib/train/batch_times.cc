#include "train/batch_times.h"

#include <fmt/core.h>

#include <algorithm>

#include "base/json.h"

namespace dtrain::train {
namespace {

double seconds_of(SteadyTime begin, SteadyTime end) {
  return std::chrono::duration<double>(end - begin).count();
}

// What the workers know together.
struct OfAll {
  std::vector<double> samples, seconds;  // by rank
  uint32_t slowest = 0;                  // the rank of the worker with the most seconds
  std::vector<double> batches_ms;        // of that worker
};

// Each worker adds its own numbers to the zeros of the others.
Result<OfAll> gather(job::Coordinator& coordinator, double samples, double seconds,
                     const std::vector<double>& batches_ms) {
  constexpr size_t kAtOnce = job::kSumNumbersMax;
  const size_t workers = coordinator.workers(), own = coordinator.rank();
  OfAll all;
  for (size_t first = 0; first < workers; first += kAtOnce / 2) {
    const size_t count = std::min(kAtOnce / 2, workers - first);
    std::vector<double> numbers(2 * count, 0);
    if (own >= first && own < first + count) {
      numbers[own - first] = samples;
      numbers[count + own - first] = seconds;
    }
    DT_TRY(numbers, coordinator.sum("the times of the batches", numbers));
    all.samples.insert(all.samples.end(), numbers.begin(), numbers.begin() + static_cast<int64_t>(count));
    all.seconds.insert(all.seconds.end(), numbers.begin() + static_cast<int64_t>(count), numbers.end());
  }
  all.slowest = static_cast<uint32_t>(std::ranges::max_element(all.seconds) - all.seconds.begin());
  // Workers of other schemes than BSP make different numbers of batches.
  DT_TRY(const std::vector<double> count,
         coordinator.sum("the slowest worker's batches",
                         std::vector<double>{own == all.slowest ? static_cast<double>(batches_ms.size()) : 0.0}));
  const auto length = static_cast<size_t>(count[0]);
  for (size_t first = 0; first < length; first += kAtOnce) {
    std::vector<double> part(std::min(kAtOnce, length - first), 0);
    if (own == all.slowest) std::copy_n(batches_ms.begin() + static_cast<int64_t>(first), part.size(), part.begin());
    DT_TRY(part, coordinator.sum("the slowest worker's batches", part));
    all.batches_ms.insert(all.batches_ms.end(), part.begin(), part.end());
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
  DT_TRY(const OfAll all, gather(coordinator, static_cast<double>(samples_), seconds_, batches_ms_));
  double samples = 0;
  for (const double one : all.samples) samples += one;
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
                                 {"job_seconds", all.seconds[all.slowest]},
                                 {"slowest", all.slowest},
                                 {"slowest_batches_ms", all.batches_ms}};
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
