#include "dataset/stat.h"

#include <fmt/ranges.h>
#include <algorithm>
#include <filesystem>

#include "base/host_limits.h"
#include "data/sources/record_source.h"
#include "job/flags/flags.h"
#include "notes.h"
#include "output.h"
#include "tool.h"

namespace dtrain::cmd {

namespace {

struct DataStatOptions {
  dataset::DataStatOptions stat;
  bool json = false;
  int64_t sheet = 0, npy = 0;
  std::string out;
};

job::FlagTable<DataStatOptions> data_stat_flags() {
  return {{
      {.name = "decode",
       .help = "decode every image, to find damage beyond the headers",
       .bind = DT_FIELD(DataStatOptions, stat.decodes)},
      {.name = "sheet",
       .value = "N",
       .help = "instead of printing statistics, write the first N training images of an epoch, augmented as "
               "TRAINING-FLAGS say, as one PNG",
       .bind = DT_FIELD(DataStatOptions, sheet, "0"),
       .default_text = "off",
       .min = 1,
       .max = 10'000},
      {.name = "npy",
       .value = "N",
       .help = "instead of printing statistics, write the first N training images of an epoch, augmented as "
               "TRAINING-FLAGS say and normalized, as one NumPy array of float32 [N, channels, height, width]",
       .bind = DT_FIELD(DataStatOptions, npy, "0"),
       .default_text = "off",
       .min = 1,
       .max = 1'000'000},
      {.name = "out",
       .value = "FILE",
       .help = "with --sheet or --npy: file to write",
       .bind = DT_FIELD(DataStatOptions, out),
       .default_text = "sheet.png or images.npy"},
      {.name = "json", .help = "print JSON instead of the report", .bind = DT_FIELD(DataStatOptions, json)},
  }};
}

constexpr const char* kDataStatUsage =
    "dtrain data stat FILE.rec|DIRECTORY ... [FLAGS] [TRAINING-FLAGS]\n"
    "Prints how many records, labels, sizes and formats record files have, and which\n"
    "records are broken. With --sheet or --npy, writes training images after the\n"
    "augmentation that TRAINING-FLAGS set (dtrain --help images; --image-shape and\n"
    "--seed too). FLAGS are:";

// Removes the words that do not belong to a flag from `words`, wherever they are, and returns them. Flags of training
// with their values, and unknown flags, remain.
Result<std::vector<std::string>> take_names(std::vector<std::string>& words) {
  DT_TRY(job::CommandLine line, job::read_command_line(job::training_flags().spellings(), words));
  words.clear();
  for (const job::GivenFlag& given : line.given) words.push_back(fmt::format("{}={}", given.spelling, given.value));
  const auto is_name = [](const std::string& word) { return !word.starts_with('-'); };
  const auto flags = std::stable_partition(line.extras.begin(), line.extras.end(), is_name);
  words.insert(words.end(), flags, line.extras.end());
  return std::vector<std::string>(line.extras.begin(), flags);
}

Result<int> print_stat(const std::vector<std::string>& names, DataStatOptions options, const Log& log) {
  std::vector<std::string> files;
  for (const std::string& name : names) {
    DT_TRY(const std::vector<std::string> found, data::list_record_files(name));
    files.insert(files.end(), found.begin(), found.end());
  }
  options.stat.threads = usable_cores();
  DT_TRY(const dataset::DataStat stat, dataset::data_stat(files, options.stat, log));
  fmt::print("{}", options.json ? stat.json() + "\n" : stat.text());
  return 0;
}

Result<int> write_images(const std::vector<std::string>& names, const MixedLine<DataStatOptions>& line,
                         const Call& call, const Log& log) {
  const DataStatOptions& options = line.options;
  if (options.sheet > 0 && options.npy > 0) {
    return fail(Code::kUsage, "--sheet and --npy write different files: give only one of them");
  }
  if (options.json || options.stat.decodes) {
    return fail(Code::kUsage, "{} is for printing statistics: leave it out, or leave out {}",
                options.json ? "--json" : "--decode", options.sheet > 0 ? "--sheet" : "--npy");
  }
  std::vector<std::string> job = {"--data-train", fmt::format("{}", fmt::join(names, ";"))};
  job.insert(job.end(), line.job.begin(), line.job.end());
  DT_TRY(const job::Parsed parsed, job::parse_flags(job, call.environment));
  for (const std::string& text : parsed.notes) show_note(text);
  const bool draws = options.sheet > 0;
  const std::string out = !options.out.empty() ? options.out : draws ? "sheet.png" : "images.npy";
  DT_TRY_VOID(check_ending(out, {draws ? ".png" : ".npy"}));
  DT_TRY_VOID(draws ? dataset::write_sheet(parsed.flags, options.sheet, out, log)
                    : dataset::write_array(parsed.flags, options.npy, out, log));
  fmt::print("{}\n", out);
  return 0;
}

}  // namespace

Result<int> data_stat(const Call& call) {
  const job::FlagTable<DataStatOptions> table = data_stat_flags();
  if (job::asks_for_help(call.arguments)) {
    show_help(call, kDataStatUsage, table.flag_helps());
    return 0;
  }
  DT_TRY(MixedLine<DataStatOptions> line, read_mixed_line(table, call.arguments));
  DT_TRY(const std::vector<std::string> names, take_names(line.job));
  if (names.empty() || std::ranges::find(names, "") != names.end()) {
    const std::string_view usage = kDataStatUsage;
    return fail(Code::kUsage, "usage: {}", usage.substr(0, usage.find('\n')));
  }
  const Log log = tool_log("stat", call);
  if (line.options.sheet > 0 || line.options.npy > 0) return write_images(names, line, call, log);
  if (!line.options.out.empty()) return fail(Code::kUsage, "--out has an effect only with --sheet N or --npy N");
  if (!line.job.empty()) {
    return fail(Code::kUsage, "'{}': training flags have an effect only with --sheet N or --npy N", line.job[0]);
  }
  return print_stat(names, line.options, log);
}

}  // namespace dtrain::cmd
