// Section 12 of flags.md, and the flags of its other sections that a later version of dtrain has: none is accepted and
// ignored.
#include "job/rows.h"

namespace dtrain::job {

namespace {

constexpr const char* kNotYet = "is not in this version of dtrain";

std::vector<RefusedFlag> of_the_originals() {
  return {
      {{"-p", "--parameter-partition-num"}, "refused, its meaning was never published; use --placement"},
      {{"--hostname"}, "refused, there is nothing to set: the host names itself; use --advertise for another address"},
      {{"--list-dir"}, "refused, it never had an effect; use --data-train"},
      {{"--cluster1-begin", "--cluster2-begin", "--cluster3-begin", "--cluster4-begin", "--cluster5-begin",
        "--cluster1-end", "--cluster2-end", "--cluster3-end", "--cluster4-end", "--cluster5-end", "--data_proportion"},
       "refused; use --data-allocator 1 and the file data_sharding"},
      {{"--workspace", "--conv-workspace"},
       "refused, there is nothing to set: compilation plans memory; --dry-run prints it"},
      {{"--profile-worker-suffix", "--profile-server-suffix"}, "refused; use --trace"},
      {{"--worker-cores", "--server-cores", "--worker-memory", "--server-memory", "--archives", "--files",
        "--hdfs-tempdir", "--mesos-master", "--auto-file-cache", "--kube-*"},
       "refused; edit the file that --launcher print writes"},
      {{"--cluster"}, "refused; use --launcher"},
      {{"--host-ip"}, "refused; use --advertise"},
      {{"--log-level"}, "refused; use --verbose"},
      {{"--slurm-worker-nodes", "--slurm-server-nodes"}, "refused; use -H and --host-order"},
      {{"--networks"}, "refused; use bench train"},
      {{"--worker_file"}, "refused; use -H"},
      {{"--worker_count"}, "refused; use -n"},
      {{"--gpu_count"}, "refused; use --gpus"},
  };
}

std::vector<std::string> later_spellings() {
  return {// 3
          "--roles", "--num-attempt", "--local-num-attempt", "--queue", "--jobname",
          // 5
          "--rejoin-timeout", "--snapshot-every", "--snapshot-seconds", "--state-dir", "--replicas", "--inflight-bytes",
          "--p3", "--slice-elements", "--gc-type", "--gc-threshold", "--wire-dtype", "--uds",
          // 6
          "--recompute", "--backward-mirror", "--memonger",
          // 7
          "--batch-norm", "--num-group", "--add-stn", "--add_stn", "--smooth-alpha", "--pretrained-model",
          "--layer-before-fullc",
          // 8
          "--shuffle-chunk-size", "--path-imglist", "--label-width", "--synthetic-on", "--test-io",
          // 9
          "--lr-scheduler", "--lr-warmup-epochs", "--lr-warmup-begin", "--macrobatch-size", "--warmup-epochs",
          "--warmup-strategy",
          // 10
          "--eval-batches-interval", "--monitor", "--trace", "--metrics-addr"};
}

}  // namespace

std::vector<RefusedFlag> refused_flags() {
  std::vector<RefusedFlag> all = of_the_originals();
  all.push_back({later_spellings(), kNotYet});
  return all;
}

const FlagTable<Flags>& training_flags() {
  static const FlagTable<Flags> table = [] {
    std::vector<Row> all;
    const auto add = [&all](const char* section, std::vector<Row> rows) {
      for (Row& row : rows) {
        row.section = section;
        all.push_back(std::move(row));
      }
    };
    add("Job and launch:", launch_rows());
    add("Schemes, groups, shares, servers:", scheme_rows());
    add("Wire and faults:", wire_rows());
    add("Devices and types:", device_rows());
    add("Network:", network_rows());
    add("Data:", data_rows());
    add("Optimiser and schedule:", optimizer_rows());
    add("Loop, checkpoints, reports:", loop_rows());
    return FlagTable<Flags>(std::move(all), refused_flags());
  }();
  return table;
}

}  // namespace dtrain::job
