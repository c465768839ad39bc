#include "observe/runs/parse_log.h"

#include <algorithm>
#include <filesystem>

#include "base/words.h"
#include "plan/speed_log.h"
#include "tool.h"

namespace dtrain::observe {

constexpr std::array<job::Named<ParseLogOptions::Format>, 2> names_of(ParseLogOptions::Format) {
  return {{{"markdown", ParseLogOptions::Format::kMarkdown}, {"none", ParseLogOptions::Format::kNone}}};
}

}  // namespace dtrain::observe

namespace dtrain::cmd {
namespace {

bool is_there(const std::string& path) {
  std::error_code ignored;
  return std::filesystem::exists(path, ignored);
}

// MXNet's program takes all words up to the next flag as metric names. The last of them is taken as the log if no other
// word names an existing file.
std::vector<std::string> with_joined_names(const std::vector<std::string>& words) {
  const auto is_flag = [](const std::string& word) { return word.size() > 1 && word.front() == '-'; };
  const auto flag = std::ranges::find(words, "--metric-names");
  if (flag == words.end()) return words;
  auto end = std::find_if(flag + 1, words.end(), is_flag);
  const bool has_log = std::any_of(words.begin(), flag, is_there) || std::any_of(end, words.end(), is_there);
  if (!has_log && end - flag > 2) end--;
  if (end - flag < 3) return words;
  std::vector<std::string> joined_words(words.begin(), flag + 1);
  joined_words.push_back(joined({flag + 1, end}, ","));
  joined_words.insert(joined_words.end(), end, words.end());
  return joined_words;
}

}  // namespace

Result<int> parse_log(const Call& whole) {
  Call call = whole;
  call.arguments = with_joined_names(call.arguments);
  using Options = observe::ParseLogOptions;
  const job::FlagTable<Options> table({
      {.name = "format",
       .value = "markdown|none",
       .help = "format of the table: markdown or none (plain columns)",
       .bind = DT_FIELD(Options, format)},
      {.name = "metric-names",
       .value = "NAME,NAME",
       .help = "metrics to print, one per column; may also be separated by spaces: NAME NAME",
       .bind = DT_FIELD(Options, metric_names),
       .default_text = "accuracy"},
  });
  DT_TRY(const ToolLine<Options> line,
         read_tool_line(table, "dtrain parse-log FILE|RUN-DIRECTORY [FLAGS]", call, 1, 1));
  if (line.help) return 0;
  DT_TRY(const std::vector<std::string> logs, plan::logs_at(line.positionals[0]));
  DT_TRY(const observe::ParsedLogs parsed, observe::parse_logs(logs, line.options), "reading {}", line.positionals[0]);
  std::fputs(parsed.table.c_str(), stdout);
  for (const std::string& note : parsed.notes) std::fputs(("warning: " + note + "\n").c_str(), stderr);
  return 0;
}

}  // namespace dtrain::cmd
