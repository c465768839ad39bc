#include "tools/parse_log.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <cstdint>
#include <limits>
#include <map>
#include <optional>

#include "base/line_reader.h"
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

}  // namespace

class LogTable::Family {
 public:
  explicit Family(std::vector<Column> columns) : columns_(std::move(columns)) {}

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

  [[nodiscard]] size_t epochs() const { return rows_.size(); }
  // Whether any epoch has a value with this prefix, such as "Train-accuracy".
  [[nodiscard]] bool has(const std::string& prefix) const {
    const auto column = std::ranges::find(columns_, prefix, &Column::prefix) - columns_.begin();
    return std::ranges::any_of(rows_,
                               [&](const EpochRow& row) { return row.means[static_cast<size_t>(column)].count > 0; });
  }

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

LogTable::LogTable(ParseLogOptions options)
    : options_(std::move(options)),
      up_to_11_(std::make_unique<Family>(columns_of(LogFamily::kUpTo11, options_))),
      from_12_(std::make_unique<Family>(columns_of(LogFamily::kFrom12, options_))) {}
LogTable::~LogTable() = default;

Result<> LogTable::add(std::string_view line) {
  if (line.find("Epoch[") == std::string_view::npos) return {};  // most lines of a chatty program
  up_to_11_->add(line);
  from_12_->add(line);
  if (std::max(up_to_11_->epochs(), from_12_->epochs()) <= kEpochsMax) return {};
  return fail(Code::kData, "the log has more than {} epochs", kEpochsMax);
}

Result<std::string> LogTable::text() const {
  std::vector<std::string> missing;
  for (const std::string& name : options_.metric_names) {
    if (!from_12_->has("Train-" + name) && !from_12_->has("Validation-" + name)) missing.push_back(name);
  }
  if (missing.empty()) return text(LogFamily::kFrom12);
  // Lines with times match both families. The older one shows all metrics of a set in one column, whatever their names:
  // not what was asked for by a name.
  if (up_to_11_->epochs() > 0 && options_.metric_names != ParseLogOptions{}.metric_names) {
    return fail(Code::kData, "the log has no metric {} at the end of an epoch (\"Epoch[0] Train-{}=...\")",
                fmt::join(missing, " or "), missing.front());
  }
  return text(LogFamily::kUpTo11);
}

Result<std::string> LogTable::text(LogFamily family) const {
  const Family& table = family == LogFamily::kFrom12 ? *from_12_ : *up_to_11_;
  if (table.epochs() == 0) {
    return fail(Code::kData, "the log contains no line from the end of an epoch (\"Epoch[0] Train-accuracy=...\")");
  }
  return table.text(options_.format);
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

}  // namespace dtrain::tools
