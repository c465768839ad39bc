// `dtrain bench kv`: exchanges a network's arrays as a training step does, and measures the speed. The exchange is
// either between workers and servers on this host or among the devices of this process. With servers, a baseline runs
// in turns with it: the same exchange by unary gRPC calls with a protobuf `bytes` field.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"

namespace dtrain::tools {

struct BenchKvOptions {
  uint32_t workers = 1;
  uint32_t servers = 1;
  uint32_t devices = 1;              // of a store of one process: CPU devices
  std::string store = "dist_sync";   // or one of a process with several devices
  std::string shapes = "resnet-50";  // a network, or a file with lines "NAME D0 D1 ..."
  int64_t num_batches = 20;          // after one for warm-up
  int64_t disp_batches = 1;          // a line each so many batches
  bool test_results = true;          // compare with the same updates made here
  std::string optimizer = "none";    // none: w <- w - mean of the gradients; or "sgd"
  bool processes = true;             // servers and other workers are processes of their own; else threads of this one
};

struct BenchKvResult {
  uint64_t bytes = 0;  // of all arrays, one way
  size_t arrays = 0;
  BenchKvOptions options;
  bool processes = false;  // how it was run: threads if this process had more than one when it began
  struct Times {
    double median = 0, min = 0, max = 0;
  } ms;                     // of a batch: all gradients out, all new weights back
  double gb_per_s = 0;      // by the median: bytes one way; of devices 2 (D - 1) / D of them, what each must send
  double small_key_us = 0;  // 1000 numbers there and back, median
  double error = 0;         // the largest of sum |got - expected| / sum |expected|
  // With servers: median, one worker and one server, by unary calls: the same update; the bytes there and back and
  // nothing else.
  double proto_bytes_ms = 0, proto_echo_ms = 0;

  [[nodiscard]] bool is_of_devices() const { return options.devices > 1; }
  // MXNet's line about a batch.
  [[nodiscard]] std::string line(int64_t batch, double seconds, double error_of_batch) const;
  // From the seconds of all batches and of all exchanges of the small key.
  void set_times(const std::vector<double>& batches, const std::vector<double>& small_keys);
  [[nodiscard]] std::string json() const;
  [[nodiscard]] std::string text() const;
  // Beyond this the exit code is 1.
  [[nodiscard]] bool within_bound() const { return error <= 1e-4; }

 private:
  [[nodiscard]] double speed(double seconds) const;  // GB/s
};

// `line` gets the lines of progress: "iter 3, 0.051230 sec, 2.000000 GB/sec per gpu, error 0.000000". Code::kUsage: no
// such network, file or store.
Result<BenchKvResult> bench_kv(const BenchKvOptions& options, const std::function<void(std::string_view)>& line);

}  // namespace dtrain::tools
