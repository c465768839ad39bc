#include "tools/parse_log.h"

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
  DT_TRY(const tools::ParsedLogs parsed, tools::parse_logs(logs, line.options), "reading {}", line.positionals[0]);
  std::fputs(parsed.table.c_str(), stdout);
  for (const std::string& note : parsed.notes) std::fputs(("warning: " + note + "\n").c_str(), stderr);
  return 0;
}

}  // namespace dtrain::cmd
