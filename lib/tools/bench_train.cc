#include "tools/bench_train.h"

#include <sys/resource.h>

#include <algorithm>
#include <chrono>
#include <functional>
#include <map>
#include <utility>
#include <vector>

#include "base/json.h"
#include "base/random.h"
#include "exec/cpu/bound.h"
#include "exec/cpu/executor.h"
#include "exec/cpu/isa.h"
#include "exec/cpu/peak.h"
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

// exec/cpu/bound.h names some steps as oneDNN does.
std::string name_in_bound(std::string what) {
  for (const auto& [own, its] : {std::pair{"fully connected", "inner product"}, std::pair{"max pooling", "pooling"},
                                 std::pair{"average pooling", "pooling"}, std::pair{"activation", "eltwise"}}) {
    if (what.starts_with(own)) return its + what.substr(std::string_view(own).size());
  }
  return what;
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
        for (const exec::cpu::BoundLine& line : bound.lines) {
          double& least = primitives_.try_emplace({line.node, line.what}, line.best_s()).first->second;
          least = std::min(least, line.best_s());
        }
        direct.push_back(bound.direct_s());
        best.push_back(bound.best_s());
      }
      if (options_.profile) note_peak();
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
    if (options_.profile) result.profile = profile();
    return result;
  }

  void note_peak() {
    const exec::cpu::Peak peak = exec::cpu::measure_peak(options_.threads);
    peak_.flops_per_s = std::max(peak_.flops_per_s, peak.flops_per_s);
    peak_.bytes_per_s = std::max(peak_.bytes_per_s, peak.bytes_per_s);
  }

  [[nodiscard]] Profile profile() const {
    const exec::cpu::Peak& peak = peak_;
    Profile profile{.peak_flops_per_s = peak.flops_per_s, .peak_bytes_per_s = peak.bytes_per_s, .lines = {}};
    double all = 0;
    for (const exec::cpu::ProfileLine& step : executor_->profile()) {
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
  std::unique_ptr<CpuExecutor> executor_;
  std::unique_ptr<kvstore::Store> store_;
  Data data_;
  uint64_t step_ = 0;
  std::vector<double> seconds_;
  exec::cpu::Peak peak_;                                              // the best so far: other processes only lower it
  std::map<std::pair<std::string, std::string>, double> primitives_;  // by node and what it does: seconds
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

namespace {

constexpr double kGiga = 1e9;

double per_second(double amount, const Profile::Line& line) {
  return line.least_s > 0 ? amount / line.least_s / kGiga : 0;
}

nlohmann::ordered_json json_of(const Profile& profile) {
  nlohmann::ordered_json lines = nlohmann::ordered_json::array();
  for (const Profile::Line& line : profile.lines) {
    nlohmann::ordered_json one{{"node", line.node},
                               {"what", line.what},
                               {"implementation", line.implementation},
                               {"mean_ms", 1e3 * line.mean_s},
                               {"min_ms", 1e3 * line.least_s},
                               {"share", line.share},
                               {"gflops", per_second(line.flops, line)},
                               {"gbytes_per_s", per_second(line.bytes, line)},
                               {"bound_ms", 1e3 * line.bound_s},
                               {"bound_by", line.computes ? "compute" : "memory"},
                               {"share_of_bound", line.share_of_bound()}};
    if (line.primitive_s > 0) one["primitive_ms"] = 1e3 * line.primitive_s;
    lines.push_back(std::move(one));
  }
  return {{"peak_gflops", profile.peak_flops_per_s / kGiga},
          {"peak_gbytes_per_s", profile.peak_bytes_per_s / kGiga},
          {"steps", std::move(lines)}};
}

std::string text_of(const Profile& profile) {
  std::string text =
      fmt::format("at most {:.0f} GFLOP/s (a large product of matrices) and {:.1f} GB/s (a sum of large arrays)\n",
                  profile.peak_flops_per_s / kGiga, profile.peak_bytes_per_s / kGiga);
  const bool has_primitives =
      std::ranges::any_of(profile.lines, [](const Profile::Line& line) { return line.primitive_s > 0; });
  text +=
      fmt::format("{:>8} {:>8} {:>7} {:>8} {:>7} {:>8} {:>8}  {:32} {:28} {}\n", "mean ms", "least ms", "share",
                  "GFLOP/s", "GB/s", "of bound", has_primitives ? "alone ms" : "", "what", "node", "implementation");
  double mean = 0, least = 0, bound = 0;
  for (const Profile::Line& line : profile.lines) {
    const std::string alone = line.primitive_s > 0 ? fmt::format("{:.3f}", 1e3 * line.primitive_s) : "";
    text += fmt::format("{:8.3f} {:8.3f} {:5.1f} % {:8.1f} {:7.1f} {:4.0f} % {} {:>8}  {:32} {:28} {}\n",
                        1e3 * line.mean_s, 1e3 * line.least_s, 100 * line.share, per_second(line.flops, line),
                        per_second(line.bytes, line), 100 * line.share_of_bound(), line.computes ? "c" : "m", alone,
                        line.what, line.node, line.implementation);
    mean += line.mean_s, least += line.least_s, bound += line.bound_s;
  }
  return text + fmt::format(
                    "{:8.3f} {:8.3f} in all; {:.3f} ms, {:.0f} %, if each step reached its bound (c: compute, m: "
                    "memory)\n",
                    1e3 * mean, 1e3 * least, 1e3 * bound, least > 0 ? 100 * bound / least : 0);
}

}  // namespace

std::string BenchTrainResult::json() const {
  nlohmann::ordered_json object{
      {"network", network}, {"batch_size", batch_size}, {"dtype", dtype}, {"threads", threads}, {"isa", isa}};
  object["samples_per_s"] = {{"median", samples_per_s.median}, {"min", samples_per_s.min}, {"max", samples_per_s.max}};
  object["peak_rss_bytes"] = peak_rss_bytes;
  if (bound) object["bound"] = {{"direct", bound->direct}, {"best", bound->best}};
  if (profile) object["profile"] = json_of(*profile);
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
  return profile ? result + text_of(*profile) : result;
}

}  // namespace dtrain::tools
