// `dtrain bench train` on a GPU, which works like training in one process, with the weights in GPU memory. The duration
// of the calls is taken from the spans of a trace (docs/reference/traces.md); in traced steps, the calls are queued one
// by one.
#include <algorithm>
#include <map>
#include <memory>
#include <string_view>

#include "bench/device.h"
#include "exec/device_module.h"
#include "graph/flow.h"
#include "graph/models/builder.h"
#include "kvstore/worker/device_store.h"
#include "optim/initializer.h"
#include "role/setup/device_loader.h"
#include "telemetry/timeline.h"

namespace dtrain::bench {
namespace {

constexpr int64_t kProfiledSteps = 20;
constexpr double kNsPerS = 1e9;

// The spans with one name.
struct Calls {
  std::vector<double> seconds;  // durations of the spans, in chronological order
  double bytes = 0;             // bytes that are read and written in all spans together
};

// The calls that the GPU has executed, indexed by name: the operators of the network and, in training, the update.
std::map<std::string, Calls> calls_of(const telemetry::Timeline& timeline, const std::string& gpu) {
  std::map<std::string, Calls> calls;
  for (const telemetry::TimelineRow& row : timeline.rows()) {
    if (row.thread != gpu && row.thread != gpu + ": sums and updates") continue;
    for (const telemetry::TimelineEvent& event : row.events) {
      Calls& same = calls[event.name];
      same.seconds.push_back(static_cast<double>(event.end_ns - event.begin_ns) / kNsPerS);
      for (const auto& argument : event.arguments) {
        if (argument.name != nullptr && std::string_view(argument.name) == "bytes") {
          same.bytes += static_cast<double>(argument.value);
        }
      }
    }
  }
  return calls;
}

// The duration of one call in a step, from its spans in `steps` steps. There are several spans in each step if the node
// needs several kernels.
ProfileLine line_of(const std::string& name, const Calls& calls, int64_t steps) {
  const size_t colon = name.rfind(": ");
  const bool is_of_node = colon != std::string::npos;
  ProfileLine line{.node = is_of_node ? name.substr(0, colon) : "",
                   .what = is_of_node ? name.substr(colon + 2) : name,
                   .implementation = "gpu"};
  const size_t per_step = std::max<size_t>(1, calls.seconds.size() / static_cast<size_t>(steps));
  for (size_t begin = 0; begin + per_step <= calls.seconds.size(); begin += per_step) {
    double all = 0;
    for (size_t i = begin; i < begin + per_step; i++) all += calls.seconds[i];
    line.mean_s += all / static_cast<double>(steps);
    line.least_s = begin == 0 ? all : std::min(line.least_s, all);
  }
  line.bytes = calls.bytes / static_cast<double>(steps);
  return line;
}

class Gpu final : public BenchDevice {
 public:
  Gpu(int number, std::string name, std::shared_ptr<exec::DeviceModule> module, std::unique_ptr<exec::Backend> backend)
      : number_(number), name_(std::move(name)), module_(std::move(module)), backend_(std::move(backend)) {}

  [[nodiscard]] std::string name() const override { return name_; }

  Result<exec::Executor*> compile(const graph::Graph& graph, const exec::Options& options) override {
    options_ = on_device(options);
    graph_ = graph;
    DT_TRY(executor_, backend_->compile(graph_, options_));
    DT_TRY_VOID(optim::initialize({}, executor_->parameters(), kBenchSeed));
    if (executor_->device_parameters().device != nullptr) {
      DT_TRY_VOID(copy_to_device(executor_->parameters(), executor_->device_parameters()));
    }
    return executor_.get();
  }

  Result<std::unique_ptr<kvstore::Store>> make_store(Waits& waits) override {
    const kvstore::UpdateRule rule = bench_rule();
    kvstore::DeviceStore::Optimizers optimizers;
    DT_TRY(optimizers.emplace_back(), module_->make_optimizer(*executor_, rule.optimizer));
    DT_TRY(std::unique_ptr<kvstore::Store> store,
           kvstore::DeviceStore::create_on_devices({.rule = rule}, {}, std::move(optimizers), waits));
    DT_TRY_VOID(store->initialize({&executor_->device_parameters(), 1}, {}));
    return store;
  }

  // Measures networks of a single layer, whose size is increased until they take long enough for a measurement.
  Result<> measure_peak() override {
    if (peak().flops_per_s > 0) return {};
    DT_TRY(const double flops, flops_per_s());
    DT_TRY(const double bytes, bytes_per_s());
    note_peak({.flops_per_s = flops, .bytes_per_s = bytes});
    return {};
  }

  void begin_profile() override {}

  Result<std::vector<ProfileLine>> profile(const std::function<Result<>(int64_t)>& run) override {
    timeline_.begin();
    DT_TRY_VOID(run(kProfiledSteps));
    timeline_.end();
    std::vector<ProfileLine> lines;
    for (const auto& [name, calls] : calls_of(timeline_, track()))
      lines.push_back(line_of(name, calls, kProfiledSteps));
    return with_flops(std::move(lines));
  }

 private:
  static constexpr double kLongEnough = 5e-3;  // shortest time in seconds that a layer must take to be measured
  static constexpr int kTries = 3;
  static constexpr const char* kLayer = "layer";

  [[nodiscard]] std::string track() const { return fmt::format("GPU {}", number_); }

