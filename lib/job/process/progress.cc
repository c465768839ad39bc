#include "job/process/progress.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <functional>
#include <map>

#include "base/duration_text.h"
#include "job/process/people.h"

namespace dtrain::job {
namespace {

using Words = std::map<std::string, std::string, std::less<>>;

// Parses "NAME=VALUE NAME=VALUE".
Words words_of(std::string_view text) {
  Words words;
  while (!text.empty()) {
    const size_t blank = text.find(' ');
    const std::string_view word = text.substr(0, blank);
    text.remove_prefix(blank == std::string_view::npos ? text.size() : blank + 1);
    const size_t equals = word.find('=');
    if (equals != std::string_view::npos) words[std::string(word.substr(0, equals))] = word.substr(equals + 1);
  }
  return words;
}

std::optional<double> number_of(const std::string& text) {
  char* end = nullptr;
  const double value = std::strtod(text.c_str(), &end);
  return !text.empty() && *end == '\0' && std::isfinite(value) ? std::optional(value) : std::nullopt;
}

int64_t count_of(double number) {
  return std::llround(std::clamp(number, 0.0, 1e18));
}

constexpr std::string_view kWorker = "worker";

std::string worker_word(const WorkerProgress& worker) {
  return fmt::format(" {}{}={}/{:.1f}/{:.3f}/{:.3f}/{}/{}", kWorker, worker.rank, worker.step, worker.samples_per_s,
                     worker.wait_data_share, worker.wait_network_share, static_cast<uint32_t>(worker.data_stage),
                     worker.validated ? fmt::format("{:.3f}", *worker.validated) : "-");
}

std::string quality_word(std::string_view name, const std::optional<Quality>& quality) {
  return quality ? fmt::format(" {}={:.6f}/{:.4f}", name, quality->loss, quality->accuracy) : "";
}

std::optional<Quality> parse_quality(const std::string& value) {
  const size_t slash = std::min(value.find('/'), value.size());
  const std::optional<double> loss = number_of(value.substr(0, slash));
  const std::optional<double> accuracy = number_of(value.substr(std::min(slash + 1, value.size())));
  return loss && accuracy ? std::optional<Quality>({*loss, *accuracy}) : std::nullopt;
}

// Nullopt if the word, such as "workers=2", does not have the format of worker_word.
std::optional<WorkerProgress> parse_worker(const std::string& name, const std::string& value) {
  const std::optional<double> rank = number_of(name.substr(kWorker.size()));
  std::vector<std::optional<double>> parts;
  for (size_t begin = 0; begin <= value.size();) {
    const size_t end = std::min(value.find('/', begin), value.size());
    parts.push_back(number_of(value.substr(begin, end - begin)));
    begin = end + 1;
  }
  constexpr size_t kParts = 6;
  if (!rank || parts.size() != kParts) return std::nullopt;
  return WorkerProgress{.step = static_cast<uint64_t>(count_of(parts[0].value_or(0))),
                        .samples_per_s = parts[1].value_or(0),
                        .wait_data_share = parts[2].value_or(0),
                        .wait_network_share = parts[3].value_or(0),
                        .data_stage = data_stage(parts[4].value_or(0)),
                        .validated = parts[5],
                        .rank = static_cast<uint32_t>(std::clamp(*rank, 0.0, 1e9))};
}

// For example "data 34 % (the limit: decoding)".
std::string data_wait_text(double share, DataStage stage) {
  const bool limits = stage != DataStage::kNone;
  return fmt::format("data {:.0f} %{}", 100 * share,
                     limits ? fmt::format(" (the limit: {})", name_of(stage).activity) : "");
}

// For example "  waiting: data 2 %, network 10 %"; empty if no worker waits.
std::string waiting_text(const Progress& progress) {
  constexpr double kShown = 0.005;  // smaller shares would be shown as 0 %
  if (progress.samples_per_s <= 0 || std::max(progress.wait_data, progress.wait_network) < kShown) return "";
  return fmt::format("  waiting: {}, network {:.0f} %", data_wait_text(progress.wait_data, progress.data_stage),
                     100 * progress.wait_network);
}

std::string worker_line(const WorkerProgress& worker, const std::string& host) {
  std::string line =
      fmt::format("worker {:<3} {:>7.0f} samples/s  step {:>7}  ", worker.rank, worker.samples_per_s, worker.step);
  if (worker.validated) {
    line += fmt::format("validating {:.0f} %", 100 * *worker.validated);
  } else {
    line += fmt::format("network {:>3.0f} %  {}", 100 * worker.wait_network_share,
                        data_wait_text(worker.wait_data_share, worker.data_stage));
  }
  return host.empty() ? line : line + "  " + host;
}

}  // namespace

std::string host_line(const Progress& progress) {
  std::string line = fmt::format(
      "live step={} steps={} samples_per_s={:.1f} wait_data={:.3f} wait_network={:.3f} eta_s={:.0f} epoch={} "
      "epochs={} checkpoint_s={:.3f} data_stage={} workers={}",
      progress.step, progress.steps, progress.samples_per_s, progress.wait_data, progress.wait_network, progress.eta_s,
      progress.epoch, progress.epochs, progress.checkpoint_s, static_cast<uint32_t>(progress.data_stage),
      progress.worker_count);
  if (progress.validated) line += fmt::format(" validated={:.3f}", *progress.validated);
  line += quality_word("training", progress.training) + quality_word("validation", progress.validation);
  for (const WorkerProgress& worker : progress.workers) line += worker_word(worker);
  return line;
}

std::optional<Progress> parse_progress(std::string_view line) {
  constexpr std::string_view kKeyword = "live ";
  if (!line.starts_with(kKeyword)) return std::nullopt;
  const Words words = words_of(line.substr(kKeyword.size()));
  const auto number = [&](std::string_view name, double otherwise) {
    const auto found = words.find(name);
    return found == words.end() ? otherwise : number_of(found->second).value_or(otherwise);
  };
  const auto count = [&](std::string_view name) { return count_of(number(name, 0)); };
  Progress progress{.step = count("step"),
                    .steps = count("steps"),
                    .epoch = count("epoch"),
                    .epochs = count("epochs"),
                    .samples_per_s = number("samples_per_s", 0),
                    .wait_data = number("wait_data", 0),
                    .wait_network = number("wait_network", 0),
                    .eta_s = number("eta_s", -1),
                    .checkpoint_s = std::max(0.0, number("checkpoint_s", 0)),
                    .data_stage = data_stage(number("data_stage", 0)),
                    .validated = {},
                    .training = {},
                    .validation = {},
                    .worker_count = static_cast<size_t>(count("workers")),
                    .workers = {}};
  if (const auto found = words.find("validated"); found != words.end()) progress.validated = number_of(found->second);
  if (const auto found = words.find("training"); found != words.end()) progress.training = parse_quality(found->second);
  if (const auto found = words.find("validation"); found != words.end()) {
    progress.validation = parse_quality(found->second);
  }
  for (const auto& [name, value] : words) {
    const std::optional<WorkerProgress> worker = name.starts_with(kWorker) ? parse_worker(name, value) : std::nullopt;
    if (worker && progress.workers.size() < Progress::kWorkersMax) progress.workers.push_back(*worker);
  }
  std::ranges::sort(progress.workers, {}, &WorkerProgress::rank);
  return progress;
}

void set_workers(std::vector<WorkerProgress> all, Progress& progress) {
  double validated = 0, validating = 0, training = 0;
  Quality sum;
  for (const WorkerProgress& worker : all) {
    validated += worker.validated.value_or(0);
    validating += worker.validated ? 1 : 0;
    if (worker.validation) progress.validation = worker.validation;
    if (!worker.training) continue;
    sum.loss += worker.training->loss;
    sum.accuracy += worker.training->accuracy;
    training++;
  }
  progress.validated = validating > 0 ? std::optional(validated / validating) : std::nullopt;
  if (training > 0) progress.training = {sum.loss / training, sum.accuracy / training};
  progress.worker_count = all.size();
  if (all.size() > Progress::kWorkersMax) {
    std::ranges::stable_sort(all, {}, &WorkerProgress::samples_per_s);
    all.resize(Progress::kWorkersMax);
  }
  std::ranges::sort(all, {}, &WorkerProgress::rank);
  progress.workers = std::move(all);
}

Progress at_end(Progress progress) {
  progress.eta_s = -1;
  progress.validated.reset();
  return progress;
}

int64_t epoch_under_way(const Progress& progress) {
  const int64_t done =
      progress.steps > 0 ? std::max<int64_t>(0, progress.step - 1) * progress.epochs / progress.steps : progress.epoch;
  return std::min(done + 1, progress.epochs);
}

std::string format_progress(const Progress& progress) {
  std::string text =
      fmt::format("epoch {}/{}  step {}/{}", epoch_under_way(progress), progress.epochs, progress.step, progress.steps);
  if (progress.validated) text += fmt::format("  validating {:.0f} %", 100 * *progress.validated);
  if (progress.training) {
    text += fmt::format("  loss {}  accuracy {}", loss_text(progress.training->loss),
                        accuracy_text(progress.training->accuracy));
  }
  if (progress.samples_per_s > 0) text += fmt::format("  {:.0f} samples/s", progress.samples_per_s);
  if (progress.eta_s >= 0) text += "  ETA " + long_duration_text(std::chrono::duration<double>(progress.eta_s));
  if (progress.validation) {
    text += fmt::format("  validation {}  validation loss {}", accuracy_text(progress.validation->accuracy),
                        loss_text(progress.validation->loss));
  }
  return text + waiting_text(progress);
}

Live live_progress(const Progress& progress, const std::function<std::string(uint32_t rank)>& host_of) {
  Live live{format_progress(progress)};
  if (progress.steps > 0) live.done = static_cast<double>(progress.step) / static_cast<double>(progress.steps);
  if (progress.worker_count < 2) return live;
  for (const WorkerProgress& worker : progress.workers) {
    live.details.push_back(worker_line(worker, host_of ? host_of(worker.rank) : ""));
  }
  if (progress.worker_count > progress.workers.size()) {
    live.details.push_back(fmt::format("... and {} faster workers", progress.worker_count - progress.workers.size()));
  }
  return live;
}

bool is_formatted_progress(std::string_view line) {
  return begins_with_epoch(line, "step ");
}

}  // namespace dtrain::job
