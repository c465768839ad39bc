#include "dataset/get.h"

#include "base/host_limits.h"
#include "requests.h"
#include "signal_thread.h"
#include "tool.h"

namespace dtrain::cmd {

namespace {

using DataGetOptions = dataset::DataGetOptions;

job::FlagTable<DataGetOptions> data_get_flags() {
  return {{
      {.name = "out",
       .value = "DIR",
       .help = "directory for the data set",
       .bind = DT_FIELD(DataGetOptions, out),
       .default_text = "data/NAME"},
      {.name = "url",
       .value = "ADDRESS",
       .help = "URL of the directory with the published files: http, https, or file:///DIRECTORY",
       .bind = DT_FIELD(DataGetOptions, url),
       .default_text = "the URL of the data set's authors; none for imagenet"},
      {.name = "checksums",
       .help = "refuse files whose checksums differ from those of the published files",
       .bind = DT_FIELD(DataGetOptions, checks)},
      {.name = "resize",
       .value = "N",
       .help = "imagenet: resize training images so that the shorter edge has N pixels; 0 keeps the size",
       .bind = DT_FIELD(DataGetOptions, resize),
       .min = 0,
       .max = job::kImageEdgeMax},
      {.name = "val-resize",
       .value = "N",
       .help = "imagenet: resize validation images so that the shorter edge has N pixels; 0 keeps the size",
       .bind = DT_FIELD(DataGetOptions, val_resize),
       .min = 0,
       .max = job::kImageEdgeMax},
      {.name = "quality",
       .value = "N",
       .help = "imagenet: quality of the JPEGs, 1 to 100",
       .bind = DT_FIELD(DataGetOptions, quality),
       .min = 1,
       .max = 100},
      {.name = "num-thread",
       .aliases = {"--num_thread", "--threads"},
       .value = "N",
       .help = "number of threads that encode images",
       .bind = DT_FIELD(DataGetOptions, threads),
       .default_text = "cores of the host",
       .min = 1,
       .max = job::kThreadsMax},
  }};
}

constexpr const char* kDataGetUsage =
    "dtrain data get mnist|cifar10|cifar100|imagenet [FLAGS]\n"
    "Downloads a data set, checks it, and writes the files that --data-dir needs. To\n"
    "continue an interrupted download, repeat the command. FLAGS are:";

// The command that trains on the data set, for the last line of the output.
std::string training_command(const std::string& name, const std::string& directory) {
  const std::string network = name == "mnist"      ? "lenet"
                              : name == "imagenet" ? "resnet --num-layers 50"
                                                   : "inception-bn-28-small";
  return fmt::format("dtrain --preset {} --network {} --data-dir {}", name, network, directory);
}

Result<ToolLine<DataGetOptions>> read_data_get(const Call& call) {
  DT_TRY(ToolLine<DataGetOptions> line, read_tool_line(data_get_flags(), kDataGetUsage, call, 1, 1));
  if (line.help) return line;
  if (line.options.out.empty()) line.options.out = "data/" + line.positionals[0];
  if (line.options.threads == 0) line.options.threads = usable_cores();
  return line;
}

}  // namespace

Result<dataset::DataGetOptions> data_get_request(const Call& call) {
  DT_TRY(const ToolLine<DataGetOptions> line, read_data_get(call));
  return line.options;
}

Result<int> data_get(const Call& call) {
  DT_TRY(ToolLine<DataGetOptions> line, read_data_get(call));
  if (line.help) return 0;
  const std::string& name = line.positionals[0];
  DataGetOptions& options = line.options;
  DT_TRY(const dataset::PublishedSet set, dataset::published_set(name));
  const SignalThread signals;
  options.stop = &signals.signals().stop;
  DT_TRY_VOID(dataset::get_data(set, options, tool_log("data", call)));
  fmt::print("{}\n", training_command(name, options.out));
  return 0;
}

}  // namespace dtrain::cmd
