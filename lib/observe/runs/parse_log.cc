#include "observe/runs/parse_log.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <cstdint>
#include <limits>
#include <optional>
#include <unordered_map>

#include "base/line_reader.h"
#include "observe/runs/log_line.h"

namespace dtrain::observe {
namespace {

struct Mean {
  double sum = 0;
  int64_t count = 0;
  [[nodiscard]] double value() const {
    return count == 0 ? std::numeric_limits<double>::quiet_NaN() : sum / static_cast<double>(count);
  }
};

// The position of each epoch in the order of first appearance. A map is needed only if the epochs do not count up, as
// they usually do.
class EpochPlaces {
 public:
  size_t place_of(int64_t epoch) {
    if (!epochs_.empty() && epochs_.back() == epoch) return epochs_.size() - 1;
    if (counts_up_ && (epochs_.empty() || epoch > epochs_.back())) return append(epoch);
    if (counts_up_) {
      const auto found = std::ranges::lower_bound(epochs_, epoch);
      if (*found == epoch) return static_cast<size_t>(found - epochs_.begin());
      counts_up_ = false;
      for (size_t i = 0; i < epochs_.size(); i++) place_of_[epochs_[i]] = i;
    }
    const auto [found, is_new] = place_of_.try_emplace(epoch, epochs_.size());
    if (is_new) append(epoch);
    return found->second;
  }
  [[nodiscard]] const std::vector<int64_t>& epochs() const { return epochs_; }

 private:
  size_t append(int64_t epoch) {
    epochs_.push_back(epoch);
    return epochs_.size() - 1;
  }

  std::vector<int64_t> epochs_;
  bool counts_up_ = true;
  std::unordered_map<int64_t, size_t> place_of_;
};

// A column of the table: its title, and the name of its values in the log ("" if the log has no such values).
struct TableColumn {
  std::string title;
  std::string name;
};

// "Train-accuracy" -> "accuracy", "Validation-accuracy" -> "accuracy"; "" for a time.
std::string_view metric_of(std::string_view name) {
  for (const std::string_view set : {"Train", "Validation", "Valid"}) {
    if (!name.starts_with(set)) continue;
    name.remove_prefix(set.size());
    return name.starts_with('-') ? name.substr(1) : name;
  }
  return {};
}

bool is_accuracy(std::string_view metric) {
  constexpr std::string_view kAccuracy = "accuracy";
  return std::ranges::equal(metric, kAccuracy, [](char a, char b) { return a == b || a == b - 'a' + 'A'; });
}

constexpr std::string_view kTime = "Time";

}  // namespace

class LogTable::Values {
 public:
  Result<> add(const EpochValue& line) {
    auto column = std::ranges::find(names_, line.name);
    if (column == names_.end()) {
      if (names_.size() == kMetricsMax) return fail(Code::kData, "the log has more than {} metrics", kMetricsMax);
      means_.emplace_back();
      column = names_.insert(names_.end(), std::string(line.name));
    }
    const size_t place = places_.place_of(line.epoch);
    if (place >= kEpochsMax) return fail(Code::kData, "the log has more than {} epochs", kEpochsMax);
    std::vector<Mean>& means = means_[static_cast<size_t>(column - names_.begin())];
    if (place >= means.size()) means.resize(place + 1);
    means[place].sum += line.value;
    means[place].count++;
    return {};
  }

  [[nodiscard]] bool empty() const { return places_.epochs().empty(); }
  [[nodiscard]] const std::vector<std::string>& names() const { return names_; }

  [[nodiscard]] std::string text(const std::vector<TableColumn>& columns, ParseLogOptions::Format format) const {
    const bool markdown = format == ParseLogOptions::Format::kMarkdown;
    const char* separator = markdown ? " | " : "\t";
    std::string text = markdown ? "| epoch" : "epoch";
    for (const TableColumn& column : columns) text += separator + column.title;
    if (markdown) {
      text += " |\n| ---";
      for (size_t i = 0; i < columns.size(); i++) text += " | ---";
    }
    text += markdown ? " |\n" : "\n";
    const std::vector<int64_t>& epochs = places_.epochs();
    for (size_t row = 0; row < epochs.size(); row++) {
      text += fmt::format("{}{:2}", markdown ? "| " : "", static_cast<uint64_t>(epochs[row]) + 1);
      for (const TableColumn& column : columns) {
        const double value = value_of(column.name, row);
        text += separator + (column.title == "time" ? fmt::format("{:.1f}", value) : fmt::format("{:f}", value));
      }
      text += markdown ? " |\n" : "\n";
    }
    return text;
  }

