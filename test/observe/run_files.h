// Small run directories and logs for tests.
#pragma once

#include <string>

#include "base/file.h"
#include "support/must.h"

namespace dtrain::test {

// Two workers, two servers, two epochs of 20 steps.
inline void write_run(const std::string& path, const std::string& rate = "0.05") {
  must(make_directories(path));
  must(write_file_atomic(path + "/jobspec", "batch-size = 16\nbatches = 20,20\nkv-store = dist_async\nlr = " + rate +
                                                "\nnetwork = lenet\nnum-servers = 2\nnum-workers = 2\n"
                                                "working-directory = /work\n"));
  must(write_file_atomic(
      path + "/metrics.jsonl",
      R"({"time":1795588783.4,"role":"worker","rank":0,"epoch":0,"step":11,"train_accuracy":0.5,"train_cross_entropy":2.0,"lr":0.05,"samples_per_s":1000,"wait_data_s":0.1,"wait_network_s":0.05,"seconds":0.5,"samples":176}
{"time":1795588783.4,"role":"worker","rank":1,"epoch":0,"step":11,"train_accuracy":0.4,"train_cross_entropy":2.1,"lr":0.05,"samples_per_s":400,"wait_data_s":0.2,"wait_network_s":0.0,"seconds":0.6,"samples":176}
{"time":1795588783.5,"role":"worker","rank":0,"epoch":0,"step":20,"train_accuracy":0.6,"train_cross_entropy":1.0,"lr":0.05,"bad_records":0,"train_metric":{"top_k_accuracy_5":0.99},"phase_s":{"forward":1,"backward":2,"data_wait":0.25},"seconds":1,"samples":320}
{"time":1795588783.5,"role":"worker","rank":1,"epoch":0,"step":20,"train_accuracy":0.7,"train_cross_entropy":null,"lr":0.05,"bad_records":0,"phase_s":{"forward":4,"backward":5},"seconds":1,"samples":320}
{"time":1795588783.6,"role":"worker","rank":0,"epoch":0,"step":20,"validation_accuracy":0.8,"seconds":1.25,"samples":320}
{"time":1795588783.7,"role":"worker","rank":0,"epoch":1,"step":40,"validation_accuracy":0.9,"bad_records":0,"phase_s":{"forward":3,"backward":4},"seconds":2,"samples":640}
{"time":1795588783.8,"role":"server","rank":0,"epoch":null,"step":80,"staleness_mean":1.25,"staleness_max":4}
{"time":1795588783.8,"role":"server","rank":1,"epoch":null,"step":80,"staleness_mean":1.5,"staleness_max":5}
)"));
  must(write_file_atomic(
      path + "/summary.json",
      R"json({"job":"a","job_hash":"bbb3","build":"0.9.0-1","network":"lenet","store":"dist_async","workers":2,
"servers":2,"devices":["cpu(0)","cpu(0)"],"dtype":"float32","epochs":2,"train_accuracy":0.65,"validation_accuracy":0.9,
"best_validation_accuracy":0.9,"time_to_accuracy":{"train":[],"validation":[{"accuracy":0.8,"seconds":1.25,"samples":320}]},
"samples":640,"samples_per_s":320,"seconds":2,"wait_data_share":0.42,"wait_network_share":0.1,"data_limit":"decode",
"decoders_busy_share":0.98,"peak_rss_bytes":{"worker 0":109297664},"exit_code":0,"error":null})json"));
  must(write_file_atomic(
      path + "/worker-0.log",
      "2026-11-25 06:39:43,325 Node[0] start with arguments network=lenet\n"
      "2026-11-25 06:39:43,400 Node[0] warning: skipped broken record 1 (--max-bad-records 100): a.rec\n"
      "2026-11-25 06:39:43,400 Node[0] warning: skipped broken record 2 (--max-bad-records 100): a.rec\n"
      "2026-11-25 06:39:44,400 Node[0] Epoch[0] Train-accuracy=0.600000\n"
      "2026-11-25 06:39:44,400 Node[0] Epoch[0] Validation-accuracy=0.800000\n"
      "2026-11-25 06:39:45,400 Node[0] Epoch[1] Validation-accuracy=0.900000\n"));
  must(write_file_atomic(path + "/server-0.log", "2026-11-25 06:39:43,325 Node[server 0] started\n"));
}

// Of the scripts of MXNet 0.7.
inline const std::string kLogOf07 =
    "2016-05-12 10:11:10,000 Node[0] start with arguments Namespace(batch_size=128, lr=0.05, network='lenet', "
    "num_examples=1000)\n"
    "2016-05-12 10:11:12,000 Node[0] Epoch[0] Batch [3]\tSpeed: 100.00 samples/sec\tTrain-accuracy=0.1\n"
    "2016-05-12 10:11:12,000 Node[0] Epoch[0] Batch [3]\tSpeed: 100.00 samples/sec\tTrain-top_k_accuracy_5=0.4\n"
    "2016-05-12 10:11:13,000 Node[0] Epoch[0] Batch [6]\tSpeed: 90.00 samples/sec\tTrain-accuracy=0.2\n"
    "2016-05-12 10:11:13,000 Node[0] Epoch[0] Batch [6]\tSpeed: 90.00 samples/sec\tTrain-top_k_accuracy_5=0.5\n"
    "2016-05-12 10:11:14,000 Node[0] Update[8]: Change learning rate to 4.00000e-02\n"
    "2016-05-12 10:11:14,000 Node[0] Epoch[0] Time cost=4.000\n"
    "2016-05-12 10:11:15,000 Node[0] Epoch[0] Validation-accuracy=0.300000\n";

}  // namespace dtrain::test
