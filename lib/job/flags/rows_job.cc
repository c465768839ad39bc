// The flags of schemes and servers, devices, the network, the optimizer and its schedule.
#include "job/flags/rows.h"

namespace dtrain::job {

namespace {

// Refuses powP by name: it is a schedule and no list of epochs.
Binding<Flags> step_epochs() {
  Binding<Flags> binding = DT_FIELD(Flags, job.optimizer.lr_step_epochs, "none");
  binding.set = [list = binding.set](Flags& flags, std::string_view text) -> Result<> {
    if (!text.starts_with("pow")) return list(flags, text);
    return fail(Code::kUsage, "'{}' is not in this version of dtrain; there are lists of epochs: 30,60", text);
  };
  return binding;
}

// A rule's name, and what stands in brackets behind it.
Binding<Flags> initializer() {
  Binding<Flags> binding = DT_FIELD(Flags, job.network.initializer);
  binding.set = [plain = binding.set](Flags& flags, std::string_view text) -> Result<> {
    DT_TRY_VOID(check_choice(text.substr(0, text.find('(')), {"default", "xavier", "uniform", "normal"},
                             {"msra", "orthogonal", "one", "zero"}));
    return plain(flags, text);
  };
  return binding;
}

std::vector<Row> store_rows() {
  return {
      {.name = "kv-store",
       .value = "NAME",
       .help = "store: local, device, nccl, nccl_allreduce, allreduce, dist_sync (dist), dist_async, dist_ssync, "
               "dist_gsync; dist_device_sync and the like sum on devices first",
       .bind = DT_FIELD(Flags, job.scheme.kv_store),
       .default_text = "device; dist_sync with -n or a role",
       .scope = Scope::kJob},
      {.name = "placement",
       .value = "RULE",
       .help = "slices to servers: hash, balanced",
       .bind = DT_FIELD(Flags, job.scheme.placement),
       .scope = Scope::kJob},
      {.name = "bigarray-bound",
       .value = "N",
       .help = "arrays of more elements are sliced over all servers",
       .bind = DT_FIELD(Flags, job.scheme.bigarray_bound),
       .min = 1,
       .max = 1e12,
       .scope = Scope::kJob,
       .environment = "MXNET_KVSTORE_BIGARRAY_BOUND"},
      {.name = "update-on",
       .value = "PLACE",
       .help = "who runs the optimiser: auto, store, worker",
       .bind = DT_FIELD(Flags, job.scheme.update_on),
       .scope = Scope::kJob},
      {.name = "reduce-threads",
       .value = "N",
       .help = "threads of a sum over devices or workers",
       .bind = DT_FIELD(Flags, job.scheme.reduce_threads),
       .min = 1,
       .max = kThreadsMax,
       .scope = Scope::kJob,
       .environment = "MXNET_KVSTORE_REDUCTION_NTHREADS"},
      {.name = "deterministic",
       .help = "sums in rank order: the same bits in each run",
       .bind = DT_FIELD(Flags, job.scheme.deterministic),
       .scope = Scope::kJob},
  };
}

std::vector<Row> waiting_rows() {
  return {
      {.name = "staleness",
       .value = "S",
       .help = "dist_ssync: steps that a worker may be ahead of the slowest",
       .bind = DT_FIELD(Flags, job.scheme.staleness),
       .min = 0,
       .max = kStepsMax,
       .scope = Scope::kJob},
      {.name = "ssp-warn",
       .value = "TIME",
       .help = "a longer wait for a bound is logged, with who holds back",
       .bind = DT_FIELD(Flags, job.scheme.ssp_warn),
       .min = 0,
       .max = kSecondsMax,
       .scope = Scope::kJob},
      {.name = "groups-file",
       .value = "FILE",
       .help = "dist_gsync: a group a line, of workers by host, host:slot or #rank",
       .bind = DT_FIELD(Flags, launch.groups_file)},
      {.name = "ungrouped",
       .value = "error|own",
       .help = "a worker in no group; own: it is a group of its own",
       .bind = DT_FIELD(Flags, job.scheme.ungrouped),
       .scope = Scope::kJob},
      {.name = "gsp-weight",
       .value = "RULE",
       .help = "what an update of staleness Y counts: inverse (1/Y), none (1), power:A (1/Y^A), floor:M (1/Y, at "
               "least M)",
       .bind = DT_FIELD(Flags, job.scheme.gsp_weight),
       .scope = Scope::kJob},
      {.name = "group-staleness",
       .value = "S",
       .help = "dist_gsync: rounds that a group may be ahead of the slowest",
       .bind = DT_FIELD(Flags, job.scheme.group_staleness, "unbounded"),
       .min = 0,
       .max = kStepsMax,
       .scope = Scope::kJob},
      {.name = "regroup-every",
       .value = "E",
       .help = "dist_gsync: every E epochs workers that were about as fast become a group, 0 never",
       .bind = DT_FIELD(Flags, job.scheme.regroup_every),
       .min = 0,
       .max = kEpochsMax,
       .scope = Scope::kJob},
      {.name = "backup",
       .value = "N",
       .help = "dist_sync: a round does not wait for the last N workers, whose gradients are lost",
       .bind = DT_FIELD(Flags, job.scheme.backup),
       .min = 0,
       .max = kProcessesMax,
       .scope = Scope::kJob},
      {.name = "log-time-to",
       .value = "X",
       .help = "log when accuracy, in training and validation, first reaches X, 2X, ... (rank 0)",
       .bind = DT_FIELD(Flags, loop.log_time_to, "off"),
       .min = 0,
       .max = 1},
      {.name = "trace-events",
       .value = "FILE",
       .help = "servers write what happened to each slice, for simulate --replay",
       .bind = DT_FIELD(Flags, launch.trace_events, "none")},
  };
}

std::vector<Row> share_rows() {
  return {
      {.name = "data-allocator",
       .help = "the workers' shares of the records are those of --data-sharding-file",
       .bind = DT_FIELD(Flags, job.scheme.data_allocator),
       .scope = Scope::kJob},
      {.name = "data-sharding-file",
       .value = "FILE",
       .help = "line r is the share of rank r, as two fractions: 0 0.3",
       .bind = DT_FIELD(Flags, launch.data_sharding_file)},
      {.name = "allow-gaps",
       .help = "it may leave records out",
       .bind = DT_FIELD(Flags, job.scheme.allow_gaps),
       .scope = Scope::kJob},
      {.name = "resplit-every",
       .value = "E",
       .help = "shares rotate between ranks every E epochs, 0 never",
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
       .help = "GPUs of this process by number: 0,1",
       .bind = DT_FIELD(Flags, device.gpus, "none"),
       .min = 0,
       .max = 1023},
      {.name = "cpus",
       .value = "N",
       .help = "CPU devices of this process, which share out its batch and its threads",
       .bind = DT_FIELD(Flags, device.cpus),
       .min = 1,
       .max = 256},
      {.name = "work-load-list",
       .value = "LIST",
       .help = "each device's part of the batch, as numbers of any sum: 1,1,2",
       .bind = DT_FIELD(Flags, device.work_load_list, "equal"),
       .min = 0,
       .max = 1e6},
      {.name = "dtype",
       .value = "TYPE",
       .help = "type of tensors and products: float32; on GPUs also float16 and bfloat16",
       .bind = DT_FIELD(Flags, job.dtype),
       .choices = {"float32", "float16", "bfloat16"},
       .scope = Scope::kJob},
      {.name = "loss-scale",
       .value = "SCALE",
       .help = "what the loss of float16 is multiplied by: dynamic, none, or a number",
       .bind = DT_FIELD(Flags, job.loss_scale),
       .default_text = "dynamic for float16, none else",
       .scope = Scope::kJob},
      {.name = "tf32", .help = "float32 on GPUs may round products to TF32", .bind = DT_FIELD(Flags, device.tf32)},
      {.name = "winograd",
       .help = "Winograd convolutions on CPUs where they are faster (exact to 1e-5 instead of 1e-6)",
       .bind = DT_FIELD(Flags, device.winograd)},
      {.name = "check",
       .value = "reference",
       .help = "compare the first step node by node with the reference backend, then exit",
       .bind = DT_FIELD(Flags, device.check, "none"),
       .choices = {"reference", "none"}},
  };
}

std::vector<Row> network_rows() {
  return {
      {.name = "network",
       .value = "NAME",
       .help = "mlp, lenet, 3conv (small), cross (dfnmr), inception-bn, inception-bn-28-small, resnet-28-small, "
               "resnet (resnet-v2), resnet-v1, resnet-zscore; -<n> behind it sets the depth: resnet-50; @v0.7 or "
               "@mxnet-g behind that chooses an older function",
       .bind = DT_FIELD(Flags, job.network.network),
       .scope = Scope::kJob},
      {.name = "num-layers",
       .aliases = {"--depth"},
       .value = "N",
       .help = "depth",
       .bind = DT_FIELD(Flags, job.network.num_layers, "auto"),
       .default_text = "by network and preset",
       .min = 0,
       .max = kLayersMax,
       .scope = Scope::kJob},
      {.name = "num-classes",
       .value = "N",
       .help = "classes",
       .bind = DT_FIELD(Flags, job.network.num_classes, "auto"),
       .default_text = "by data set",
       .min = 0,
       .max = kClassesMax,
       .scope = Scope::kJob},
      {.name = "image-shape",
       .aliases = {"--image_shape",
                   Alias("--data-shape", [](std::string_view edge) { return fmt::format("3,{},{}", edge, edge); })},
       .value = "C,H,W",
       .help = "size of an image; --data-shape N is 3,N,N",
       .bind = DT_FIELD(Flags, job.network.image_shape, "auto"),
       .default_text = "by data set",
       .min = 1,
       .max = kEdgeMax,
       .scope = Scope::kJob},
      {.name = "bn-mom",
       .value = "X",
       .help = "momentum of batch norm's moving statistics",
       .bind = DT_FIELD(Flags, job.network.bn_momentum),
       .min = 0,
       .max = 1,
       .scope = Scope::kJob},
      {.name = "widen-factor",
       .value = "K",
       .help = "width of cross",
       .bind = DT_FIELD(Flags, job.network.widen_factor),
       .min = 1,
       .max = 64,
       .scope = Scope::kJob},
      {.name = "initializer",
       .value = "RULE",
       .help = "default (by network), xavier, uniform, normal; parameters in brackets: xavier(uniform,in,2.34)",
       .bind = initializer(),
       .scope = Scope::kJob},
  };
}

std::vector<Row> optimizer_rows() {
  return {
      {.name = "num-epochs",
       .aliases = {"--num-epoch"},
       .value = "N",
       .help = "epochs 0 ... N-1",
       .bind = DT_FIELD(Flags, job.num_epochs),
       .min = 1,
       .max = kEpochsMax,
       .scope = Scope::kJob},
      {.name = "optimizer",
       .value = "NAME",
       .help = "sgd, nag",
       .bind = DT_FIELD(Flags, job.optimizer.optimizer),
       .choices = {"sgd", "nag"},
       .later = {"ccsgd", "sgld", "adam", "adagrad", "rmsprop", "adadelta", "ftrl", "dcasgd", "signum", "adamax",
                 "lars", "lbsgd"},
       .scope = Scope::kJob},
      {.name = "lr",
       .value = "X",
       .help = "learning rate",
       .bind = DT_FIELD(Flags, job.optimizer.lr),
       .default_text = "by network: .05 for those of MNIST and CIFAR, .1 for others",
       .min = 0,
       .max = kFactorMax,
       .scope = Scope::kJob},
      {.name = "mom",
       .aliases = {"--momentum"},
       .value = "X",
       .help = "momentum",
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
       .help = "elements of the gradient are cut to [-X, X]",
       .bind = DT_FIELD(Flags, job.optimizer.clip_gradient, "off"),
       .min = 0,
       .max = 1e9,
       .scope = Scope::kJob},
      {.name = "lr-factor",
       .value = "F",
       .help =
           "alone: lr x F after every epoch; with --lr-step-epochs: at those; with --lr-factor-epoch K: every K epochs",
       .bind = DT_FIELD(Flags, job.optimizer.lr_factor, "none"),
       .min = 0,
       .max = kFactorMax,
       .scope = Scope::kJob},
      {.name = "lr-step-epochs",
       .value = "E,E",
       .help = "epochs at which lr is multiplied by --lr-factor, or .1",
       .bind = step_epochs(),
       .min = 0,
       .max = kEpochsMax,
       .scope = Scope::kJob},
      {.name = "lr-factor-epoch",
       .value = "K",
       .help = "companion of --lr-factor, fractions allowed",
       .bind = DT_FIELD(Flags, job.optimizer.lr_factor_epoch, "none"),
       .min = 0,
       .max = kEpochsMax,
       .scope = Scope::kJob},
      {.name = "on-nan",
       .value = "fail|skip",
       .help = "what a loss or gradient does that is not finite",
       .bind = DT_FIELD(Flags, job.optimizer.on_nan),
       .scope = Scope::kJob},
  };
}

}  // namespace dtrain::job
