// `dtrain bench kv`: exchanges the arrays of a network as a training step does, and measures the speed. The exchange is
// either between workers and servers on this host, or between the devices of this process. With servers, it alternates
// with a baseline: the same exchange with unary gRPC calls and a protobuf `bytes` field.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"

namespace dtrain::bench {

struct BenchKvOptions {
  uint32_t workers = 1;
  uint32_t servers = 1;
  uint32_t devices = 1;  // number of CPU devices, if the store connects the devices of one process
  // name of a store, as for --kv-store: dist_sync, or a store that connects the devices of one process
  std::string store = "dist_sync";
  std::string shapes = "resnet-50";  // a network, or a file with lines of the form "NAME D0 D1 ..."
  int64_t num_batches = 20;          // number of measured batches; one warm-up batch precedes them
  int64_t disp_batches = 1;          // number of batches between two progress lines
  bool test_results = true;          // whether to compare the weights with those of the same updates computed locally
  // The rule by which weights are updated: "none" (w <- w - mean of the gradients) or "sgd".
  std::string optimizer = "none";
  // Servers and all workers but the first are processes; otherwise they are threads of this process.
  bool processes = true;
};

struct BenchKvResult {
  uint64_t bytes = 0;  // size of all arrays, in one direction
  size_t arrays = 0;
  BenchKvOptions options;
  // True if the peers were processes; that is possible only if this process had a single thread at the beginning.
  bool processes = false;
  struct Times {
    double median = 0, min = 0, max = 0;
  } ms;  // for each batch: the time from sending the first gradients until all new weights are received
  // At the median time: `bytes` per second; among D devices, 2 (D - 1) / D times `bytes` per second, since each device
  // must send that much.
  double gb_per_s = 0;
  double small_key_us = 0;  // median time to send 1000 numbers and receive them back
  double error = 0;         // the largest value of sum |result - expected| / sum |expected|
  // With servers: the median time of the baseline (unary calls with the same update) with one worker and one server.
  double proto_bytes_ms = 0;
  // What the servers used, if they were processes.
  struct ServerUse {
    double cpu_ms = 0;         // processor time of all servers for one worker's part of a batch
    uint64_t extra_bytes = 0;  // the largest peak memory of a server, without its weights and optimizer state
  };
  std::optional<ServerUse> server_use = {};

  [[nodiscard]] bool is_of_devices() const { return options.devices > 1; }
  // A progress line in the format of MXNet's tool.
  [[nodiscard]] std::string line(int64_t batch, double seconds, double error_of_batch) const;
  // Sets the times from the measured seconds of each batch, and of each exchange of the small key.
  void set_times(const std::vector<double>& batches, const std::vector<double>& small_keys);
  [[nodiscard]] std::string json() const;
  [[nodiscard]] std::string text() const;
  // True if the error is small enough; otherwise the exit code is 1.
  [[nodiscard]] bool within_bound() const { return error <= 1e-4; }

 private:
  [[nodiscard]] double speed(double seconds) const;  // the speed in GB/s of an exchange that takes this time
};

// Runs the benchmark. `line` is called with each progress line: "iter 3, 0.051230 sec, 2.000000 GB/sec per gpu, error
// 0.000000". Code::kUsage: there is no such network, file or store.
Result<BenchKvResult> bench_kv(const BenchKvOptions& options, const std::function<void(std::string_view)>& line);

}  // namespace dtrain::bench
