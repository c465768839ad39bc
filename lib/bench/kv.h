// `dtrain bench kv`: exchanges a network's arrays as in a training step, and measures the speed. The exchange is either
// between workers and servers on this host or among the devices of this process. With servers, it alternates with a
// baseline: the same exchange with unary gRPC calls and a protobuf `bytes` field.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"

namespace dtrain::bench {

struct BenchKvOptions {
  uint32_t workers = 1;
  uint32_t servers = 1;
  uint32_t devices = 1;              // number of CPU devices, with a store of one process
  std::string store = "dist_sync";   // or a store that connects the devices of one process
  std::string shapes = "resnet-50";  // a network, or a file with lines "NAME D0 D1 ..."
  int64_t num_batches = 20;          // measured ones, after one warm-up batch
  int64_t disp_batches = 1;          // print a line every this many batches
  bool test_results = true;          // compare the weights with the same updates computed locally
  std::string optimizer = "none";    // none: w <- w - mean of the gradients; or "sgd"
  bool processes = true;             // servers and further workers are processes; otherwise threads of this one
};

struct BenchKvResult {
  uint64_t bytes = 0;  // size of all arrays, in one direction
  size_t arrays = 0;
  BenchKvOptions options;
  bool processes = false;  // true if the peers were processes, which requires that this process had one thread at the
                           // start
  struct Times {
    double median = 0, min = 0, max = 0;
  } ms;  // per batch: all gradients sent, all new weights received
  // At the median time: the bytes in one direction; among D devices 2 (D - 1) / D of them, which each device must send.
  double gb_per_s = 0;
  double small_key_us = 0;  // median time to send 1000 numbers and get them back
  double error = 0;         // the largest value of sum |got - expected| / sum |expected|
  // With servers, the median of the baseline (unary calls with the same update) with one worker and one server.
  double proto_bytes_ms = 0;

  [[nodiscard]] bool is_of_devices() const { return options.devices > 1; }
  // The line that MXNet's tool prints for a batch.
  [[nodiscard]] std::string line(int64_t batch, double seconds, double error_of_batch) const;
  // Sets the times from the seconds of each batch and of each exchange of the small key.
  void set_times(const std::vector<double>& batches, const std::vector<double>& small_keys);
  [[nodiscard]] std::string json() const;
  [[nodiscard]] std::string text() const;
  // True if the error is within its bound; otherwise the exit code is 1.
  [[nodiscard]] bool within_bound() const { return error <= 1e-4; }

 private:
  [[nodiscard]] double speed(double seconds) const;  // GB/s
};

// Runs the benchmark. `line` is called with each progress line: "iter 3, 0.051230 sec, 2.000000 GB/sec per gpu, error
// 0.000000". Code::kUsage: no such network, file or store.
Result<BenchKvResult> bench_kv(const BenchKvOptions& options, const std::function<void(std::string_view)>& line);

}  // namespace dtrain::bench
