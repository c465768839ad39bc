#include "observe/runs/read_log.h"

#include <algorithm>
#include <cmath>

#include "base/line_reader.h"
#include "base/printable.h"
#include "observe/runs/log_line.h"

namespace dtrain::observe {
namespace {

// Limits, because the contents of a log are not trusted.
constexpr size_t kLogCurvesMax = 4000, kEpochsMax = 100'000, kMessagesMax = 100;
constexpr int64_t kLogRanksMax = 65536;
constexpr size_t kMetricBytesMax = 100;

// The name in metrics.jsonl of a metric in the log: "cross-entropy" becomes train_cross_entropy.
std::string metric_name(const char* set, std::string_view name) {
  std::string text = fmt::format("{}_{}", set, name);
  std::replace(text.begin(), text.end(), '-', '_');
  return text;
}

// Replaces each number by 0, so that texts that differ only in numbers become equal.
std::string without_numbers(std::string_view text) {
  std::string out;
  for (const char letter : text) {
    const bool is_digit = letter >= '0' && letter <= '9';
    if (!is_digit) out += letter;
    if (is_digit && (out.empty() || out.back() != '0')) out += '0';
  }
  return out;
}

// While lines are being read, the members `epoch` and `step` of a Moment hold the epoch and the batch number from the
// log.
class LogReader {
 public:
  explicit LogReader(Run& run) : run_(run), known_(run.metrics()), has_settings_(!run.settings.empty()) {}

  Result<> read(const std::string& path) {
    DT_TRY(LineReader lines, LineReader::open(path));
    while (true) {
      DT_TRY(const std::optional<std::string_view> line, lines.next());
      if (!line) break;
      add(split_log_line(*line));
    }
    if (std::string cut = lines.cut_lines_text(); !cut.empty()) run_.problems.push_back(std::move(cut));
    return {};
  }

  uint64_t finish() {
    const double batches = batches_per_epoch();
    const double batch_size = run_.setting_number("batch-size").value_or(kUnknown);
    const double per_step = batch_size * std::max<double>(1, static_cast<double>(ranks_.size()));
    sum_costs();
    for (auto& [key, curve] : curves_) {
      const bool is_rate = key.metric == "lr";
      curve.change_moments([&](Moment& at) { place(at, batches, per_step, is_rate); });
      run_.curves.emplace(key, std::move(curve));
    }
    for (auto& [text, message] : messages_) run_.messages.push_back(std::move(message));
    std::stable_sort(run_.messages.begin(), run_.messages.end(),
                     [](const LogMessage& a, const LogMessage& b) { return a.is_error > b.is_error; });
    if (left_out_ != 0)
      run_.problems.push_back(
          fmt::format("{}: {} values in the logs are left out: too many metrics or epochs", run_.path, left_out_));
    return training_lines_;
  }

 private:
  struct Cost {
    double sum = 0;
    int64_t count = 0;
    double before = kUnknown;  // sum of the times of all earlier epochs
  };

  void add(const SplitLine& line) {
    if (line.time && !first_time_) first_time_ = line.time;
    const std::optional<TrainingLine> training = read_training_line(line.text);
    if (training) return add_training(*training, line);
    if (const std::optional<RateLine> rate = read_rate_line(line.text)) {
      training_lines_++;
      return add_rate(*rate, line);
    }
    if (const std::optional<int64_t> batches = read_batches_per_machine(line.text)) batches_in_log_ = *batches;
    if (!has_settings_) {
      std::map<std::string, std::string> arguments = read_arguments(line.text);
      if (!arguments.empty() && run_.settings.empty()) run_.settings = std::move(arguments);
    }
    add_message(line);
  }

  Moment moment_of(const SplitLine& line) const {
    Moment at;
    if (line.time && first_time_) at.seconds = std::max(0.0, *line.time - *first_time_);
    return at;
  }

  // Adds a learning rate. Logs report only changes; the rate before the first change is in the arguments.
  void add_rate(const RateLine& rate, const SplitLine& line) {
    const std::optional<double> at_start = run_.setting_number("lr");
    if (at_start && rate.update > 1 && !curves_.contains(key_of("lr", false, line))) {
      Moment begin{.step = 0};
      if (line.time) begin.seconds = 0;
      add_value("lr", false, line, {begin, *at_start});
    }
    Moment at = moment_of(line);
    at.step = static_cast<double>(rate.update);
    add_value("lr", false, line, {at, rate.rate});
  }

  void add_training(const TrainingLine& training, const SplitLine& line) {
    using Kind = TrainingLine::Kind;
    training_lines_++;
    ranks_.insert(rank_of(line));
    Moment at = moment_of(line);
    at.epoch = static_cast<double>(training.epoch);
    if (training.batch) at.step = static_cast<double>(*training.batch);
    if (training.batch) largest_batch_ = std::max(largest_batch_, *training.batch);
    if (training.kind == Kind::kTime) {
      if (costs_.size() >= kEpochsMax && !costs_.contains(training.epoch)) return void(left_out_++);
      Cost& cost = costs_[training.epoch];
      cost.sum += training.values[0].second;
      cost.count++;
      return add_value("epoch_s", true, line, {at, training.values[0].second});
    }
    const bool of_epochs = !training.batch || training.kind == Kind::kValidation;
    if (training.speed && is_new_window(training, line)) add_value("samples_per_s", false, line, {at, *training.speed});
    const char* set = training.kind == Kind::kValidation ? "validation" : "train";
    for (const auto& [name, value] : training.values) add_value(metric_name(set, name), of_epochs, line, {at, value});
  }

