#include "tools/parse_log.h"

#include <algorithm>
#include <charconv>
#include <cstdint>
#include <limits>
#include <map>
#include <optional>

namespace dtrain::tools {
namespace {

constexpr std::string_view kEpoch = "Epoch[";
constexpr std::string_view kDigits = "0123456789";

// What one line says about an epoch.
struct Match {
  int64_t epoch;
  double value;
};

// A column of the table, and the expression that fills it: `.*Epoch\[(\d+)\] PREFIX.*=([.\d]+)`.
struct Column {
  std::string prefix;
  std::string title;
};

// The last '=' of a line that a digit or point follows. It is the one that the expression matches, because its second
// ".*" is greedy.
struct LastValue {
  size_t at = 0;                // of the '='
  std::optional<double> value;  // nullopt if the text is not a number: "1.2.3", "."
};

std::optional<LastValue> last_value(std::string_view line) {
  constexpr std::string_view kNumber = ".0123456789";
  for (size_t at = line.rfind('='); at != std::string_view::npos;
       at = at == 0 ? std::string_view::npos : line.rfind('=', at - 1)) {
    const std::string_view tail = line.substr(at + 1);
    const std::string_view number = tail.substr(0, tail.find_first_not_of(kNumber));
    if (number.empty()) continue;
    double value = 0;
    const auto [end, error] = std::from_chars(number.data(), number.data() + number.size(), value);
    const bool is_number = error == std::errc() && end == number.data() + number.size();
    return LastValue{at, is_number ? std::optional(value) : std::nullopt};
  }
  return std::nullopt;
}

std::optional<int64_t> epoch_at(std::string_view line, size_t at, std::string_view prefix, const LastValue& last) {
  const std::string_view rest = line.substr(at + kEpoch.size());
  const std::string_view digits = rest.substr(0, rest.find_first_not_of(kDigits));
  int64_t epoch = 0;
  if (std::from_chars(digits.data(), digits.data() + digits.size(), epoch).ec != std::errc()) return std::nullopt;
  const std::string_view after = rest.substr(digits.size());
  if (!after.starts_with("] ") || !after.substr(2).starts_with(prefix)) return std::nullopt;
  const size_t prefix_end = at + kEpoch.size() + digits.size() + 2 + prefix.size();
  if (last.at < prefix_end) return std::nullopt;
  return epoch;
}

// Written by hand because std::regex recurses to a depth that depends on the length of the line, which the file
// decides.
std::optional<Match> match_line(std::string_view line, std::string_view prefix) {
  const std::optional<LastValue> last = last_value(line);
  if (!last || !last->value) return std::nullopt;
  for (size_t at = line.rfind(kEpoch); at != std::string_view::npos;
       at = at == 0 ? std::string_view::npos : line.rfind(kEpoch, at - 1)) {
    if (const std::optional<int64_t> epoch = epoch_at(line, at, prefix, *last)) return Match{*epoch, *last->value};
  }
  return std::nullopt;
}

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
      const std::optional<Match> match = match_line(line, columns_[i].prefix);
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
