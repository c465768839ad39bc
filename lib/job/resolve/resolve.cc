#include "job/resolve/resolve.h"

#include <fmt/ranges.h>

#include <algorithm>

#include "base/missing_data.h"
#include "job/flags/flags.h"
#include "job/flags/optimizers.h"
#include "job/flags/rows.h"
#include "job/flags/value.h"
#include "job/resolve/augmentation.h"
#include "job/resolve/cluster_flags.h"
#include "job/resolve/data_set.h"
#include "job/resolve/network_file.h"
#include "job/resolve/optimizer.h"
#include "job/resolve/reading.h"
#include "job/resolve/schedule.h"
#include "job/resolve/scheme.h"

namespace dtrain::job {

namespace {

// --update-on must name a place where the store can run the optimizer.
Result<> check_update_place(const SchemeFlags& scheme) {
  const std::string& name = scheme.kv_store;
  const Store store = store_by_name(name);
  if (scheme.update_on == UpdateOn::kWorker && store.servers && store.scheme != Scheme::kBsp) {
    return fail(
        Code::kUsage,
        "--update-on worker: {} must update on the servers, because its workers do not share one sum of gradients",
        name);
  }
  if (scheme.update_on == UpdateOn::kWorker && store.sum == Sum::kNccl && store.update == Update::kStore) {
    return fail(Code::kUsage,
                "--update-on worker: with {} each device updates its own part of the weights; use nccl_allreduce",
                name);
  }
  if (scheme.update_on == UpdateOn::kStore && store.update == Update::kWorker) {
    return fail(Code::kUsage, "--update-on store: with {}, only the workers can update the weights", name);
  }
  return {};
}

Result<> check_one_process(const Flags& flags) {
  const std::string& name = flags.job.scheme.kv_store;
  if (flags.job.num_workers > 1) {
    return fail(Code::kUsage,
                "--kv-store {} is for a single process: {} workers would train independently; use dist_sync or "
                "allreduce",
                name, flags.job.num_workers);
  }
  if (flags.launch.role != Role::kNone) {
    return fail(Code::kUsage,
                "--kv-store {} is for a single process and has no process with the role {}; use dist_sync", name,
                format_value(flags.launch.role));
  }
  return {};
}

// Determines on which hosts the processes run: those of the host file, or those that the launcher chooses.
Result<> resolve_launcher(Flags& flags) {
  LaunchFlags& launch = flags.launch;
  if (launch.hostfile.empty()) {
    if (flags.given("host-order")) return fail(Code::kUsage, "--host-order: the host file is missing (-H FILE)");
    if (launch.launcher == "ssh") return fail(Code::kUsage, "--launcher ssh: the list of hosts is missing (-H FILE)");
    return {};
  }
  if (!flags.given("num-workers"))
    return fail(Code::kUsage, "-H {}: the number of workers is missing (-n)", launch.hostfile);
  if (!flags.given("launcher")) launch.launcher = "ssh";
  return {};
}

// Refuses flags that only a launcher can apply.
Result<> check_launching(const Flags& flags) {
  const LaunchFlags& launch = flags.launch;
  const bool launches = launch.role == Role::kNone && flags.distributed();
  for (const char* name : {"env", "env-server", "env-worker", "env-file", "sync-dst-dir", "exclude"}) {
    // The launcher passes its --config file on to the processes, which ignore its own flags in it.
    if (launches || flags.source(name) != Source::kCommandLine) continue;
    return fail(Code::kUsage, "--{} is for processes that a launcher starts: give the number of workers with -n", name);
  }
  if (!launches) return {};
  if (launch.sync_dst_dir.empty()) {
    if (launch.exclude.empty()) return {};
    return fail(Code::kUsage, "--exclude has no effect without --sync-dst-dir");
  }
  if (!launch.on_other_hosts())
    return fail(Code::kUsage, "--sync-dst-dir: the list of hosts to copy to is missing (-H FILE)");
  if (launch.sync_dst_dir.front() != '/') {
    return fail(Code::kUsage, "--sync-dst-dir {}: give an absolute path", launch.sync_dst_dir);
  }
  return {};
}

// If both --advertise and --interface are set, the one from the stronger source (Source) wins. Both from one source are
// an error, except from the environment, where --advertise wins.
Result<> choose_address(Flags& flags) {
  LaunchFlags& launch = flags.launch;
  if (launch.advertise.empty() || launch.interfaces.empty()) return {};
  const Source advertise = flags.source("advertise"), interface = flags.source("interface");
  if (advertise == interface && advertise != Source::kEnvironment) {
    return fail(Code::kUsage, "--advertise and --interface both set the address of the process: give one of them");
  }
  if (advertise >= interface) {
    launch.interfaces.clear();
  } else {
    launch.advertise.clear();
  }
  return {};
}

// Resolves the store and the numbers of workers and servers. Without -n, --launcher and --role there is one process.
Result<> resolve_store(Flags& flags) {
  JobFlags& job = flags.job;
  const bool several = flags.given("num-workers") || flags.given("launcher") || flags.launch.role != Role::kNone;
  if (!flags.given("kv-store")) job.scheme.kv_store = several ? "dist_sync" : "device";
  DT_TRY(job.scheme.kv_store, canonical_store_name(job.scheme.kv_store), "reading --kv-store");
  const std::string& name = job.scheme.kv_store;
  const Store store = store_by_name(name);
  DT_TRY_VOID(check_update_place(job.scheme));
  DT_TRY_VOID(check_norms(flags, store));
  if (store.servers) {
    if (!several)
      return fail(Code::kUsage, "--kv-store {} needs workers and servers: give their numbers with -n and -s", name);
    if (!flags.given("num-servers")) job.num_servers = job.num_workers;
    if (job.num_servers < 1) return fail(Code::kUsage, "-s 0: --kv-store {} needs at least one server", name);
    return {};
  }
  if (!store.spans_workers()) DT_TRY_VOID(check_one_process(flags));
  if ((job.num_servers > 0 && flags.given("num-servers")) || flags.launch.role == Role::kServer) {
    return fail(Code::kUsage, "--kv-store {} has no servers: leave out -s and --role server", name);
  }
  job.num_servers = 0;
  return {};
}

Result<> check_type(const DeviceFlags& device, const std::string& dtype) {
  if (!device.gpus.empty() || dtype == "float32") return {};
  if (dtype == "bfloat16")
    return fail(Code::kUsage, "--dtype bfloat16: in this version of dtrain, CPU devices compute in float32 only");
  return fail(
      Code::kUsage,
      "--dtype {} needs a GPU; CPU devices compute in float32 (bfloat16 on CPUs is not in this version of dtrain)",
      dtype);
}

// Turns "auto" into "dynamic" (float16) or "none", and refuses a loss scale for any other type.
Result<> resolve_loss_scale(JobFlags& job) {
  std::string& scale = job.loss_scale;
  const bool scales = job.dtype == "float16";
  if (scale == "auto") scale = scales ? "dynamic" : "none";
  double number = 0;
  if (scale == "none") return {};
  if (!scales)
    return fail(Code::kUsage, "--loss-scale {}: the loss is scaled only with --dtype float16, not with --dtype {}",
                scale, job.dtype);
  if (scale == "dynamic" || (parse_value(scale, number) && number >= 1 && number <= kLossScaleMax)) return {};
  return fail(Code::kUsage, "--loss-scale {}: give dynamic, none or a number from 1 to 2^24", scale);
}

Result<> check_devices(const Flags& flags) {
  const DeviceFlags& device = flags.device;
  DT_TRY_VOID(check_type(device, flags.job.dtype));
  if (!device.gpus.empty() && flags.given("cpus")) {
    return fail(Code::kUsage, "--gpus and --cpus exclude each other: a process has devices of one kind");
  }
  if (device.gpus.has_numbers()) DT_TRY_VOID(check_work_loads(device));
  if (std::any_of(device.work_load_list.begin(), device.work_load_list.end(), [](double x) { return x <= 0; })) {
    return fail(Code::kUsage, "--work-load-list {}: each number must be above 0", format_value(device.work_load_list));
  }
  return {};
}

Result<> check_role(const Flags& flags) {
  const LaunchFlags& launch = flags.launch;
  if (launch.role == Role::kNone) {
    std::vector<std::string> by_hand = {"scheduler", "rank"};
    // A launcher passes these flags on to its processes.
    if (!flags.distributed()) by_hand.insert(by_hand.end(), {"port", "port-range", "advertise", "interface", "bind"});
    for (const std::string& name : by_hand) {
      // Environment variables may name the scheduler for other processes.
      if (flags.source(name) > Source::kEnvironment) {
        return fail(Code::kUsage, "--{} is for a single process of a job: give its role with --role", name);
      }
    }
    return {};
  }
  const std::string role = format_value(launch.role);
  if (!flags.given("num-workers")) return fail(Code::kUsage, "--role {}: the number of workers is missing (-n)", role);
  if (launch.role != Role::kScheduler && launch.scheduler.empty()) {
    return fail(Code::kUsage, "--role {}: the scheduler's address is missing (--scheduler HOST:PORT)", role);
  }
  const int64_t ranks = launch.role == Role::kWorker   ? flags.job.num_workers
                        : launch.role == Role::kServer ? flags.job.num_servers
                                                       : 1;
  if (launch.rank && *launch.rank >= ranks && !launch.joins) {  // the job may have seats for more workers
    return fail(Code::kUsage, "--rank {}: the job has {} {}s, with ranks from 0", *launch.rank, ranks, role);
  }
  return {};
}

Result<> check_network_addresses(const LaunchFlags& launch) {
  if (launch.port > 0 && launch.port_last > 0)
    return fail(Code::kUsage, "--port and --port-range exclude each other: give one of them");
  const size_t colon = launch.scheduler.rfind(':');
  int64_t port = 0;
  if (!launch.scheduler.empty() &&
      (colon == std::string::npos || colon == 0 || !parse_value(launch.scheduler.substr(colon + 1), port) || port < 1 ||
       port > 65535)) {
    return fail(Code::kUsage, "--scheduler {}: the address must have the form HOST:PORT, with a port from 1 to 65535",
                launch.scheduler);
  }
  if (launch.tls_cert.empty() != launch.tls_key.empty()) {
    return fail(Code::kUsage, "--tls-cert and --tls-key need each other: give both");
  }
  return {};
}

Result<> check_heartbeat(const WireFlags& wire) {
  if (wire.heartbeat_timeout < 3 * wire.heartbeat_interval) {
    return fail(Code::kUsage, "--heartbeat-timeout {}: it must be at least 3 times the --heartbeat-interval of {}",
                format_value(wire.heartbeat_timeout), format_value(wire.heartbeat_interval));
  }
  return {};
}

Result<> check_inject(const Flags& flags) {
  const Inject& inject = flags.wire.inject;
  if (inject.empty()) return {};
  const std::string text = format_value(inject);
  if (!flags.distributed())
    return fail(Code::kUsage, "--inject {}: faults need a job of several processes; give the number of workers with -n",
                text);
  const JobFlags& job = flags.job;
  if (inject.touches_messages() && job.num_servers == 0) {
    return fail(Code::kUsage, "--inject {}: drop, dup and delay apply to messages to servers, but {} has no servers",
                text, job.scheme.kv_store);
  }
  return check_processes(inject,
                         {.workers = std::max(job.num_workers, job.scheme.max_workers), .servers = job.num_servers});
}

Result<> resolve_network(NetworkFlags& network) {
  if (network.initializer == "default") network.initializer = default_initializer(network.network);
  if (!network.image_shape.empty() && network.image_shape.size() != 3) {
    return fail(Code::kUsage, "--image-shape {}: the shape must have the form C,H,W",
                format_value(network.image_shape));
  }
  return {};
}

// Replaces a leading "{data-dir}/" by `directory`.
Result<> in_data_dir(const Flags& flags, const std::string& directory, std::string& path, const char* flag) {
  if (!path.starts_with(kInDataDir)) return {};
  if (flags.data.data_dir.empty()) return fail(Code::kUsage, "--{} {}: --data-dir is missing", flag, path);
  path = directory + path.substr(kInDataDir.size());
  return {};
}

Result<> resolve_data(Flags& flags) {
  DataFlags& data = flags.data;
  if (data.data_dir.empty() && !flags.launch.preset.empty() && !flags.job.augment.data_type.empty()) {
    data.data_dir = "data/" + flags.job.augment.data_type;
  }
  // The names of data sets are always relative to --data-dir, the name of a mean image only if it contains no '/'.
  DT_TRY_VOID(in_data_dir(flags, "", data.data_train, "train-dataset"));
  DT_TRY_VOID(in_data_dir(flags, "", data.data_val, "val-dataset"));
  DT_TRY_VOID(in_data_dir(flags, "", data.data_train_idx, "data-train-idx"));
  DT_TRY_VOID(in_data_dir(flags, "", data.data_val_idx, "data-val-idx"));
  DT_TRY_VOID(in_data_dir(flags, data.data_dir + "/", data.mean_img, "mean-img"));
  if (!data.path_imglist.empty() && flags.job.augment.benchmark) {
    return fail(Code::kUsage, "--path-imglist gives labels to records, but --benchmark 1 trains on synthetic data");
  }
  const bool reads = flags.launch.role == Role::kNone || flags.launch.role == Role::kWorker;
  if (reads && data.data_dir.empty() && data.data_train.empty() && !flags.job.augment.benchmark) {
    const bool searches = flags.loop.resume == "auto" || flags.loop.retrain;
    return fail(Code::kUsage, "there is no training data: give --data-dir, --data-train or --benchmark 1 ({}); {}",
                searches ? "--resume auto looks for a run with the given flags; --resume DIR takes the flags from the "
                           "run in DIR"
                         : "--help data lists the flags for it",
                kWaysToGetData);
  }
  return resolve_augmentation(flags);
}

Result<> check_metrics(const JobFlags& job) {
  for (const std::string& name : job.loss) {
    const Result<> known = check_choice(name, {"ce", "crossentropy", "nll", "nll_loss"}, {});
    if (!known) return fail(Code::kUsage, "--loss: {}", known.error().message);
  }
  return {};
}

// Validation within an epoch needs workers that all make the same number of steps.
Result<> check_validation(const JobFlags& job) {
  if (job.eval_batches_interval == 0 || (store_of(job).scheme == Scheme::kBsp && job.scheme.backup == 0)) return {};
  return fail(Code::kUsage,
              "--eval-batches-interval {}: validation within an epoch needs workers that make the same steps; {} can "
              "only validate at the end of each epoch",
              job.eval_batches_interval, job.scheme.backup > 0 ? "a job with --backup" : job.scheme.kv_store);
}

// --overwrite needs the name of the run to delete, which must not be the one to continue.
Result<> check_overwrite(const Flags& flags) {
  if (flags.launch.run_dir.empty()) {
    return fail(Code::kUsage, "--overwrite deletes the run in --run-dir, but --run-dir is missing");
  }
  if (!flags.loop.resume.empty()) {
    return fail(Code::kUsage, "--overwrite deletes a run and --resume continues it: give one of them");
  }
  if (flags.loop.load_epoch && flags.loop.model_prefix.empty()) {
    return fail(Code::kUsage,
                "--overwrite would delete the checkpoint that --load-epoch {} reads from --run-dir {}: copy it, and "
                "name the copy with --model-prefix",
                *flags.loop.load_epoch, flags.launch.run_dir);
  }
  return {};
}

// With --pretrained-model, --load-epoch is an epoch of that model, and training begins at epoch 0.
Result<> resolve_fine_tuning(Flags& flags) {
  LoopFlags& loop = flags.loop;
  NetworkFlags& network = flags.job.network;
  if (loop.pretrained_model.empty()) {
    if (flags.source("layer-before-fullc") <= Source::kEnvironment || network.layer_before_fullc.empty()) return {};
    if (flags.source("layer-before-fullc") == Source::kResumed) return {};
    // accepted without a model to fine-tune, because it is the default of MXNet's fine-tune.py
    if (network.layer_before_fullc == "flatten0") {
      network.layer_before_fullc.clear();
      return {};
    }
    return fail(Code::kUsage, "--layer-before-fullc {}: the model to fine-tune is missing (--pretrained-model)",
                network.layer_before_fullc);
  }
  if (network.layer_before_fullc.empty()) network.layer_before_fullc = "auto";
  if (!loop.resume.empty() || loop.retrain) return {};
  loop.pretrained_epoch = loop.load_epoch;
  loop.load_epoch.reset();
  return {};
}

// MXNet-G's --retrain becomes --resume auto.
Result<> resolve_loop(Flags& flags) {
  LoopFlags& loop = flags.loop;
  DT_TRY_VOID(resolve_fine_tuning(flags));
  if (loop.retrain && !loop.load_epoch && loop.resume.empty()) loop.resume = "auto";
  for (std::string* directory : {&loop.resume, &flags.launch.run_dir}) {
    while (directory->size() > 1 && directory->ends_with('/'))
      directory->pop_back();  // removes slashes at the end, because file names are appended to it
  }
  if (flags.launch.overwrite) DT_TRY_VOID(check_overwrite(flags));
  if (loop.load_epoch && !loop.resume.empty()) {
    return fail(Code::kUsage, "--load-epoch and --resume exclude each other: give one of them");
  }
  if (loop.load_epoch && *loop.load_epoch >= flags.job.num_epochs) {
    return fail(Code::kUsage,
                "--load-epoch {}: there is nothing left to train with --num-epochs {}; give a larger number",
                *loop.load_epoch, flags.job.num_epochs);
  }
  return {};
}

}  // namespace

Result<> resolve(Flags& flags) {
  DT_TRY_VOID(resolve_launcher(flags));
  DT_TRY_VOID(resolve_store(flags));
  DT_TRY_VOID(check_scheme(flags));
  DT_TRY_VOID(check_role(flags));
  DT_TRY_VOID(check_launching(flags));
  DT_TRY_VOID(check_cluster_flags(flags));
  DT_TRY_VOID(choose_address(flags));
  DT_TRY_VOID(check_network_addresses(flags.launch));
  DT_TRY_VOID(check_heartbeat(flags.wire));
  DT_TRY_VOID(check_inject(flags));
  DT_TRY_VOID(check_devices(flags));
  DT_TRY_VOID(resolve_loss_scale(flags.job));
  DT_TRY_VOID(resolve_network_file(flags));
  DT_TRY_VOID(resolve_network(flags.job.network));
  DT_TRY_VOID(resolve_data(flags));
  DT_TRY_VOID(resolve_schedule(flags));
  DT_TRY_VOID(check_metrics(flags.job));
  DT_TRY_VOID(check_validation(flags.job));
  DT_TRY_VOID(resolve_loop(flags));
  return resolve_reading(flags);
}

Result<> check_work_loads(const DeviceFlags& device) {
  const std::vector<double>& loads = device.work_load_list;
  if (loads.empty() || std::ssize(loads) == device.count()) return {};
  return fail(Code::kUsage, "--work-load-list {}: there are {} numbers for {} devices", format_value(loads),
              loads.size(), device.count());
}

Result<> check_processes(const Inject& inject, const ProcessCounts& counts) {
  for (const ProcessName& process : inject.processes()) {
    const int64_t ranks = process.role == Role::kWorker   ? counts.workers
                          : process.role == Role::kServer ? counts.servers
                                                          : counts.schedulers;
    if (process.rank >= ranks) {
      return fail(Code::kUsage, "--inject {}: there is no {}: the job has {} {}s, with ranks from 0",
                  format_value(inject), to_text(process), ranks, format_value(process.role));
    }
  }
  return {};
}

}  // namespace dtrain::job