  exec::Options on_device(exec::Options options) {
    options.parameters_on_device = options.purpose == exec::Options::Purpose::kTraining;
    // Images are floats: without same_batch, copying them would take a third of the time of a ResNet's step.
    options.same_batch = true;
    options.timeline = &timeline_;
    return options;
  }

  // Sets the number of floating-point operations of each call. The backward pass of a node computes one product of the
  // size of the forward pass for the weights, and another one if the gradient with respect to the input is needed.
  Result<std::vector<ProfileLine>> with_flops(std::vector<ProfileLine> lines) const {
    DT_TRY(const graph::Shapes shapes, graph::infer_shapes(graph_, options_.inputs.front().shape));
    const std::vector<int64_t> products = graph::multiply_accumulates_by_node(graph_, shapes);
    std::map<std::string_view, graph::NodeId> nodes;
    for (graph::NodeId id = 0; id < graph_.nodes().size(); id++) nodes[graph_.node(id).name] = id;
    const std::vector<char> wanted = graph::wants_gradient(graph_, shapes);
    for (ProfileLine& line : lines) {
      const auto found = nodes.find(line.node);
      if (found == nodes.end()) continue;
      const double forward = 2.0 * static_cast<double>(products[found->second] * options_.batch_size);
      const bool by_input = std::ranges::any_of(graph_.node(found->second).data_inputs,
                                                [&](graph::NodeId input) { return wanted[input] != 0; });
      line.flops = line.what == "backward" ? forward * (by_input ? 2 : 1) : forward;
    }
    return lines;
  }

  Result<double> flops_per_s() {
    constexpr int64_t kLeast = 128, kMost = 8192;
    double best = 0;
    for (int64_t n = kLeast; n <= kMost; n *= 2) {
      DT_TRY(const double seconds, seconds_of(graph::FullyConnected{.outputs = n, .bias = false}, {n, 1, 1}, n));
      best = std::max(best, 2.0 * static_cast<double>(n * n * n) / seconds);
      if (seconds >= kLongEnough) break;
    }
    return best;
  }

  // Measures how fast a tensor can be read and written, in bytes/s.
  Result<double> bytes_per_s() {
    constexpr int64_t kMost = 512;
    const Shape image = {16, 64, 64};
    double best = 0;
    for (int64_t n = 1; n <= kMost; n *= 2) {
      DT_TRY(const double seconds, seconds_of(graph::Activation{}, image, n));
      const double elements = static_cast<double>(n * element_count(image));
      best = std::max(best, 2 * elements * static_cast<double>(bytes_of(options_.dtype)) / seconds);
      if (seconds >= kLongEnough) break;
    }
    return best;
  }

  // The shortest duration of a layer, in seconds.
  Result<double> seconds_of(const graph::Op& op, const Shape& image, int64_t batch) {
    graph::Builder builder;
    graph::NodeId node = builder.add(kLayer, op, {builder.data()});
    if (std::holds_alternative<graph::Activation>(op)) {
      node = builder.add("pooled", graph::Pooling{.kind = graph::Pooling::Kind::kAverage, .global = true}, {node});
    }
    node = builder.add("classes", graph::FullyConnected{.outputs = 2}, {node});
    builder.add("softmax", graph::SoftmaxOutput{}, {node});
    exec::Options options = on_device({.purpose = exec::Options::Purpose::kInference,
                                       .batch_size = batch,
                                       .inputs = {{.shape = image}},
                                       .dtype = options_.dtype,
                                       .tf32 = options_.tf32});
    DT_TRY(const std::unique_ptr<exec::Executor> executor, backend_->compile(builder.take(), options));
    DT_TRY_VOID(optim::initialize({}, executor->parameters(), kBenchSeed));
    std::vector<float> images(static_cast<size_t>(batch * element_count(image)));
    for (size_t i = 0; i < images.size(); i++)
      // The images have values other than 0, because computing with zeros would be faster.
      images[i] = static_cast<float>(i % 255) / 255 - 0.5F;
    DT_TRY_VOID(executor->forward(Batch::of(images, {}), exec::no_wait));
    (void)executor->result(0);
    timeline_.begin();
    for (int i = 0; i < kTries; i++) {
      DT_TRY_VOID(executor->forward(Batch::of(images, {}), exec::no_wait));
      (void)executor->result(0);
    }
    timeline_.end();
    const std::map<std::string, Calls> calls = calls_of(timeline_, track());
    const auto found = calls.find(fmt::format("{}: forward", kLayer));
    DT_CHECK(found != calls.end(), "the timeline has no span of the layer");
    return line_of(found->first, found->second, kTries).least_s;
  }

  const int number_;
  const std::string name_;
  const std::shared_ptr<exec::DeviceModule> module_;
  const std::unique_ptr<exec::Backend> backend_;
  telemetry::Timeline timeline_;
  graph::Graph graph_;
  exec::Options options_;
  std::unique_ptr<exec::Executor> executor_;
};

}  // namespace

Result<std::unique_ptr<BenchDevice>> bench_gpu(int number, const std::string& module) {
  DT_TRY(std::shared_ptr<exec::DeviceModule> loaded, role::load_devices(module),
         "opening --gpus (without --gpus, the CPU is measured)");
  DT_TRY(const std::string description, loaded->describe(number), "opening --gpus");
  DT_TRY(std::unique_ptr<exec::Backend> backend, loaded->make_backend(number, {}, Log::silent()));
  return std::make_unique<Gpu>(number, fmt::format("gpu({}): {}", number, description), std::move(loaded),
                               std::move(backend));
}

}  // namespace dtrain::bench
