// Command lines of the tools: a small table of flags, positionals, and --help.
#pragma once

#include <algorithm>
#include <cstdio>
#include <string>
#include <vector>

#include "base/log.h"
#include "command.h"
#include "job/flags/rows.h"

namespace dtrain::cmd {

// A tool's row for a flag that training has too. Uses the names, help text and limits of training's table, and binds
// them to a member of the tool's Options.
template <class Options>
job::FlagRow<Options> training_row(const std::string& name, job::Binding<Options> bind,
                                   const std::string& default_text = "") {
  const Result<size_t> index = job::training_flags().find("--" + name);
  DT_CHECK(index, "no flag '{}'", name);
  const job::Row& row = job::training_flags().rows()[*index];
  return {.name = row.name,
          .aliases = row.aliases,
          .value = row.value,
          .help = row.help,
          .bind = std::move(bind),
          .default_text = default_text,
          .choices = row.choices,
          .later = row.later,
          .min = row.min,
          .max = row.max};
}

// Rows that several benchmarks share.
template <class Options>
job::FlagRow<Options> num_batches_row(job::Binding<Options> bind) {
  return {.name = "num-batches",
          .value = "N",
          .help = "number of batches to measure",
          .bind = std::move(bind),
          .min = 1,
          .max = job::kStepsMax};
}
template <class Options>
job::FlagRow<Options> json_row(job::Binding<Options> bind) {
  return {.name = "json", .help = "print only the line of JSON, without the report", .bind = std::move(bind)};
}

// A tool's log; live lines appear if stderr is a terminal.
Log tool_log(const std::string& name, const Call& call);

// Refuses flags that only a later version of a tool has.
job::RefusedFlag later(std::vector<std::string> spellings);

// The text of --help of a sub-command.
std::string command_text(const std::string& usage, const std::vector<job::FlagHelp>& flags);

// Handles --help: prints that text, or passes its parts to call.take_help.
void show_help(const Call& call, const std::string& usage, std::vector<job::FlagHelp> flags);

// The options of a tool that has no flags.
struct NoFlags {};

// A tool's parsed command line.
template <class Options>
struct ToolLine {
  bool help = false;  // --help was given and has been printed; the rest is not set
  Options options;
  std::vector<std::string> positionals;
};

// `usage` is for example "dtrain parse-log FILE [FLAGS]"; an explanation may follow on further lines. Code::kUsage
// unless there are `least` to `most` positionals.
template <class Options>
Result<ToolLine<Options>> read_tool_line(const job::FlagTable<Options>& table, const std::string& usage,
                                         const Call& call, size_t least, size_t most) {
  ToolLine<Options> line;
  line.help = job::asks_for_help(call.arguments);
  if (line.help) {
    show_help(call, usage, table.flag_helps());
    return line;
  }
  DT_TRY(const std::vector<job::Setting> settings, table.read(call.arguments, line.positionals));
  for (const job::Setting& setting : settings) DT_TRY_VOID(table.apply(setting, line.options));
  if (line.positionals.size() < least || line.positionals.size() > most) {
    return fail(Code::kUsage, "usage: {}", usage.substr(0, usage.find('\n')));
  }
  if (std::ranges::find(line.positionals, "") != line.positionals.end()) {
    return fail(Code::kUsage, "an argument is empty; usage: {}", usage.substr(0, usage.find('\n')));
  }
  return line;
}

// Finds mistyped flags of a tool, which would otherwise be reported as flags of the job. `own`: the tool's spellings.
Result<> check_rest(const std::vector<std::string>& own, const std::vector<std::string>& rest);

// The flags of a tool, and those of the job, which may be mixed with them.
template <class Options>
struct MixedLine {
  Options options;
  std::vector<std::string> job;
};
template <class Options>
Result<MixedLine<Options>> read_mixed_line(const job::FlagTable<Options>& table,
                                           const std::vector<std::string>& arguments) {
  DT_TRY(job::CommandLine line, job::read_command_line(table.spellings(), arguments));
  std::vector<std::string> own;
  for (const job::FlagRow<Options>& row : table.rows()) own.push_back(row.spelling());
  DT_TRY_VOID(check_rest(own, line.extras));
  MixedLine<Options> mixed{.options = {}, .job = std::move(line.extras)};
  for (const job::GivenFlag& given : line.given) {
    DT_TRY_VOID(table.apply({given.flag, given.spelling, given.value}, mixed.options));
  }
  return mixed;
}

}  // namespace dtrain::cmd