  // Whether the line begins a new window: MXNet 0.7 to 0.9 print the speed of a window once per metric.
  bool is_new_window(const TrainingLine& training, const SplitLine& line) {
    if (ranks_.size() > kLogCurvesMax) return false;
    const std::pair window(training.epoch, *training.batch);
    std::pair<int64_t, int64_t>& last = last_windows_.try_emplace(rank_of(line), -1, -1).first->second;
    return std::exchange(last, window) != window;
  }

  static int64_t rank_of(const SplitLine& line) { return line.rank && *line.rank < kLogRanksMax ? *line.rank : 0; }

  static CurveKey key_of(const std::string& metric, bool of_epochs, const SplitLine& line) {
    return {.metric = metric, .of_epochs = of_epochs, .role = "worker", .rank = rank_of(line)};
  }

  void add_value(const std::string& metric, bool of_epochs, const SplitLine& line, const Measured& measured) {
    if (known_.contains(metric)) return;
    const CurveKey key = key_of(metric, of_epochs, line);
    const auto found = curves_.find(key);
    if (found != curves_.end()) return found->second.add(measured);
    if (curves_.size() >= kLogCurvesMax || metric.size() > kMetricBytesMax) return void(left_out_++);
    curves_[key].add(measured);
  }

  void add_message(const SplitLine& line) {
    const Severity severity = severity_of(line.text);
    if (severity == Severity::kNone) return;
    const std::string text = printable(line.text, 400);
    const auto found = messages_.find(without_numbers(text));
    if (found != messages_.end()) return void(found->second.count++);
    if (messages_.size() >= kMessagesMax) return void(run_.messages_left_out++);
    messages_[without_numbers(text)] = {text, printable(line.node), severity == Severity::kError, 1};
  }

  // The number of batches in an epoch; kUnknown if it cannot be determined.
  double batches_per_epoch() const {
    if (const std::optional<double> batches = run_.setting_number("batches"); batches && *batches > 0) return *batches;
    if (batches_in_log_ > 0) return static_cast<double>(batches_in_log_);
    const std::optional<double> examples = run_.setting_number("num-examples"),
                                size = run_.setting_number("batch-size");
    if (examples && size && *examples > 0 && *size > 0) {
      const double all = std::ceil(*examples / *size / std::max<double>(1, static_cast<double>(ranks_.size())));
      if (all > static_cast<double>(largest_batch_)) return all;
    }
    return largest_batch_ < 0 ? kUnknown : static_cast<double>(largest_batch_) + 1;
  }

  void sum_costs() {
    double before = 0;
    for (auto& [epoch, cost] : costs_) {
      cost.before = before;
      before += cost.sum / static_cast<double>(cost.count);
    }
  }

  void place(Moment& at, double batches, double per_step, bool is_rate) const {
    if (is_rate) {  // the step of a rate is already known
      at.epoch = at.step / batches;
      if (std::isnan(at.seconds) && at.epoch >= 0) {
        const double begun = std::floor(std::min(at.epoch, static_cast<double>(kEpochsMax)));
        at.seconds = seconds_at(static_cast<int64_t>(begun), at.epoch - begun);
      }
    } else {
      const double epoch = at.epoch;
      const double done = std::isnan(at.step) ? 1 : std::min(1.0, (at.step + 1) / batches);
      if (std::isnan(at.seconds)) at.seconds = seconds_at(static_cast<int64_t>(epoch), done);
      at.epoch = epoch + done;
      at.step = at.epoch * batches;
    }
    at.samples = at.step * per_step;
  }

  double seconds_at(int64_t epoch, double done) const {
    const auto cost = costs_.find(epoch);
    if (cost == costs_.end()) return kUnknown;
    return cost->second.before + done * cost->second.sum / static_cast<double>(cost->second.count);
  }

  Run& run_;
  std::set<std::string> known_;  // metrics that the run has from another source
  bool has_settings_;
  std::map<CurveKey, Curve> curves_;
  std::map<std::string, LogMessage> messages_;
  std::map<int64_t, Cost> costs_;  // time of each epoch, indexed by epoch
  std::map<int64_t, std::pair<int64_t, int64_t>> last_windows_;
  std::set<int64_t> ranks_;
  std::optional<double> first_time_;
  int64_t batches_in_log_ = 0, largest_batch_ = -1;
  uint64_t training_lines_ = 0, left_out_ = 0;
};

}  // namespace

Result<uint64_t> read_logs(const std::vector<std::string>& paths, Run& run) {
  LogReader reader(run);
  for (const std::string& path : paths) {
    const Result<> read = reader.read(path);
    if (!read && paths.size() == 1 && !run.is_directory) return tl::unexpected(read.error());
    if (!read) run.problems.push_back(read.error().message);
  }
  return reader.finish();
}

}  // namespace dtrain::observe