 private:
  [[nodiscard]] double value_of(const std::string& name, size_t row) const {
    const auto found = static_cast<size_t>(std::ranges::find(names_, name) - names_.begin());
    return found == names_.size() || row >= means_[found].size() ? Mean().value() : means_[found][row].value();
  }

  EpochPlaces places_;
  std::vector<std::string> names_;        // names of the values, such as "Train-accuracy", as they appear in lines
  std::vector<std::vector<Mean>> means_;  // one list for each name, indexed by the epoch's position
};

namespace {

bool has(const std::vector<std::string>& names, const std::string& name) {
  return std::ranges::find(names, name) != names.end();
}

std::string time_name(const std::vector<std::string>& names) {
  const auto found = std::ranges::find_if(names, [](const std::string& name) { return name.starts_with(kTime); });
  return found == names.end() ? "" : *found;
}

std::vector<TableColumn> columns_of(const std::vector<std::string>& metrics, const std::vector<std::string>& names) {
  std::vector<TableColumn> columns;
  columns.reserve(2 * metrics.size() + 1);
  for (const std::string& metric : metrics) columns.push_back({"train-" + metric, "Train-" + metric});
  for (const std::string& metric : metrics) columns.push_back({"val-" + metric, "Validation-" + metric});
  columns.push_back({"time", time_name(names)});
  return columns;
}

// The columns of the programs before MXNet 1.2, for a log that has another metric instead of accuracy.
Result<std::vector<TableColumn>> older_columns(const std::vector<std::string>& names) {
  std::vector<std::string> metrics;
  for (const std::string& name : names) {
    const std::string metric(metric_of(name));
    if (!metric.empty() && !has(metrics, metric)) metrics.push_back(metric);
  }
  const auto accuracy = std::ranges::find_if(metrics, is_accuracy);
  if (accuracy == metrics.end() && metrics.size() > 1) {
    return fail(Code::kData, "the log has the metrics {}: choose among them with --metric-names",
                fmt::join(metrics, ", "));
  }
  std::vector<TableColumn> columns = {{"train-accuracy", ""}, {"valid-accuracy", ""}, {"time", time_name(names)}};
  const std::string metric = accuracy != metrics.end() ? *accuracy : metrics.empty() ? "" : metrics.front();
  for (const std::string& name : names) {
    if (metric.empty() || metric_of(name) != metric) continue;
    columns[name.starts_with("Train") ? 0 : 1].name = name;
  }
  return columns;
}

}  // namespace

LogTable::LogTable(ParseLogOptions options) : options_(std::move(options)), values_(std::make_unique<Values>()) {}
LogTable::~LogTable() = default;

Result<> LogTable::add(std::string_view line) {
  if (line.find("Epoch[") == std::string_view::npos) return {};  // this skips most lines of a verbose program
  const std::optional<EpochValue> value = epoch_value(line);
  return value ? values_->add(*value) : Result<>{};
}

Result<std::string> LogTable::text() const {
  if (values_->empty()) {
    return fail(Code::kData, "the log contains no line from the end of an epoch (\"Epoch[0] Train-accuracy=...\")");
  }
  const bool asks = !options_.metric_names.empty();
  const std::vector<std::string> metrics = asks ? options_.metric_names : std::vector<std::string>{"accuracy"};
  std::vector<std::string> missing;
  for (const std::string& name : metrics) {
    if (!has(values_->names(), "Train-" + name) && !has(values_->names(), "Validation-" + name))
      missing.push_back(name);
  }
  if (missing.empty()) return values_->text(columns_of(metrics, values_->names()), options_.format);
  if (asks) {
    return fail(Code::kData, "the log has no metric {} at the end of an epoch (\"Epoch[0] Train-{}=...\")",
                fmt::join(missing, " or "), missing.front());
  }
  DT_TRY(const std::vector<TableColumn> columns, older_columns(values_->names()));
  return values_->text(columns, options_.format);
}

Result<ParsedLogs> parse_logs(const std::vector<std::string>& files, const ParseLogOptions& options) {
  ParsedLogs parsed;
  LogTable table(options);
  for (const std::string& file : files) {
    DT_TRY(LineReader lines, LineReader::open(file));
    for (;;) {
      DT_TRY(const std::optional<std::string_view> line, lines.next());
      if (!line) break;
      DT_TRY_VOID(table.add(*line), "reading line {} of {}", lines.number(), file);
    }
    if (std::string cut = lines.cut_lines_text(); !cut.empty()) parsed.notes.push_back(std::move(cut));
  }
  DT_TRY(parsed.table, table.text());
  return parsed;
}

}  // namespace dtrain::observe
