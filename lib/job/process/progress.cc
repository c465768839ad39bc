#include "job/process/progress.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <functional>
#include <map>

namespace dtrain::job {
namespace {

std::map<std::string, double, std::less<>> numbers_of(std::string_view text) {
  std::map<std::string, double, std::less<>> numbers;
  while (!text.empty()) {
    const size_t blank = text.find(' ');
    const std::string word(text.substr(0, blank));
    text.remove_prefix(blank == std::string_view::npos ? text.size() : blank + 1);
    const size_t equals = word.find('=');
    if (equals == std::string::npos) continue;
    char* end = nullptr;
    const double value = std::strtod(word.c_str() + equals + 1, &end);
    if (*end == '\0' && std::isfinite(value)) numbers[word.substr(0, equals)] = value;
  }
  return numbers;
}

std::string format_duration(double seconds) {
  const auto total = static_cast<int64_t>(std::llround(std::min(seconds, 1e9)));
  if (total < 60) return fmt::format("{}s", total);
  if (total < 3600) return fmt::format("{}m{:02}s", total / 60, total % 60);
  return fmt::format("{}h{:02}m", total / 3600, total / 60 % 60);
}

}  // namespace

std::string machine_line(const Progress& progress) {
  return fmt::format(
      "live step={} steps={} samples_per_s={:.1f} wait_data={:.3f} wait_network={:.3f} eta_s={:.0f} epoch={} "
      "epochs={} checkpoint_s={:.3f} data_stage={}",
      progress.step, progress.steps, progress.samples_per_s, progress.wait_data, progress.wait_network, progress.eta_s,
      progress.epoch, progress.epochs, progress.checkpoint_s, static_cast<uint32_t>(progress.data_stage));
}

std::optional<Progress> parse_progress(std::string_view line) {
  constexpr std::string_view kKeyword = "live ";
  if (!line.starts_with(kKeyword)) return std::nullopt;
  const auto numbers = numbers_of(line.substr(kKeyword.size()));
  const auto number = [&](std::string_view name, double otherwise) {
    const auto found = numbers.find(name);
    return found == numbers.end() ? otherwise : found->second;
  };
  const auto count = [&](std::string_view name) { return std::llround(std::clamp(number(name, 0), 0.0, 1e18)); };
  return Progress{.step = count("step"),
                  .steps = count("steps"),
                  .epoch = count("epoch"),
                  .epochs = count("epochs"),
                  .samples_per_s = number("samples_per_s", 0),
                  .wait_data = number("wait_data", 0),
                  .wait_network = number("wait_network", 0),
                  .eta_s = number("eta_s", -1),
                  .checkpoint_s = std::max(0.0, number("checkpoint_s", 0)),
                  .data_stage = data_stage(number("data_stage", 0))};
}

Progress completed(Progress progress) {
  progress.step = progress.steps;
  progress.epoch = std::max(progress.epoch, progress.epochs);
  progress.eta_s = -1;
  return progress;
}

std::string format_progress(const Progress& progress) {
  std::string text = fmt::format("epoch {}  step {}/{}", progress.epoch, progress.step, progress.steps);
  if (progress.samples_per_s > 0) {
    const bool limits = progress.data_stage != DataStage::kNone;
    text += fmt::format("  {:.0f} samples/s  waiting: data {:.0f} %{}, network {:.0f} %", progress.samples_per_s,
                        100 * progress.wait_data,
                        limits ? fmt::format(" (the limit: {})", name_of(progress.data_stage).activity) : "",
                        100 * progress.wait_network);
  }
  if (progress.eta_s >= 0) text += "  ETA " + format_duration(progress.eta_s);
  return text;
}

bool is_formatted_progress(std::string_view line) {
  constexpr std::string_view kBegin = "epoch ", kMiddle = "  step ", kDigits = "0123456789";
  if (!line.starts_with(kBegin)) return false;
  const size_t end = line.find_first_not_of(kDigits, kBegin.size());
  return end != std::string_view::npos && end > kBegin.size() && line.substr(end).starts_with(kMiddle);
}

}  // namespace dtrain::job
