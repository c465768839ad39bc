#include "tools/parse_log.h"

#include <algorithm>
#include <cstdint>
#include <limits>
#include <map>
#include <optional>

#include "observe/runs/log_line.h"

namespace dtrain::tools {
namespace {

// A column of the table, and the expression that fills it: `.*Epoch\[(\d+)\] PREFIX.*=([.\d]+)`.
struct Column {
  std::string prefix;
  std::string title;
};

std::vector<Column> columns_of(LogFamily family, const ParseLogOptions& options) {
  if (family == LogFamily::kUpTo11) {
    return {{"Train", "train-accuracy"}, {"Valid", "valid-accuracy"}, {"Time", "time"}};
  }
  std::vector<Column> columns;
  for (const std::string& name : options.metric_names) columns.push_back({"Train-" + name, "train-" + name});
  for (const std::string& name : options.metric_names) columns.push_back({"Validation-" + name, "val-" + name});
  columns.push_back({"Time", "time"});
  return columns;
}

struct Mean {
  double sum = 0;
  int64_t count = 0;
  [[nodiscard]] double value() const {
    return count == 0 ? std::numeric_limits<double>::quiet_NaN() : sum / static_cast<double>(count);
  }
};

struct EpochRow {
  int64_t epoch;
  std::vector<Mean> means;  // by column
};

class Table {
 public:
  explicit Table(std::vector<Column> columns) : columns_(std::move(columns)) {}

  // Each line counts for the first expression that matches it.
  void add(std::string_view line) {
    for (size_t i = 0; i < columns_.size(); i++) {
      const std::optional<observe::EpochValue> match = observe::epoch_value(line, columns_[i].prefix);
      if (!match) continue;
      Mean& mean = row(match->epoch).means[i];
      mean.sum += match->value;
      mean.count++;
      return;
    }
  }

  [[nodiscard]] bool empty() const { return rows_.empty(); }

  [[nodiscard]] std::string text(ParseLogOptions::Format format) const {
    const bool markdown = format == ParseLogOptions::Format::kMarkdown;
    const char* separator = markdown ? " | " : "\t";
    std::string text = markdown ? "| epoch" : "epoch";
    for (const Column& column : columns_) text += separator + column.title;
    if (markdown) {
      text += " |\n| ---";
      for (size_t i = 0; i < columns_.size(); i++) text += " | ---";
    }
    text += markdown ? " |\n" : "\n";
    for (const EpochRow& row : rows_) {
      text += fmt::format("{}{:2}", markdown ? "| " : "", static_cast<uint64_t>(row.epoch) + 1);
      for (size_t i = 0; i < columns_.size(); i++) {
        const double mean = row.means[i].value();
        text += separator + (i + 1 == columns_.size() ? fmt::format("{:.1f}", mean) : fmt::format("{:f}", mean));
      }
      text += markdown ? " |\n" : "\n";
    }
    return text;
  }

 private:
  EpochRow& row(int64_t epoch) {
    const auto [found, is_new] = row_of_.try_emplace(epoch, rows_.size());
    if (is_new) rows_.push_back({epoch, std::vector<Mean>(columns_.size())});
    return rows_[found->second];
  }

  std::vector<Column> columns_;
  std::vector<EpochRow> rows_;
  std::map<int64_t, size_t> row_of_;
};

}  // namespace

Result<std::string> parse_log(std::string_view log, LogFamily family, const ParseLogOptions& options) {
  Table table(columns_of(family, options));
  for (size_t begin = 0; begin < log.size();) {
    const size_t end = std::min(log.find('\n', begin), log.size());
    table.add(log.substr(begin, end - begin));
    begin = end + 1;
  }
  if (table.empty())
    return fail(Code::kData, "the log contains no line from the end of an epoch (\"Epoch[0] Train-accuracy=...\")");
  return table.text(options.format);
}

Result<std::string> parse_log(std::string_view log, const ParseLogOptions& options) {
  // Lines with times match both families. The newer one is meant only if a metric is named as it was asked for.
  const bool newer =
      std::any_of(options.metric_names.begin(), options.metric_names.end(), [&](const std::string& name) {
        return log.find("] Train-" + name) != std::string_view::npos ||
               log.find("] Validation-" + name) != std::string_view::npos;
      });
  return parse_log(log, newer ? LogFamily::kFrom12 : LogFamily::kUpTo11, options);
}

}  // namespace dtrain::tools
