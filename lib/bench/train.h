// `dtrain bench train`: measures how many samples per second this host's CPU or a GPU can train or classify, using
// random data in memory. On request it also measures where the time is spent, and the bound given by oneDNN's
// primitives.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/module.h"
#include "tensor/shape.h"
#include "tensor/type.h"

namespace dtrain::bench {

struct BenchTrainOptions {
  std::string network = "lenet";
  int64_t batch_size = 64;
  Shape image = {};         // shape of the images, [c, h, w]; empty: the network's usual image shape
  int64_t num_classes = 0;  // number of classes; 0: 1000 for images of 224 pixels, 10 for others
  enum class Phase { kTraining, kInference };
  Phase phase = Phase::kTraining;
  int64_t num_batches = 100;
  int64_t num_warmup_batches = 10;
  int threads = 1;
  std::optional<int> gpu = {};                   // the number of the GPU, as in --gpus; nullopt: the CPU is measured
  std::string device_module = kCudaModule.file;  // the file of the GPU module; see role/setup/device_loader.h
  Type dtype = Type::kFloat32;
  bool tf32 = false;
  bool winograd = true;
  // Only for training on the CPU: also measure the sums of exec/cpu/bound.h, alternating with the batches.
  bool bound = false;
  bool profile = false;  // whether to measure the steps of a batch one by one (BenchTrainResult::profile)
};

// How the time of a batch is divided among the steps, and how close each step is to the device's peak performance.
struct Profile {
  double peak_flops_per_s = 0, peak_bytes_per_s = 0;  // peak rates of the device
  struct Line {
    // For example "conv1", "convolution backward weights", and oneDNN's name of the implementation or "own".
    std::string node, what, implementation;
    double mean_s = 0, least_s = 0;
    double flops = 0, bytes = 0;
    // The least time for the step at the device's peak rates: the time for its computation or for moving its data,
    // whichever is longer.
    double bound_s = 0;
    bool computes = false;  // whether the step's computation takes longer than moving its data, at the peak rates
    // With --bound: the duration of oneDNN's primitive alone, with warm caches; 0: not measured.
    double primitive_s = 0;
    double share = 0;  // fraction of the batch's time
    [[nodiscard]] double share_of_bound() const { return least_s > 0 ? bound_s / least_s : 0; }
  };
  std::vector<Line> lines;  // the steps of a batch, in order of decreasing time
};

struct BenchTrainResult {
  std::string network, dtype;
  std::string device;  // the device that was measured: "cpu", "gpu(0): NVIDIA H200, ..."
  std::string isa;     // instruction set of the CPU
  int64_t batch_size = 0;
  int threads = 0;  // number of threads with which the CPU computes
  struct Rate {
    double median = 0, min = 0, max = 0;
  };
  Rate samples_per_s;             // rate in samples/s, with statistics over the batches
  std::vector<double> batches_s;  // duration of each batch
  uint64_t peak_rss_bytes = 0;
  struct Bound {
    double direct = 0, best = 0;
  };
  std::optional<Bound> bound;  // samples/s if each primitive ran alone, with warm caches
  std::optional<Profile> profile;

  [[nodiscard]] std::string json() const;  // the result as JSON, on one line
  [[nodiscard]] std::string text() const;  // the result as text for people
};

// A training step consists of a forward pass, a backward pass, and an SGD update with momentum. Code::kUsage if the
// network is unknown, or if a bound is requested for something other than training on the CPU; kDevice: the GPU cannot
// be used.
Result<BenchTrainResult> bench_train(const BenchTrainOptions& options);

}  // namespace dtrain::bench
