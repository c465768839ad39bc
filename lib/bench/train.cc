#include "bench/train.h"

#include <sys/resource.h>

#include <algorithm>
#include <chrono>
#include <functional>
#include <map>
#include <memory>
#include <utility>
#include <vector>

#include "base/host_limits.h"
#include "base/random.h"
#include "bench/device.h"
#include "exec/cpu/bound.h"
#include "exec/cpu/isa.h"
#include "graph/models/models.h"
#include "job/resolve/data_set.h"
#include "role/setup/memory_need.h"

namespace dtrain::bench {

namespace {

using Clock = std::chrono::steady_clock;

// Number of rounds, in each of which batches and the bound are measured in turn, so that other load on the host affects
// both.
constexpr int kRounds = 3;

// Random images, labels and keys for a batch.
struct Data {
  std::vector<float> images, labels;
  std::vector<uint64_t> keys;
};

Data random_data(int64_t batch, const Shape& image, int64_t classes) {
  RandomStream random(kBenchSeed, Use::kSynthetic);
  Data data;
  data.images.resize(static_cast<size_t>(batch * element_count(image)));
  for (float& x : data.images) x = static_cast<float>(random.uniform(-1, 1));
  for (int64_t i = 0; i < batch; i++) data.labels.push_back(static_cast<float>(random.below(classes)));
  for (int64_t i = 0; i < batch; i++) data.keys.push_back(random.next());
  return data;
}

// The name that exec/cpu/bound.h uses for a step: for some steps this is the name of oneDNN's primitive.
std::string name_in_bound(std::string what) {
  for (const auto& [own, its] : {std::pair{"fully connected", "inner product"}, std::pair{"max pooling", "pooling"},
                                 std::pair{"average pooling", "pooling"}, std::pair{"activation", "eltwise"}}) {
    if (what.starts_with(own)) return its + what.substr(std::string_view(own).size());
  }
  return what;
}

// A network on a device. Runs it batch by batch.
class TrainBench {
 public:
  TrainBench(const BenchTrainOptions& options, graph::Graph graph, exec::Options compiled,
             std::unique_ptr<BenchDevice> device, int64_t classes)
      : options_(options),
        graph_(std::move(graph)),
        compiled_(std::move(compiled)),
        device_(std::move(device)),
        data_(random_data(options.batch_size, compiled_.inputs.front().shape, classes)) {}

  Result<BenchTrainResult> run() {
    DT_TRY(executor_, device_->compile(graph_, compiled_), "compiling '{}'", options_.network);
    if (training()) {
      DT_TRY(store_, device_->make_store(waits_));
    }
    DT_TRY_VOID(batches(options_.num_warmup_batches));
    seconds_.clear();
    if (options_.profile) device_->begin_profile();
    std::vector<double> direct, best;
    for (int round = 0; round < kRounds; round++) {
      if (options_.bound) {
        DT_TRY(const exec::cpu::Bound bound, exec::cpu::measure_bound(graph_, compiled_));
        for (const exec::cpu::BoundLine& line : bound.lines) {
          double& least = primitives_.try_emplace({line.node, line.what}, line.best_s()).first->second;
          least = std::min(least, line.best_s());
        }
        direct.push_back(bound.direct_s());
        best.push_back(bound.best_s());
      }
      if (options_.profile) DT_TRY_VOID(device_->measure_peak());
      const int64_t begin = options_.num_batches * round / kRounds;
      DT_TRY_VOID(batches(options_.num_batches * (round + 1) / kRounds - begin));
    }
    BenchTrainResult result = summary();
    if (options_.profile) {
      DT_TRY(const std::vector<ProfileLine> steps, device_->profile([this](int64_t count) { return batches(count); }));
      result.profile = profile_of(steps);
    }
    const auto samples = static_cast<double>(options_.batch_size);
    if (options_.bound) result.bound = {samples / median(direct), samples / median(best)};
    return result;
  }

 private:
  [[nodiscard]] bool training() const { return options_.phase == BenchTrainOptions::Phase::kTraining; }

  static double median(std::vector<double> values) {
    const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
    std::nth_element(values.begin(), middle, values.end());
    return *middle;
  }

  Result<> batches(int64_t count) {
    for (int64_t i = 0; i < count; i++) {
      const auto begin = Clock::now();
      DT_TRY_VOID(executor_->forward(Batch::of(data_.images, data_.labels, data_.keys), exec::no_wait));
      if (training()) {
        DT_TRY_VOID(executor_->backward([this](size_t bucket) {
          return store_->gradient_ready(bucket, ++step_, static_cast<uint32_t>(options_.batch_size));
        }));
        DT_TRY_VOID(executor_->finish());
      }
      if (!training()) (void)executor_->result(0);  // a GPU may still be computing the result; this waits for it
      seconds_.push_back(std::chrono::duration<double>(Clock::now() - begin).count());
    }
    return {};
  }

