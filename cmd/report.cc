#include "observe/report/report.h"

#include "base/file.h"
#include "job/process/build_id.h"
#include "output.h"
#include "tool.h"

namespace dtrain::cmd {

namespace {

struct ReportOptions {
  std::string out;
};

}  // namespace

Result<int> report(const Call& call) {
  const job::FlagTable<ReportOptions> table({
      {.name = "out",
       .value = "FILE.html",
       .help = "file to write",
       .bind = DT_FIELD(ReportOptions, out),
       .default_text =
           "report.html in the run directory; for several runs or for a log, report.html in the working directory"},
  });
  constexpr size_t kRunsMax = 50;
  DT_TRY(const ToolLine<ReportOptions> line,
         read_tool_line(table, "dtrain report RUN-DIRECTORY|LOG... [FLAGS]", call, 1, kRunsMax));
  if (line.help) return 0;
  std::string out = line.options.out;
  if (!out.empty()) DT_TRY_VOID(check_ending(out, {".html", ".htm"}));
  DT_TRY(const std::vector<observe::Run> runs, observe::read_runs(line.positionals));
  if (out.empty()) out = runs.size() == 1 && runs[0].is_directory ? runs[0].path + "/report.html" : "report.html";
  DT_TRY_VOID(write_file_atomic(out, observe::report_page(runs, fmt::format("dtrain {}", job::build_id()))));
  fmt::print("wrote {}\n", out);
  return 0;
}

}  // namespace dtrain::cmd
