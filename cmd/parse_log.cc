#include "tools/parse_log.h"

#include "base/file.h"
#include "tool.h"
#include "tools/speed_log.h"

namespace dtrain::tools {

constexpr std::array<job::Named<ParseLogOptions::Format>, 2> names_of(ParseLogOptions::Format) {
  return {{{"markdown", ParseLogOptions::Format::kMarkdown}, {"none", ParseLogOptions::Format::kNone}}};
}

}  // namespace dtrain::tools

namespace dtrain::cmd {

Result<int> parse_log(const Call& call) {
  using Options = tools::ParseLogOptions;
  const job::FlagTable<Options> table({
      {.name = "format",
       .value = "markdown|none",
       .help = "format of the table: Markdown, or none (plain columns)",
       .bind = DT_FIELD(Options, format)},
      {.name = "metric-names",
       .value = "NAME,NAME",
       .help = "metrics to print, one column for each",
       .bind = DT_FIELD(Options, metric_names)},
  });
  DT_TRY(const ToolLine<Options> line,
         read_tool_line(table, "dtrain parse-log FILE|RUN-DIRECTORY [FLAGS]", call, 1, 1));
  if (line.help) return 0;
  DT_TRY(const std::vector<std::string> logs, tools::logs_at(line.positionals[0]));
  std::string log;
  for (const std::string& file : logs) {
    DT_TRY(const std::string text, read_file(file, kDataBytesMax));
    log += text + "\n";
  }
  DT_TRY(const std::string text, tools::parse_log(log, line.options), "reading {}", line.positionals[0]);
  std::fputs(text.c_str(), stdout);
  return 0;
}

}  // namespace dtrain::cmd
