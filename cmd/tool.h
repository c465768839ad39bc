// Command lines of the tools: each has a small table of flags, positional arguments, and --help.
#pragma once

#include <algorithm>
#include <cstdio>
#include <string>
#include <vector>

#include "base/log.h"
#include "command.h"
#include "job/flags/rows.h"

namespace dtrain::cmd {

// A row of a tool's table for a flag that training also has. The names, the help text and the limits are those in
// training's table; the value is bound to a member of the tool's Options.
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

// Rows that several of the benchmarks have.
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

// The log of a tool. Live lines are shown if stderr is a terminal.
Log tool_log(const std::string& name, const Call& call);

// Refuses flags that only later versions of a tool have.
job::RefusedFlag later(std::vector<std::string> spellings);

// The text that a sub-command prints for --help.
std::string command_text(const std::string& usage, const std::vector<job::FlagHelp>& flags);

// Handles --help: prints this text, or passes its parts to call.take_help if that is set.
void show_help(const Call& call, const std::string& usage, std::vector<job::FlagHelp> flags);

// The options of a tool without flags.
struct NoFlags {};

// The parsed command line of a tool.
template <class Options>
struct ToolLine {
  bool help = false;  // --help was given and has been handled; the other members are not set
  Options options;
  std::vector<std::string> positionals;
};

// `usage`: for example "dtrain parse-log FILE [FLAGS]"; a description may follow on further lines. Code::kUsage if
// there are fewer than `least` or more than `most` positional arguments.
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

// Finds misspelled flags of a tool, which would otherwise be reported as unknown flags of the job. `own`: the spellings
// of the tool's flags.
Result<> check_rest(const std::vector<std::string>& own, const std::vector<std::string>& rest);

// The flags of a tool, and the flags of a job that may be mixed with them.
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
