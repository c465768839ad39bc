#include "train/log_lines.h"

#include <fmt/core.h>

namespace dtrain::train {

std::optional<Speed> Speedometer::tick(int64_t count, SteadyTime now) {
  const bool first = !since_ || count < last_count_;
  last_count_ = count;
  if (!first && count % frequent_ != 0) return std::nullopt;
  std::optional<Speed> speed;
  if (!first) {
    const int64_t batches = count - since_count_;
    const double seconds = std::chrono::duration<double>(now - *since_).count();
    // A time of 0 s gives the speed inf, as MXNet prints it.
    speed = {batches, static_cast<double>(batches * batch_size_) / seconds};
  }
  since_ = now;
  since_count_ = count;
  return speed;
}

std::string speed_line(const SpeedLine& line, job::LogFormat format) {
  const std::string batches = format == job::LogFormat::kLegacy
                                  ? fmt::format("{}", line.count)
                                  : fmt::format("{}-{}", line.count - line.batches, line.count);
  std::string text =
      fmt::format("Epoch[{}] Batch [{}]\tSpeed: {:.2f} samples/sec", line.epoch, batches, line.samples_per_s);
  for (const MetricValue& metric : line.values) text += fmt::format("\t{}={:f}", metric.name, metric.value);
  return text;
}

std::string metric_line(int64_t epoch, const char* set, const MetricValue& metric) {
  return fmt::format("Epoch[{}] {}-{}={:f}", epoch, set, metric.name, metric.value);
}

std::string batch_metric_line(int64_t epoch, int64_t count, const char* set, const MetricValue& metric) {
  return fmt::format("Epoch[{}] Batch [{}] {}-{}={:f}", epoch, count, set, metric.name, metric.value);
}

std::string time_line(int64_t epoch, double seconds) {
  return fmt::format("Epoch[{}] Time cost={:.3f}", epoch, seconds);
}

std::string reached_line(const char* set, const TimeToAccuracy& reached) {
  return fmt::format("Reached {}-accuracy {:g} after {:.3f} s and {} samples", set, reached.accuracy, reached.seconds,
                     reached.samples);
}

std::string monitor_line(uint64_t step, const std::string& tensor, double value) {
  return fmt::format("Batch: {:7d} {:30s} {:.9g}", step, tensor, value);
}

std::string learning_rate_line(uint64_t update, double rate) {
  return fmt::format("Update[{}]: Change learning rate to {:.5e}", update, rate);
}

std::string saved_line(const std::string& params_path) {
  return fmt::format("Saved checkpoint to \"{}\"", params_path);
}

}  // namespace dtrain::train
