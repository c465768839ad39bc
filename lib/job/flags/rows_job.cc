// The flags of schemes and servers, devices, the optimizer and its schedule.
#include "job/flags/flags.h"
#include "job/flags/optimizers.h"
#include "job/flags/rows.h"

namespace dtrain::job {

namespace {

constexpr double kPowerMax = 100;

// A list of epochs, or powP: a polynomial with the power P.
Binding<Flags> step_epochs() {
  Binding<Flags> binding = DT_FIELD(Flags, job.optimizer.lr_step_epochs, "none");
  binding.set = [list = binding.set](Flags& flags, std::string_view text) -> Result<> {
    OptimizerFlags& optimizer = flags.job.optimizer;
    if (!text.starts_with("pow")) {
      optimizer.lr_power = 0;
      return list(flags, text);
    }
    double power = 0;
    if (!parse_value(text.substr(3), power) || !(power > 0 && power <= kPowerMax)) {
      return fail(Code::kUsage, "'{}' must be epochs, such as 30,60, or powP with a power P above 0 and at most {}",
                  text, kPowerMax);
    }
    optimizer.lr_power = power;
    optimizer.lr_step_epochs.clear();
    return {};
  };
  binding.get = [list = binding.get](const Flags& flags) {
    const double power = flags.job.optimizer.lr_power;
    return power > 0 ? "pow" + format_value(power) : list(flags);
  };
  return binding;
}

Binding<Flags> optimizer() {
  Binding<Flags> binding = DT_FIELD(Flags, job.optimizer.optimizer);
  binding.set = [plain = binding.set](Flags& flags, std::string_view text) -> Result<> {
    DT_TRY_VOID(check_optimizer_text(text));
    return plain(flags, text);
  };
  return binding;
}

std::vector<Row> store_rows() {
  return {
      {.name = "kv-store",
       .value = "NAME",
       .help = "how gradients are summed and weights updated. In one process: local, device or nccl; without servers: "
               "nccl_allreduce or allreduce; with servers: dist_sync (or dist), dist_async, dist_ssync or dist_gsync; "
               "with a name such as dist_device_sync, the gradients are first summed over the devices of each worker",
       .brief = "how weights are updated: device, dist_sync, dist_async or allreduce",
       .bind = DT_FIELD(Flags, job.scheme.kv_store),
       .default_text = "device; dist_sync with -n or --role",
       .scope = Scope::kJob,
       .suggestions = {"local", "device", "nccl", "nccl_allreduce", "allreduce", "dist_sync", "dist_device_sync",
                       "dist_async", "dist_device_async", "dist_ssync", "dist_device_ssync", "dist_gsync",
                       "dist_device_gsync"}},
      {.name = "placement",
       .value = "RULE",
       .help = "how to assign arrays of weights to servers: balanced (each server gets about equally many elements) or "
               "hash (by the number of the array)",
       .bind = DT_FIELD(Flags, job.scheme.placement),
       .scope = Scope::kJob},
      {.name = "bigarray-bound",
       .value = "N",
       .help = "divide arrays of at least N elements among all servers",
       .bind = DT_FIELD(Flags, job.scheme.bigarray_bound),
       .min = 1,
       .max = 1e12,
       .scope = Scope::kJob,
       .environment = "MXNET_KVSTORE_BIGARRAY_BOUND"},
      {.name = "update-on",
       .value = "PLACE",
       .help = "where the optimizer runs: store (where the gradients are summed, for instance on the servers), worker "
               "(on every worker, on its copy of the weights) or auto (where it is usual for the --kv-store)",
       .bind = DT_FIELD(Flags, job.scheme.update_on),
       .scope = Scope::kJob},
      {.name = "reduce-threads",
       .value = "N",
       .help = "largest number of threads with which a server updates large slices of the weights",
       .bind = DT_FIELD(Flags, job.scheme.reduce_threads),
       .min = 1,
       .max = kThreadsMax,
       .scope = Scope::kJob,
       .environment = "MXNET_KVSTORE_REDUCTION_NTHREADS"},
      {.name = "deterministic",
       .help = "sum the workers' gradients in the order of their ranks, and use only deterministic algorithms on GPUs, "
               "which makes runs reproducible bit for bit",
       .bind = DT_FIELD(Flags, job.scheme.deterministic),
       .scope = Scope::kJob},
  };
}

std::vector<Row> waiting_rows() {
  return {
      {.name = "staleness",
       .value = "S",
       .help = "with --kv-store dist_ssync: number of steps that a worker may be ahead of the slowest worker",
       .bind = DT_FIELD(Flags, job.scheme.staleness),
       .min = 0,
       .max = kStepsMax,
       .scope = Scope::kJob},
      {.name = "ssp-warn",
       .value = "TIME",
       .help = "if a worker or group that is too far ahead has to wait longer than this, log which worker it waits for",
       .bind = DT_FIELD(Flags, job.scheme.ssp_warn),
       .min = 0,
       .max = kSecondsMax,
       .scope = Scope::kJob},
      {.name = "groups-file",
       .value = "FILE",
       .help = "with --kv-store dist_gsync: file with one group of workers per line; a worker is written as HOST, "
               "HOST:SLOT or #RANK",
       .bind = DT_FIELD(Flags, launch.groups_file)},
      {.name = "ungrouped",
       .value = "error|own",
       .help = "with --kv-store dist_gsync: what to do if --groups-file does not name a worker: error (refuse the job) "
               "or own (make the worker a group of its own)",
       .bind = DT_FIELD(Flags, job.scheme.ungrouped),
       .scope = Scope::kJob},
      {.name = "gsp-weight",
       .value = "RULE",
       .help = "with --kv-store dist_gsync: weight of an update with staleness Y: inverse (1/Y), none (1), power:A "
               "(1/Y^A) or floor:M (1/Y, but not below M)",
       .bind = DT_FIELD(Flags, job.scheme.gsp_weight),
       .scope = Scope::kJob},
      {.name = "group-staleness",
       .value = "S",
       .help = "with --kv-store dist_gsync: number of rounds that a group may be ahead of the slowest group",
       .bind = DT_FIELD(Flags, job.scheme.group_staleness, "unbounded"),
       .min = 0,
       .max = kStepsMax,
       .scope = Scope::kJob},
      {.name = "regroup-every",
       .value = "E",
       .help = "with --kv-store dist_gsync: form new groups of workers of similar speed every E epochs; 0 means never",
       .bind = DT_FIELD(Flags, job.scheme.regroup_every),
       .min = 0,
       .max = kEpochsMax,
       .scope = Scope::kJob},
      {.name = "backup",
       .value = "N",
       .help = "with --kv-store dist_sync: number of workers for which a step does not wait; their gradients, which "
               "arrive late, are dropped",
       .bind = DT_FIELD(Flags, job.scheme.backup),
       .min = 0,
       .max = kProcessesMax,
       .scope = Scope::kJob},
      {.name = "log-time-to",
       .value = "X",
       .help = "log the time when the training and the validation accuracy first reach X, 2X, 3X and so on",
       .bind = DT_FIELD(Flags, loop.log_time_to, "off"),
       .min = 0,
       .max = 1},
      {.name = "trace-events",
       .value = "FILE",
       .help = "write to FILE the events that each server receives; dtrain simulate --replay reads this file",
       .bind = DT_FIELD(Flags, launch.trace_events, "none")},
  };
}

std::vector<Row> share_rows() {
  return {
      {.name = "data-allocator",
       .help = "give each worker the share of the records that --data-sharding-file sets",
       .bind = DT_FIELD(Flags, job.scheme.data_allocator),
       .scope = Scope::kJob},
      {.name = "data-sharding-file",
       .value = "FILE",
       .help = "file of shares: line r holds the start and the end of worker r's share as fractions of the data, such "
               "as 0 0.3",
       .bind = DT_FIELD(Flags, launch.data_sharding_file)},
      {.name = "allow-gaps",
       .help = "allow shares that leave out some of the records",
       .bind = DT_FIELD(Flags, job.scheme.allow_gaps),
       .scope = Scope::kJob},
      {.name = "resplit-every",
       .value = "E",
       .help = "pass each worker's share of the records on to the next worker every E epochs; 0 means never",
       .bind = DT_FIELD(Flags, job.scheme.resplit_every),
       .min = 0,
       .max = kEpochsMax,
       .scope = Scope::kJob},
  };
}

}  // namespace

std::vector<Row> scheme_rows() {
  std::vector<Row> rows = store_rows();
  for (Row& row : waiting_rows()) rows.push_back(std::move(row));
  for (Row& row : share_rows()) rows.push_back(std::move(row));
  return rows;
}

std::vector<Row> device_rows() {
  return {
      {.name = "gpus",
       .aliases = {"--gpu"},
       .value = "LIST",
       .help =
           "GPUs of this process or of each worker: numbers and ranges, such as 0,1 or 0-3, or all; the workers of a "
           "host divide all of its GPUs among themselves, and all:I/K is the I-th of K parts",
       .brief = "GPUs that this process uses, such as 0,1 or 0-3, or all",
       .bind = DT_FIELD(Flags, device.gpus, "none"),
       .min = 0,
       .max = kGpuMax,
       .suggestions = {"all"}},
      {.name = "cpus",
       .value = "N",
       .help = "number of CPU devices in this process; its batch and its threads are divided among them",
       .bind = DT_FIELD(Flags, device.cpus),
       .min = 1,
       .max = 256},
      {.name = "work-load-list",
       .value = "LIST",
       .help = "relative part of the batch for each device, such as 1,1,2",
       .bind = DT_FIELD(Flags, device.work_load_list, "equal"),
       .min = 0,
       .max = 1e6},
      {.name = "dtype",
       .value = "TYPE",
       .help = "type of tensors and of matrix products: float32, or on GPUs float16 or bfloat16",
       .bind = DT_FIELD(Flags, job.dtype),
       .choices = {"float32", "float16", "bfloat16"},
       .scope = Scope::kJob},
      {.name = "loss-scale",
       .value = "SCALE",
       .help = "with float16: factor by which the loss is multiplied (dynamic, none or a number)",
       .bind = DT_FIELD(Flags, job.loss_scale),
       .default_text = "dynamic for float16, otherwise none",
       .scope = Scope::kJob},
      {.name = "tf32", .help = "allow GPUs to round float32 products to TF32", .bind = DT_FIELD(Flags, device.tf32)},
      {.name = "winograd",
       .help = "use Winograd convolutions on CPUs where they are faster (accurate to 1e-5 instead of 1e-6)",
       .bind = DT_FIELD(Flags, device.winograd)},
      {.name = "check",
       .value = "reference",
       .help = "compute the first step also with the reference backend, compare the results node by node, and exit",
       .bind = DT_FIELD(Flags, device.check, "none"),
       .choices = {"reference", "none"}},
  };
}

namespace {

std::vector<Row> rule_rows() {
  return {
      {.name = "num-epochs",
       .aliases = {"--num-epoch"},
       .value = "N",
       .help = "number of epochs, including those of a run that is continued",
       .brief = "number of epochs",
       .bind = DT_FIELD(Flags, job.num_epochs),
       .min = 1,
       .max = kEpochsMax,
       .scope = Scope::kJob},
      {.name = "optimizer",
       .value = "NAME",
       .help = "optimizer; NAME(PARAMETER=X,...) sets its parameters. The optimizers, with the defaults of their "
               "parameters (those of MXNet): sgd (or ccsgd), nag (Nesterov's momentum), sgld (adds noise), signum "
               "(wd_lh 0), dcasgd (lamda 0.04), lars (a learning rate for each array; eta 0.001, eps 0, "
               "momentum_correction 1), lbsgd (large batches; see --macrobatch-size), adam (beta1 0.9, beta2 0.999, "
               "epsilon 1e-8), adamax (beta1 0.9, beta2 0.999), adagrad (eps 1e-7), rmsprop (gamma1 0.9, gamma2 0.9, "
               "epsilon 1e-8, clip_weights 0, centered 0), adadelta (rho 0.9, epsilon 1e-5), ftrl (lamda1 0.01, beta "
               "1), and the variants of MXNet 0.7: nag@v0.7, adam@v0.7 and rmsprop@v0.7 (gamma1 0.95, gamma2 0.9, "
               "epsilon 1e-4)",
       .brief = "optimizer, such as sgd, nag, adam or rmsprop",
       .bind = optimizer(),
       .scope = Scope::kJob,
       .suggestions = optimizer_kind_names()},
      {.name = "lr",
       .value = "X",
       .help = "learning rate",
       .bind = DT_FIELD(Flags, job.optimizer.lr),
       .default_text =
           "0.001 for adam and rmsprop, 0.002 for adamax, 0.01 for sgld, signum and adagrad, 0.1 for ftrl; for "
           "the others 0.05 with networks for MNIST and CIFAR, otherwise 0.1",
       .min = 0,
       .max = kFactorMax,
       .scope = Scope::kJob},
      {.name = "mom",
       .aliases = {"--momentum"},
       .value = "X",
       .help = "momentum of sgd, nag, signum, dcasgd, lars and lbsgd",
       .bind = DT_FIELD(Flags, job.optimizer.momentum),
       .min = 0,
       .max = 1,
       .scope = Scope::kJob},
      {.name = "wd",
       .value = "X",
       .help = "weight decay",
       .bind = DT_FIELD(Flags, job.optimizer.weight_decay),
       .min = 0,
       .max = kFactorMax,
       .scope = Scope::kJob},
      {.name = "clip-gradient",
       .value = "X",
       .help = "clip each element of the gradients to [-X, X]",
       .bind = DT_FIELD(Flags, job.optimizer.clip_gradient, "off"),
       .min = 0,
       .max = 1e9,
       .scope = Scope::kJob},
  };
}

std::vector<Row> schedule_rows() {
  return {
      {.name = "lr-factor",
       .value = "F",
       .help = "multiply the learning rate by F after every epoch, or at the epochs of --lr-step-epochs, or every "
               "--lr-factor-epoch epochs",
       .bind = DT_FIELD(Flags, job.optimizer.lr_factor, "none"),
       .min = 0,
       .max = kFactorMax,
       .scope = Scope::kJob},
      {.name = "lr-step-epochs",
       .value = "E,E",
       .help = "epochs at which to multiply the learning rate by --lr-factor, or by 0.1 without that flag; powP "
               "instead means --lr-scheduler poly with the power P",
       .brief = "epochs at which to multiply the learning rate by 0.1, or by --lr-factor",
       .bind = step_epochs(),
       .min = 0,
       .max = kEpochsMax,
       .scope = Scope::kJob},
      {.name = "lr-factor-epoch",
       .value = "K",
       .help = "number of epochs between multiplications by --lr-factor; K may be a fraction",
       .bind = DT_FIELD(Flags, job.optimizer.lr_factor_epoch, "none"),
       .min = 0,
       .max = kEpochsMax,
       .scope = Scope::kJob},
      {.name = "lr-scheduler",
       .value = "NAME",
       .help =
           "how the learning rate falls: factor (by --lr-factor), multifactor (at --lr-step-epochs), poly (to 0 at the "
           "end of the run, with power 2) or cosine (to 0 at the end of the run, along half a cosine wave); auto means "
           "factor or multifactor if --lr-factor or --lr-step-epochs is given, and otherwise a constant rate",
       .bind = DT_FIELD(Flags, job.optimizer.lr_scheduler),
       .scope = Scope::kJob},
      {.name = "lr-warmup-epochs",
       .value = "E",
       .help = "raise the learning rate linearly during the first E epochs; E may be a fraction",
       .bind = DT_FIELD(Flags, job.optimizer.lr_warmup_epochs),
       .min = 0,
       .max = kEpochsMax,
       .scope = Scope::kJob},
      {.name = "lr-warmup-begin",
       .value = "X",
       .help = "learning rate at the beginning of --lr-warmup-epochs",
       .bind = DT_FIELD(Flags, job.optimizer.lr_warmup_begin),
       .min = 0,
       .max = kFactorMax,
       .scope = Scope::kJob},
  };
}

std::vector<Row> large_batch_rows() {
  constexpr double kMacrobatchMax = 1 << 30;
  return {
      {.name = "macrobatch-size",
       .value = "N",
       .help = "with --optimizer lbsgd: effective batch size: the gradients of several updates are added up until they "
               "cover at least N samples of all workers, and the learning rate is multiplied by the number of these "
               "updates; 0 means that gradients are not added up",
       .bind = DT_FIELD(Flags, job.optimizer.macrobatch_size),
       .min = 0,
       .max = kMacrobatchMax,
       .scope = Scope::kJob},
      {.name = "warmup-epochs",
       .value = "E",
       .help = "with --optimizer lbsgd: number of epochs in which the learning rate rises to the value for the "
               "effective batch size (--macrobatch-size); E may be a fraction",
       .bind = DT_FIELD(Flags, job.optimizer.warmup_epochs),
       .min = 0,
       .max = kEpochsMax,
       .scope = Scope::kJob},
      {.name = "warmup-strategy",
       .value = "NAME",
       .help = "with --optimizer lbsgd: how the learning rate rises during --warmup-epochs: linear, power2 (slowly at "
               "first), sqrt (fast at first) or none (in one jump at the end); or lars (no such rise: each array has "
               "its own learning rate, computed from the norms of its weights and gradients)",
       .bind = DT_FIELD(Flags, job.optimizer.warmup_strategy),
       .scope = Scope::kJob},
  };
}

std::vector<Row> not_finite_rows() {
  return {
      {.name = "on-nan",
       .value = "fail|skip",
       .help = "what to do if a loss or gradient is not finite: fail (end the run) or skip (leave out the step, also "
               "on the workers whose gradients are summed with it)",
       .bind = DT_FIELD(Flags, job.optimizer.on_nan),
       .scope = Scope::kJob},
  };
}

}  // namespace

std::vector<Row> optimizer_rows() {
  std::vector<Row> rows = rule_rows();
  for (Row& row : schedule_rows()) rows.push_back(std::move(row));
  for (Row& row : large_batch_rows()) rows.push_back(std::move(row));
  for (Row& row : not_finite_rows()) rows.push_back(std::move(row));
  return rows;
}

}  // namespace dtrain::job
