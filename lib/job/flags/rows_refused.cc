// Flags that are refused by name: flags of the programs that dtrain replaces that have no meaning here, and flags of
// later versions. If a flag has a value that asks for nothing, usually its default, that value is accepted, because
// scripts made for MXNet pass such flags.
#include "job/flags/rows.h"

#include "job/flags/flags.h"

namespace dtrain::job {

namespace {

constexpr const char* kNotYet = "is not in this version of dtrain";

std::vector<RefusedFlag> of_the_originals() {
  return {
      {{"-p", "--parameter-partition-num"}, "is refused, because its meaning was never published; use --placement"},
      {{"--hostname"},
       "is refused, because a host finds its own name; use --advertise to set the address of a process"},
      {{"--list-dir"}, "is refused, because it never had an effect; use --data-train"},
      {{"--cluster1-begin", "--cluster2-begin", "--cluster3-begin", "--cluster4-begin", "--cluster5-begin",
        "--cluster1-end", "--cluster2-end", "--cluster3-end", "--cluster4-end", "--cluster5-end", "--data_proportion"},
       "is refused; use --data-allocator 1 and --data-sharding-file"},
      {{"--workspace", "--conv-workspace"},
       "is refused, because dtrain plans its memory itself; --dry-run prints the plan"},
      {.spellings = {"--profile-worker-suffix", "--profile-server-suffix"},
       .message = "is refused, because dtrain writes no profile files; --trace N records the operators of all "
                  "processes in the run directory",
       .accepted = {""}},
      {{"--archives", "--files", "--hdfs-tempdir", "--mesos-master", "--auto-file-cache", "--kube-*"},
       "is refused; use --launcher with slurm, sge, yarn or kubernetes"},
      {{"--cluster"}, "is refused; use --launcher"},
      {{"--host-ip"}, "is refused; use --advertise"},
      {{"--log-level"}, "is refused; use --verbose"},
      {{"--slurm-worker-nodes", "--slurm-server-nodes"}, "is refused; use -H and --host-order"},
      {{"--networks"}, "is refused; use dtrain bench train"},
      {{"--worker_file"}, "is refused; use -H"},
      {{"--worker_count"}, "is refused; use -n"},
      {{"--gpu_count"}, "is refused; use --gpus"},
  };
}

// Flags of the training scripts of torchvision and GluonCV, parameters of MXNet's iterators, and flags of earlier
// versions that have another name here.
std::vector<RefusedFlag> with_other_names() {
  struct OtherName {
    std::vector<std::string> spellings;
    const char* here;
  };
  const OtherName names[] = {
      {{"--epochs"}, "--num-epochs"},
      {{"-b"}, "--batch-size"},
      {{"-j", "--workers", "--preprocess-threads"}, "--data-nthreads, and -n for the workers of a job"},
      {{"--learning-rate"}, "--lr"},
      {{"--weight-decay"}, "--wd"},
      {{"--opt"}, "--optimizer"},
      {{"--lr-gamma", "--lr-decay"}, "--lr-factor"},
      {{"--lr-step-size", "--lr-milestones", "--lr-decay-epoch"}, "--lr-step-epochs"},
      {{"--label-smoothing"}, "--smooth-alpha"},
      {{"-a", "--arch"}, "--network"},
      {{"--weights", "--pretrained", "--use-pretrained"}, "--pretrained-model"},
      {{"--start-epoch"}, "--load-epoch, or --resume to continue a run"},
      {{"--data-path"}, "--data-dir"},
      {{"--path-imgrec", "--rec-train"}, "--data-train"},
      {{"--rec-val"}, "--data-val"},
      {{"--path-imgidx", "--rec-train-idx"}, "--data-train-idx"},
      {{"--rec-val-idx"}, "--data-val-idx"},
      {{"--train-crop-size", "--val-crop-size", "--input-size"}, "--image-shape"},
      {{"--val-resize-size"}, "--val-resize"},
      {{"--rand-crop"}, "--random-crop"},
      {{"--rand-mirror"}, "--random-mirror"},
      {{"--print-freq", "--log-interval"}, "--disp-batches"},
      {{"--save-frequency"}, "--save-period"},
      {{"--output-dir", "--save-dir"}, "--run-dir"},
      {{"--device"}, "--gpus or --cpus"},
      {{"--amp"}, "--dtype"},
      {{"--world-size"}, "-n"},
      {{"--freeze"}, "--lr-mult 'PATTERN=0'"},
      {{"--monitor-addr"}, "--metrics-addr"},
      {{"--network-file"}, "--network"},
      {{"--parallel-environment"}, "--launcher sge=NAME"},
      {{"--yarn-url"}, "--launcher yarn=URL"},
      {{"--print-for"}, "--launcher print=NAME,..."},
      {{"--namespace"}, "the namespace of the current context of kubectl"},
  };
  std::vector<RefusedFlag> flags;
  for (const OtherName& name : names) {
    flags.push_back({name.spellings, fmt::format("is not a flag of dtrain; use {}", name.here)});
  }
  return flags;
}

// Flags of later versions. Their accepted values ask for what this version does anyway.
std::vector<RefusedFlag> later_with_values() {
  const auto later = [](std::vector<std::string> spellings, std::vector<std::string> accepted, bool boolean = false) {
    return RefusedFlag{
        .spellings = std::move(spellings), .message = kNotYet, .accepted = std::move(accepted), .boolean = boolean};
  };
  return {
      later({"--replicas", "--slice-elements"}, {"0"}),
      later({"--p3", "--recompute", "--backward-mirror", "--memonger"}, {"0"}, true),
      later({"--gc-type"}, {"none", ""}),
      later({"--gc-threshold"}, {"0.5"}),
      later({"--wire-dtype"}, {"float32"}),
  };
}

std::vector<std::string> later_spellings() {
  return {"--roles", "--snapshot-seconds", "--inflight-bytes", "--uds"};
}

}  // namespace

std::vector<RefusedFlag> refused_flags() {
  std::vector<RefusedFlag> all = of_the_originals();
  for (RefusedFlag& flag : with_other_names()) all.push_back(std::move(flag));
  for (RefusedFlag& flag : later_with_values()) all.push_back(std::move(flag));
  all.push_back({later_spellings(), kNotYet});
  return all;
}

const std::vector<Section>& sections() {
  static const std::vector<Section> all = {
      {"launch", "Job and launch:", launch_rows},
      {"batch", "Batch systems, YARN, Kubernetes:", batch_rows},
      {"schemes", "Schemes, groups, shares, servers:", scheme_rows},
      {"faults", "Wire and faults:", wire_rows},
      {"devices", "Devices and types:", device_rows},
      {"network", "Network:", network_rows},
      {"data", "Data:", data_rows},
      {"images", "Images: normalization and augmentation:", augment_rows},
      {"optimizer", "Optimizer and schedule:", optimizer_rows},
      {"checkpoints", "Loop, checkpoints, reports:", loop_rows},
  };
  return all;
}

const FlagTable<Flags>& training_flags() {
  static const FlagTable<Flags> table = [] {
    std::vector<Row> all;
    for (const Section& section : sections()) {
      for (Row& row : section.rows()) {
        row.section = section.heading;
        all.push_back(std::move(row));
      }
    }
    return FlagTable<Flags>(std::move(all), refused_flags());
  }();
  return table;
}

}  // namespace dtrain::job
