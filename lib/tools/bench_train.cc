#include "tools/bench_train.h"

#include <sys/resource.h>

#include <algorithm>
#include <chrono>
#include <vector>

#include "base/json.h"
#include "base/random.h"
#include "exec/cpu/bound.h"
#include "exec/cpu/executor.h"
#include "exec/cpu/isa.h"
#include "graph/models/models.h"
#include "job/resolve/data_set.h"
#include "kvstore/worker/device_store.h"
#include "optim/initializer.h"
#include "role/setup/memory_need.h"

namespace dtrain::tools {

namespace {

using Clock = std::chrono::steady_clock;
using exec::cpu::CpuExecutor;

constexpr uint64_t kWeightSeed = 1;
constexpr int kRounds = 3;  // batches and bound take turns, so that both see the same noise of the machine

// Random images and labels for one batch.
struct Data {
  std::vector<float> images, labels;
};

Data random_data(int64_t batch, const Shape& image, int64_t classes) {
  RandomStream random(kWeightSeed, Use::kSynthetic);
  Data data;
  data.images.resize(static_cast<size_t>(batch * element_count(image)));
  for (float& x : data.images) x = static_cast<float>(random.uniform(-1, 1));
  for (int64_t i = 0; i < batch; i++) data.labels.push_back(static_cast<float>(random.below(classes)));
  return data;
}

// A compiled network and its data, run batch by batch.
class TrainBench {
 public:
  TrainBench(const BenchTrainOptions& options, graph::Graph graph, exec::Options compiled,
             std::unique_ptr<CpuExecutor> executor, std::unique_ptr<kvstore::Store> store, int64_t classes)
      : options_(options),
        graph_(std::move(graph)),
        compiled_(std::move(compiled)),
        executor_(std::move(executor)),
        store_(std::move(store)),
        data_(random_data(options.batch_size, compiled_.inputs.front().shape, classes)) {}

  Result<BenchTrainResult> run() {
    DT_TRY_VOID(optim::initialize({}, executor_->parameters(), kWeightSeed));
    DT_TRY_VOID(store_->initialize({&executor_->parameters(), 1}, {}));
    DT_TRY_VOID(batches(options_.num_warmup_batches));
    seconds_.clear();
    if (options_.profile) executor_->enable_profile();
    std::vector<double> direct, best;
    for (int round = 0; round < kRounds; round++) {
      if (options_.bound) {
        DT_TRY(const exec::cpu::Bound bound, exec::cpu::measure_bound(graph_, compiled_));
        direct.push_back(bound.direct_s());
        best.push_back(bound.best_s());
      }
      const int64_t begin = options_.num_batches * round / kRounds;
      DT_TRY_VOID(batches(options_.num_batches * (round + 1) / kRounds - begin));
    }
    BenchTrainResult result = summary();
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
      DT_TRY_VOID(executor_->forward(Batch::of(data_.images, data_.labels), exec::no_wait));
      if (training()) {
        DT_TRY_VOID(executor_->backward([this](size_t bucket) {
          return store_->gradient_ready(bucket, ++step_, static_cast<uint32_t>(options_.batch_size));
        }));
      }
      seconds_.push_back(std::chrono::duration<double>(Clock::now() - begin).count());
    }
    return {};
  }

  [[nodiscard]] BenchTrainResult summary() const {
    BenchTrainResult result;
    result.network = options_.network;
    result.dtype = "float32";
    result.isa = exec::cpu::isa_name();
    result.batch_size = options_.batch_size;
    result.threads = options_.threads;
    const auto samples = static_cast<double>(options_.batch_size);
    const auto [least, most] = std::minmax_element(seconds_.begin(), seconds_.end());
    result.samples_per_s = {samples / median(seconds_), samples / *most, samples / *least};
    result.batches_s = seconds_;
    rusage usage{};
    getrusage(RUSAGE_SELF, &usage);
    result.peak_rss_bytes = static_cast<uint64_t>(usage.ru_maxrss) * 1024;
    if (options_.profile) result.profile = executor_->profile();
    return result;
  }

  BenchTrainOptions options_;
  graph::Graph graph_;
  exec::Options compiled_;
  std::unique_ptr<CpuExecutor> executor_;
  std::unique_ptr<kvstore::Store> store_;
  Data data_;
  uint64_t step_ = 0;
  std::vector<double> seconds_;
};

}  // namespace

Result<BenchTrainResult> bench_train(const BenchTrainOptions& options) {
  const bool training = options.phase == BenchTrainOptions::Phase::kTraining;
  if (options.bound && !training) return fail(Code::kUsage, "--bound measures a training step: leave out --phase");
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
  const role::MemoryNeed need = role::memory_need({graph, std::move(shapes)}, purpose);
  DT_TRY_VOID(role::check_memory(need, options.network, options.batch_size, role::host_memory_bytes()));
  const exec::Options compiled{.purpose = purpose,
                               .batch_size = options.batch_size,
                               .inputs = {{.shape = image}},
                               .threads = options.threads,
                               .winograd = options.winograd};
  DT_TRY(std::unique_ptr<CpuExecutor> executor, CpuExecutor::compile(graph, compiled), "compiling '{}'",
         options.network);
  Waits waits;
  DT_TRY(std::unique_ptr<kvstore::Store> store,
         kvstore::DeviceStore::create(
             {.rule = {.optimizer = {}, .schedule = {.base = 0.01}}, .threads = options.threads}, {}, nullptr, waits));
  return TrainBench(options, std::move(graph), compiled, std::move(executor), std::move(store), classes).run();
}

std::string BenchTrainResult::json() const {
  nlohmann::ordered_json object{
      {"network", network}, {"batch_size", batch_size}, {"dtype", dtype}, {"threads", threads}, {"isa", isa}};
  object["samples_per_s"] = {{"median", samples_per_s.median}, {"min", samples_per_s.min}, {"max", samples_per_s.max}};
  object["peak_rss_bytes"] = peak_rss_bytes;
  if (bound) object["bound"] = {{"direct", bound->direct}, {"best", bound->best}};
  return json_text(object);
}

std::string BenchTrainResult::text() const {
  std::string result = fmt::format(
      "{}, batch {}, {}, {} threads, {}\n{:.1f} samples/s (median; {:.1f} to {:.1f}), peak memory {:.0f} MiB\n",
      network, batch_size, dtype, threads, isa, samples_per_s.median, samples_per_s.min, samples_per_s.max,
      static_cast<double>(peak_rss_bytes) / (1 << 20));
  if (bound) {
    result += fmt::format(
        "oneDNN's primitives alone: {:.1f} samples/s direct, {:.1f} best: reached {:.2f} and {:.2f}\n", bound->direct,
        bound->best, samples_per_s.median / bound->direct, samples_per_s.median / bound->best);
  }
  return result + profile;
}

}  // namespace dtrain::tools
