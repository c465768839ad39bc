#include "tools/simulate.h"

#include <cstdio>

#include "base/file.h"
#include "job/process/exit_code.h"
#include "tool.h"

namespace dtrain::cmd {
namespace {

struct Options {
  tools::SimulateOptions simulation;
  std::string replay, csv;
  bool json = false;
};

using Row = job::FlagRow<Options>;

std::vector<Row> cluster_rows() {
  return {
      {.name = "scheme",
       .value = "bsp|asp|ssp|gsp",
       .help = "who waits for whom",
       .bind = DT_FIELD(Options, simulation.scheme),
       .choices = {"all", "bsp", "asp", "ssp", "gsp"}},
      {.name = "workers",
       .value = "N",
       .help = "at the beginning",
       .bind = DT_FIELD(Options, simulation.workers),
       .default_text = "as many as --speeds, or 4",
       .min = 1,
       .max = job::kProcessesMax},
      {.name = "servers",
       .value = "N",
       .help = "each has a part of every step's bytes",
       .bind = DT_FIELD(Options, simulation.servers),
       .min = 1,
       .max = job::kProcessesMax},
      {.name = "steps",
       .value = "N",
       .help = "of an epoch: each worker's; in asp, gsp and with --backup the workers' mean",
       .bind = DT_FIELD(Options, simulation.steps),
       .min = 1,
       .max = job::kStepsMax},
      {.name = "num-epochs",
       .aliases = {"--num-epoch"},
       .value = "N",
       .help = "epochs; between them all workers meet",
       .bind = DT_FIELD(Options, simulation.num_epochs),
       .min = 1,
       .max = job::kEpochsMax},
      {.name = "speeds",
       .value = "MSxCOUNT,...|FILE",
       .help = "ms of a worker's forward and backward, in order of rank; a file has such words",
       .bind = DT_FIELD(Options, simulation.speeds),
       .default_text = "100 each"},
      {.name = "jitter",
       .value = "P",
       .help = "a step takes up to this part more or less",
       .bind = DT_FIELD(Options, simulation.jitter),
       .min = 0,
       .max = 1},
      {.name = "seed", .value = "N", .help = "of all that is drawn", .bind = DT_FIELD(Options, simulation.seed)},
  };
}

std::vector<Row> network_rows() {
  return {
      {.name = "latency",
       .value = "MS",
       .help = "from host to host",
       .bind = DT_FIELD(Options, simulation.latency_ms),
       .min = 0,
       .max = 1e6},
      {.name = "bandwidth",
       .value = "GBPS",
       .help = "Gbit/s of a host, each way; 0: endless",
       .bind = DT_FIELD(Options, simulation.bandwidth),
       .min = 0,
       .max = 1e6},
      {.name = "bytes",
       .value = "N",
       .help = "of a step's gradients, and of its weights (ResNet-50's)",
       .bind = DT_FIELD(Options, simulation.bytes),
       .min = 0,
       .max = 1e15},
      training_row<Options>("inject", DT_FIELD(Options, simulation.inject), "none"),
      {.name = "leave-percent",
       .value = "P",
       .help = "of the workers crash at a drawn moment; servers hear of it a second later",
       .bind = DT_FIELD(Options, simulation.leave_percent),
       .min = 0,
       .max = 100},
      {.name = "join",
       .value = "STEP:COUNT,...",
       .help = "so many more workers come when the first one begins this step",
       .bind = DT_FIELD(Options, simulation.join),
       .default_text = "nobody"},
  };
}

std::vector<Row> scheme_rows() {
  return {
      training_row<Options>("staleness", DT_FIELD(Options, simulation.staleness)),
      training_row<Options>("groups-file", DT_FIELD(Options, simulation.groups_file), "a group for each speed"),
      training_row<Options>("backup", DT_FIELD(Options, simulation.backup)),
  };
}

std::vector<Row> learning_rows() {
  return {
      {.name = "loss",
       .value = "L",
       .help = "also learn: softmax regression, and the time until its loss is L; 0: do not",
       .bind = DT_FIELD(Options, simulation.loss),
       .min = 0,
       .max = 100},
      {.name = "data-dir",
       .value = "DIR",
       .help = "what it learns: the training set there (MNIST, record files)",
       .bind = DT_FIELD(Options, simulation.data_dir),
       .default_text = "pictures that are drawn"},
      {.name = "batch-size",
       .value = "B",
       .help = "of a worker's step",
       .bind = DT_FIELD(Options, simulation.batch_size),
       .min = 1,
       .max = job::kBatchMax},
      {.name = "lr",
       .value = "LR",
       .help = "of bsp and gsp, whose updates are divided by their staleness; asp and ssp take lr/W",
       .bind = DT_FIELD(Options, simulation.lr),
       .min = 0,
       .max = job::kFactorMax},
  };
}

std::vector<Row> output_rows() {
  return {
      {.name = "replay",
       .value = "FILE",
       .help = "no simulation: give the events that a server wrote (--trace-events) to the same code and print what it "
               "writes; code 1 if that is not FILE",
       .bind = DT_FIELD(Options, replay),
       .default_text = "none"},
      {.name = "csv",
       .value = "FILE",
       .help = "write scheme,quantity,index,value; index: epoch, staleness or worker",
       .bind = DT_FIELD(Options, csv),
       .default_text = "none"},
      {.name = "json", .help = "one line for machines instead of the tables", .bind = DT_FIELD(Options, json)},
  };
}

job::FlagTable<Options> flags() {
  std::vector<Row> all;
  const auto append = [&](const std::string& section, const std::vector<Row>& rows) {
    for (Row row : rows) {
      row.section = section;
      all.push_back(std::move(row));
    }
  };
  append("Job", cluster_rows());
  append("Network and faults", network_rows());
  append("Schemes", scheme_rows());
  append("Learning", learning_rows());
  append("Output", output_rows());
  return {std::move(all)};
}

Result<int> replay(const std::string& path) {
  const auto print = [](std::string_view piece) { std::fwrite(piece.data(), 1, piece.size(), stdout); };
  DT_TRY(const sync::Replay replay, tools::replay_file(path, print));
  std::fflush(stdout);
  if (!replay.difference) {
    fmt::print(stderr, "{}: {} events of {} slices have the same effects\n", path, replay.events, replay.slices);
    return job::kExitOk;
  }
  return fail(Code::kInternal, "{}: line {} is '{}', replayed it is '{}'", path, replay.difference->line,
              replay.difference->in_trace, replay.difference->replayed);
}

}  // namespace

Result<int> simulate(const Call& call) {
  DT_TRY(const ToolLine<Options> line, read_tool_line(flags(), "dtrain simulate [FLAGS]", call, 0, 0));
  if (line.help) return 0;
  const Options& options = line.options;
  if (!options.replay.empty()) return replay(options.replay);
  DT_TRY(const tools::SimulateResult result, tools::simulate(options.simulation, [&](std::string_view progress) {
           if (!options.json) fmt::print(stderr, "{}\n", progress);
         }));
  if (!options.csv.empty()) DT_TRY_VOID(write_file_atomic(options.csv, result.csv()), "writing --csv");
  std::fputs((options.json ? result.json() + "\n" : result.text()).c_str(), stdout);
  if (result.all_finished()) return job::kExitOk;
  return fail(Code::kInternal, "in one of the schemes a worker waits for ever: a bug of dtrain");
}

}  // namespace dtrain::cmd
