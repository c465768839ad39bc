#include "plan/simulate.h"

#include <cstdio>

#include "base/console.h"
#include "base/file.h"
#include "job/process/exit_code.h"
#include "tool.h"

namespace dtrain::cmd {
namespace {

struct SimulateOptions {
  plan::SimulateOptions simulation;
  std::string replay, csv;
  bool json = false;
};

using SimulateRow = job::FlagRow<SimulateOptions>;

std::vector<SimulateRow> cluster_rows() {
  return {
      {.name = "scheme",
       .value = "bsp|asp|ssp|gsp",
       .help = "scheme to simulate",
       .bind = DT_FIELD(SimulateOptions, simulation.scheme),
       .choices = {"all", "bsp", "asp", "ssp", "gsp"}},
      {.name = "workers",
       .value = "N",
       .help = "number of workers at the start",
       .bind = DT_FIELD(SimulateOptions, simulation.workers),
       .default_text = "number of values in --speeds, or 4",
       .min = 1,
       .max = job::kProcessesMax},
      {.name = "servers",
       .value = "N",
       .help = "number of servers, among which the bytes of a step are divided",
       .bind = DT_FIELD(SimulateOptions, simulation.servers),
       .min = 1,
       .max = job::kProcessesMax},
      {.name = "steps",
       .value = "N",
       .help = "number of steps of each worker in an epoch; with asp, gsp and --backup, the average per worker",
       .bind = DT_FIELD(SimulateOptions, simulation.steps),
       .min = 1,
       .max = job::kStepsMax},
      {.name = "num-epochs",
       .aliases = {"--num-epoch"},
       .value = "N",
       .help = "number of epochs; all workers wait for each other between epochs",
       .bind = DT_FIELD(SimulateOptions, simulation.num_epochs),
       .min = 1,
       .max = job::kEpochsMax},
      {.name = "speeds",
       .value = "MSxCOUNT,...|FILE",
       .help = "milliseconds of a forward and backward pass of each worker, by rank, or a file with these values; "
               "80x3,240 means three workers with 80 ms and one with 240 ms",
       .bind = DT_FIELD(SimulateOptions, simulation.speeds),
       .default_text = "100 each"},
      {.name = "jitter",
       .value = "P",
       .help = "largest relative deviation of the time of a step",
       .bind = DT_FIELD(SimulateOptions, simulation.jitter),
       .min = 0,
       .max = 1},
      {.name = "seed",
       .value = "N",
       .help = "seed of all random numbers",
       .bind = DT_FIELD(SimulateOptions, simulation.seed)},
  };
}

std::vector<SimulateRow> network_rows() {
  return {
      {.name = "latency",
       .value = "MS",
       .help = "latency between hosts in milliseconds",
       .bind = DT_FIELD(SimulateOptions, simulation.latency_ms),
       .min = 0,
       .max = 1e6},
      {.name = "bandwidth",
       .value = "GBPS",
       .help = "bandwidth of a host in each direction in Gbit/s; 0 means unlimited",
       .bind = DT_FIELD(SimulateOptions, simulation.bandwidth),
       .min = 0,
       .max = 1e6},
      {.name = "bytes",
       .value = "N",
       .help = "bytes of the gradients that a worker sends in a step, and of the weights that it receives; the default "
               "is the size of ResNet-50",
       .bind = DT_FIELD(SimulateOptions, simulation.bytes),
       .min = 0,
       .max = 1e15},
      training_row<SimulateOptions>("inject", DT_FIELD(SimulateOptions, simulation.inject), "none"),
      {.name = "leave-percent",
       .value = "P",
       .help = "percentage of workers that crash at a random time; the servers are told a second later",
       .bind = DT_FIELD(SimulateOptions, simulation.leave_percent),
       .min = 0,
       .max = 100},
      {.name = "join",
       .value = "STEP:COUNT,...",
       .help = "add COUNT workers when the first worker begins step STEP",
       .bind = DT_FIELD(SimulateOptions, simulation.join),
       .default_text = "none"},
  };
}

std::vector<SimulateRow> loss_rows() {
  return {
      {.name = "mtbf",
       .value = "HOURS",
       .help = "instead of comparing the schemes, compare what lost processes cost the whole job, if a worker is lost "
               "after HOURS on average (exponentially distributed), and so are the scheduler and each server",
       .bind = DT_FIELD(SimulateOptions, simulation.mtbf_hours),
       .default_text = "off",
       .min = 0,
       .max = 1e9},
      {.name = "policy",
       .value = "wait|shrink|restart",
       .help = "with --mtbf: another worker takes the place of a lost one, the job continues without it, or all start "
               "again from the last checkpoint",
       .bind = DT_FIELD(SimulateOptions, simulation.policy),
       .choices = {"all", "wait", "shrink", "restart"}},
      {.name = "scheduler-returns",
       .help = "with --mtbf: the job has --state-dir, so a lost scheduler comes back and the job continues; otherwise "
               "all start again from the last checkpoint",
       .bind = DT_FIELD(SimulateOptions, simulation.scheduler_returns)},
      {.name = "replace-time",
       .value = "TIME",
       .help = "with --mtbf: time until another process works in the place of a lost one, or until all have started "
               "again",
       .bind = DT_FIELD(SimulateOptions, simulation.replace_time),
       .min = 0,
       .max = job::kSecondsMax},
      training_row<SimulateOptions>("heartbeat-timeout", DT_FIELD(SimulateOptions, simulation.heartbeat_timeout)),
      training_row<SimulateOptions>("save-every", DT_FIELD(SimulateOptions, simulation.save_every, "off")),
      {.name = "snapshot-every",
       .value = "N",
       .help = "with --mtbf: updates between two snapshots of a server",
       .bind = DT_FIELD(SimulateOptions, simulation.snapshot_every),
       .default_text = "off",
       .min = 0,
       .max = job::kStepsMax},
  };
}

std::vector<SimulateRow> scheme_rows() {
  return {
      training_row<SimulateOptions>("staleness", DT_FIELD(SimulateOptions, simulation.staleness)),
      training_row<SimulateOptions>("groups-file", DT_FIELD(SimulateOptions, simulation.groups_file),
                                    "one group for each speed"),
      training_row<SimulateOptions>("backup", DT_FIELD(SimulateOptions, simulation.backup)),
  };
}

std::vector<SimulateRow> learning_rows() {
  return {
      {.name = "loss",
       .value = "L",
       .help = "also train a softmax regression, and report when its loss reaches L; 0 means off",
       .bind = DT_FIELD(SimulateOptions, simulation.loss),
       .min = 0,
       .max = 100},
      {.name = "data-dir",
       .value = "DIR",
       .help = "directory with the training set for --loss (MNIST or record files)",
       .bind = DT_FIELD(SimulateOptions, simulation.data_dir),
       .default_text = "synthetic images"},
      {.name = "batch-size",
       .value = "B",
       .help = "number of samples in a batch of one worker",
       .bind = DT_FIELD(SimulateOptions, simulation.batch_size),
       .min = 1,
       .max = job::kBatchMax},
      {.name = "lr",
       .value = "LR",
       .help =
           "learning rate of bsp and gsp (gsp divides it by the staleness of an update); asp and ssp use LR / workers",
       .bind = DT_FIELD(SimulateOptions, simulation.lr),
       .min = 0,
       .max = job::kFactorMax},
  };
}

std::vector<SimulateRow> simulate_output_rows() {
  return {
      {.name = "replay",
       .value = "FILE",
       .help = "instead of simulating, replay the events in FILE, which --trace-events wrote, and print the events and "
               "effects of the replay; exit code 1 if they differ from FILE",
       .bind = DT_FIELD(SimulateOptions, replay),
       .default_text = "none"},
      {.name = "csv",
       .value = "FILE",
       .help = "write the results to FILE as lines scheme,quantity,index,value, where index is an epoch, a staleness "
               "or a worker",
       .bind = DT_FIELD(SimulateOptions, csv),
       .default_text = "none"},
      {.name = "json", .help = "print one line of JSON instead of the tables", .bind = DT_FIELD(SimulateOptions, json)},
  };
}

job::FlagTable<SimulateOptions> simulate_flags() {
  std::vector<SimulateRow> all;
  const auto append = [&](const std::string& section, const std::vector<SimulateRow>& rows) {
    for (SimulateRow row : rows) {
      row.section = section;
      all.push_back(std::move(row));
    }
  };
  append("Job:", cluster_rows());
  append("Network and faults:", network_rows());
  append("Losses:", loss_rows());
  append("Schemes:", scheme_rows());
  append("Learning:", learning_rows());
  append("Output:", simulate_output_rows());
  return {std::move(all)};
}

Result<int> replay(const std::string& path) {
  const auto print = [](std::string_view piece) { std::fwrite(piece.data(), 1, piece.size(), stdout); };
  DT_TRY(const sync::Replay replay, plan::replay_file(path, print));
  std::fflush(stdout);
  if (!replay.difference) {
    fmt::print(stderr, "{}: the replay of {} events of {} slices gives the same effects\n", path, replay.events,
               replay.slices);
    return job::kExitOk;
  }
  return fail(Code::kInternal, "{}: the replay differs: line {} is '{}' in the file and '{}' in the replay", path,
              replay.difference->line, replay.difference->in_log, replay.difference->replayed);
}

}  // namespace

Result<int> simulate(const Call& call) {
  DT_TRY(const ToolLine<SimulateOptions> line, read_tool_line(simulate_flags(), "dtrain simulate [FLAGS]", call, 0, 0));
  if (line.help) return 0;
  const SimulateOptions& options = line.options;
  if (!options.replay.empty()) return replay(options.replay);
  Console console = Console::to_stderr(call.environment("TERM").value_or(""));
  const plan::SimulateProgress progress{
      .line =
          [&](std::string_view text) {
            if (!options.json) console.line(text);
          },
      .live = [&](Live live) { console.live(std::move(live), Console::Time::clock::now()); }};
  DT_TRY(const plan::SimulateResult result, plan::simulate(options.simulation, progress));
  console.finish();
  if (!options.csv.empty()) DT_TRY_VOID(write_file_atomic(options.csv, result.csv()), "writing --csv");
  std::fputs((options.json ? result.json() + "\n" : result.text()).c_str(), stdout);
  if (result.all_finished()) return job::kExitOk;
  return fail(
      Code::kInternal,
      "in one of the schemes, a worker waits forever, which is a bug in dtrain; please report it with this command");
}

}  // namespace dtrain::cmd