  [[nodiscard]] BenchTrainResult summary() const {
    BenchTrainResult result;
    result.network = options_.network;
    result.dtype = type_name(options_.dtype);
    result.device = device_->name();
    if (!options_.gpu) result.isa = exec::cpu::isa_name();
    result.batch_size = options_.batch_size;
    result.threads = options_.threads;
    const auto samples = static_cast<double>(options_.batch_size);
    const auto [least, most] = std::minmax_element(seconds_.begin(), seconds_.end());
    result.samples_per_s = {samples / median(seconds_), samples / *most, samples / *least};
    result.batches_s = seconds_;
    rusage usage{};
    getrusage(RUSAGE_SELF, &usage);
    result.peak_rss_bytes = static_cast<uint64_t>(usage.ru_maxrss) * 1024;
    return result;
  }

  [[nodiscard]] Profile profile_of(const std::vector<ProfileLine>& steps) const {
    const Peak& peak = device_->peak();
    Profile profile{.peak_flops_per_s = peak.flops_per_s, .peak_bytes_per_s = peak.bytes_per_s, .lines = {}};
    double all = 0;
    for (const ProfileLine& step : steps) {
      const double compute_s = step.flops / peak.flops_per_s, move_s = step.bytes / peak.bytes_per_s;
      const auto primitive = primitives_.find({step.node, name_in_bound(step.what)});
      profile.lines.push_back({.node = step.node,
                               .what = step.what,
                               .implementation = step.implementation,
                               .mean_s = step.mean_s,
                               .least_s = step.least_s,
                               .flops = step.flops,
                               .bytes = step.bytes,
                               .bound_s = std::max(compute_s, move_s),
                               .computes = compute_s > move_s,
                               .primitive_s = primitive == primitives_.end() ? 0 : primitive->second});
      all += step.least_s;
    }
    for (Profile::Line& line : profile.lines) line.share = line.least_s / all;
    std::ranges::stable_sort(profile.lines, std::greater<>(), &Profile::Line::least_s);
    return profile;
  }

  BenchTrainOptions options_;
  graph::Graph graph_;
  exec::Options compiled_;
  std::unique_ptr<BenchDevice> device_;
  exec::Executor* executor_ = nullptr;  // the device owns the executor
  Waits waits_;
  std::unique_ptr<kvstore::Store> store_;  // the store that updates the weights; null if inference is measured
  Data data_;
  uint64_t step_ = 0;
  std::vector<double> seconds_;
  // Duration in seconds, indexed by node and operation.
  std::map<std::pair<std::string, std::string>, double> primitives_;
};

}  // namespace

Result<BenchTrainResult> bench_train(const BenchTrainOptions& options) {
  const bool training = options.phase == BenchTrainOptions::Phase::kTraining;
  if (options.bound && !training) return fail(Code::kUsage, "--bound measures a training step: leave out --phase");
  if (options.bound && options.gpu) {
    return fail(Code::kUsage,
                "--bound measures oneDNN's primitives, which GPUs do not use: leave out --gpus or --bound");
  }
  if (options.batch_size < 1 || options.num_batches < 1 || options.num_warmup_batches < 0) {
    return fail(Code::kUsage, "--batch-size and --num-batches must be at least 1, --num-warmup-batches at least 0");
  }
  const Shape image = options.image.empty() ? job::image_of_network(options.network) : options.image;
  const int64_t classes = options.num_classes > 0 ? options.num_classes : (image.back() >= 224 ? 1000 : 10);
  DT_TRY(graph::Graph graph, graph::build_model({.network = options.network,
                                                 .num_classes = classes,
                                                 .image = image,
                                                 .data_type = std::string(job::data_set_of_network(options.network))}));
  using Purpose = exec::Options::Purpose;
  const Purpose purpose = training ? Purpose::kTraining : Purpose::kInference;
  DT_TRY(graph::Shapes shapes, graph::infer_shapes(graph, image));
  if (!options.gpu) {
    const role::MemoryNeed need = role::memory_need({graph, std::move(shapes)}, purpose);
    DT_TRY_VOID(role::check_memory(need, options.network, options.batch_size, usable_memory().bytes));
  }
  exec::Options compiled{.purpose = purpose,
                         .batch_size = options.batch_size,
                         .inputs = {{.shape = image}},
                         .threads = options.threads,
                         .winograd = options.winograd,
                         .dtype = options.dtype,
                         .tf32 = options.tf32};
  std::unique_ptr<BenchDevice> device;
  if (options.gpu) {
    DT_TRY(device, bench_gpu(*options.gpu, options.device_module));
  } else {
    device = bench_cpu(options.threads);
  }
  return TrainBench(options, std::move(graph), std::move(compiled), std::move(device), classes).run();
}

}  // namespace dtrain::bench
