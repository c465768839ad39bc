// Whole training runs with the learned tensors in the memory of emulated devices. Checkpoints, logs and messages must
// equal those of training with host memory byte by byte.
#include <catch2/catch.hpp>
#include <thread>

#include "comm/shared_memory.h"
#include "cuda/executor/executor.h"
#include "cuda/optimizer.h"
#include "emulator.h"
#include "plain_runner.h"
#include "support/allocations.h"
#include "train/checkpoint.h"
#include "train/members.h"
#include "train/step.h"
#include "train/toy_run.h"

using namespace dtrain;
using namespace dtrain::train::test;
using kvstore::DeviceStore;
using kvstore::DeviceStoreOptions;
using kvstore::UpdateAt;

namespace {

constexpr std::array kPlaces = {UpdateAt::kFirstDevice, UpdateAt::kOwner, UpdateAt::kShards, UpdateAt::kReplicas};

// Behaves to a store as NCCL does, but sums in the order of shared memory: operations are queued in the store's stream,
// and not at all if a graph contains them.
class QueuedCollective final : public comm::Collective {
 public:
  QueuedCollective(std::unique_ptr<comm::Collective> end, std::shared_ptr<cuda::StoreStream> stream)
      : end_(std::move(end)), stream_(std::move(stream)) {}
  [[nodiscard]] uint32_t rank() const override { return end_->rank(); }
  [[nodiscard]] uint32_t size() const override { return end_->size(); }
  Result<> all_reduce(std::span<float> values) override {
    return queue([=](comm::Collective& end) { return end.all_reduce(values); });
  }
  Result<> reduce_scatter(std::span<float> values) override {
    return queue([=](comm::Collective& end) { return end.reduce_scatter(values); });
  }
  Result<> all_gather(std::span<float> values) override {
    return queue([=](comm::Collective& end) { return end.all_gather(values); });
  }
  Result<> reduce(std::span<float> values, uint32_t root) override {
    return queue([=](comm::Collective& end) { return end.reduce(values, root); });
  }
  Result<> broadcast(std::span<float> values, uint32_t root) override {
    return queue([=](comm::Collective& end) { return end.broadcast(values, root); });
  }
  void cancel(Error error) override { end_->cancel(std::move(error)); }

 private:
  template <class Operation>
  Result<> queue(Operation operation) {
    if (!stream_->takes_work()) return {};
    cuda::emulator::queue(stream_->get(), [end = end_, operation] { (void)operation(*end); });
    return {};
  }

  std::shared_ptr<comm::Collective> end_;
  std::shared_ptr<cuda::StoreStream> stream_;
};

using Group = std::vector<std::unique_ptr<comm::Collective>>;

Group make_group(size_t ranks) {
  return comm::make_shared_memory_group(static_cast<uint32_t>(ranks), {.wait_limit_s = 60});
}

cuda::CudaExecutor& cuda_executor(exec::DeviceGroup& executors, size_t device) {
  return dynamic_cast<cuda::CudaExecutor&>(executors.executor(device));
}

std::unique_ptr<comm::Collective> queued(std::unique_ptr<comm::Collective> end, const cuda::CudaExecutor& executor) {
  return std::make_unique<QueuedCollective>(std::move(end), executor.store_stream());
}

// The ends, wrapped to work in the store's streams if the executors' arrays are on devices.
Group placed(Group ends, exec::DeviceGroup& executors) {
  if (!executors.parameters_on_device()) return ends;
  for (size_t i = 0; i < ends.size(); i++) ends[i] = queued(std::move(ends[i]), cuda_executor(executors, i));
  return ends;
}

std::unique_ptr<kvstore::Store> make_store(Group ends, const optim::OptimizerSpec& spec, exec::DeviceGroup& executors,
                                           DeviceStoreOptions options, Waits& waits) {
  Group group = placed(std::move(ends), executors);
  if (!executors.parameters_on_device()) {
    return must(DeviceStore::create(std::move(options), std::move(group), nullptr, waits));
  }
  DeviceStore::Optimizers optimizers;
  for (size_t i = 0; i < executors.size(); i++) {
    optimizers.push_back(must(cuda::make_device_optimizer(executors.executor(i), spec)));
  }
  return must(DeviceStore::create_on_devices(std::move(options), std::move(group), std::move(optimizers), waits));
}

ToyOptions devices(size_t count, UpdateAt update_at, bool on_device) {
  ToyOptions options;
  options.make_backend = cuda::test::emulated_backend;
  options.make_store = [update_at](exec::DeviceGroup& executors, DeviceStoreOptions store, Waits& waits) {
    store.update_at = update_at;
    Group group = executors.size() == 1 ? Group{} : make_group(executors.size());
    return make_store(std::move(group), store.rule.optimizer, executors, store, waits);
  };
  options.devices = count;
  options.parameters_on_device = on_device;
  return options;
}

// The log lines without times and without the name of the directory.
std::vector<std::string> steady_lines(const ToyRun& run, const TempDir& directory) {
  std::vector<std::string> lines;
  for (std::string line : run.lines()) {
    // Measured times.
    if (line.find("Time cost") != std::string::npos || line.find("the limit: ") != std::string::npos) continue;
    if (const size_t at = line.find(directory.path()); at != std::string::npos) line.erase(at, directory.path().size());
    lines.push_back(line);
  }
  return lines;
}

std::string checkpoints(const TempDir& directory) {
  std::string files;
  for (const int64_t epoch : {1, 2}) {
    const train::CheckpointName name{directory.path("net"), epoch};
    files += read_file(name.params_path()).value_or("none");
    files += read_file(name.states_path()).value_or("none");
  }
  return files;
}

// A run of two epochs: its checkpoints and its log.
struct Ended {
  TempDir directory;
  std::vector<std::string> lines;
  std::string error;
  std::string files;

  explicit Ended(ToyOptions options, const std::function<void(train::TrainSpec&)>& change = nullptr) {
    train::TrainSpec spec = toy_spec(directory.path("net"), 2);
    spec.disp_batches = 100;  // no line with a speed
    if (change) change(spec);
    ToyRun run(spec, std::move(options));
    const auto outcome = run.run();
    if (!outcome) error = outcome.error().text();
    lines = steady_lines(run, directory);
    files = checkpoints(directory);
  }
};

void check_same(const Ended& a, const Ended& b) {
  CHECK(a.error == b.error);
  CHECK(a.lines == b.lines);
  CHECK(a.files == b.files);
}

}  // namespace

TEST_CASE("a store on devices gives the same bits as one over the host", "[cuda][kvstore]") {
  for (const size_t count : {1, 2, 4}) {
    for (const UpdateAt update_at : kPlaces) {
      INFO(count << " devices, update at " << static_cast<int>(update_at));
      const Ended on_host(devices(count, update_at, false)), on_device(devices(count, update_at, true));
      CHECK(on_host.error.empty());
      CHECK(on_host.files.find("none") == std::string::npos);
      check_same(on_device, on_host);
      if (count == 1) break;  // with a single device, update_at makes no difference
    }
  }
}

namespace {

// Does what sum_gradients of a device module does.
void sum_gradients(exec::DeviceGroup& executors) {
  Group ends = make_group(executors.size());
  for (size_t i = 0; i < ends.size(); i++) {
    cuda::CudaExecutor& executor = cuda_executor(executors, i);
    executor.sum_gradients_over(queued(std::move(ends[i]), executor));
  }
}

// Devices whose sums go to servers; a store for one device takes the place of the servers.
ToyOptions before_servers(size_t count, bool sum_on_devices) {
  ToyOptions options = devices(count, UpdateAt::kServers, false);
  options.make_store = [=](exec::DeviceGroup& executors, DeviceStoreOptions store, Waits& waits) {
    store.update_at = UpdateAt::kFirstDevice;
    std::unique_ptr<kvstore::Store> servers = must(DeviceStore::create(store, {}, nullptr, waits));
    store.update_at = UpdateAt::kServers;
    store.gradients_are_summed = sum_on_devices;
    if (sum_on_devices) sum_gradients(executors);
    return must(DeviceStore::create(store, make_group(count), std::move(servers), waits));
  };
  return options;
}

}  // namespace

TEST_CASE("gradients that are summed on devices give the same bits as sums on the host", "[cuda][kvstore]") {
  for (const size_t count : {2, 4}) {
    const Ended on_host(before_servers(count, false)), on_device(before_servers(count, true));
    CHECK(on_host.error.empty());
    CHECK(on_host.files.find("none") == std::string::npos);
    check_same(on_device, on_host);
  }
}

namespace {

// Two devices with a share of a batch each; run() does a forward and a backward pass.
struct TwoDevices {
  exec::DeviceGroup executors;

  explicit TwoDevices(bool sum) : executors(compile(), {2, 3}) {
    if (sum) sum_gradients(executors);
    for (size_t device = 0; device < 2; device++) {
      const ParameterView& view = executors.parameters(device);
      for (size_t i = 0; i < view.all_weights.size(); i++)
        view.all_weights[i] = 0.01F * static_cast<float>(i % 17) - 0.1F;
      std::ranges::fill(view.all_gradients, -1.0F);
    }
  }
  Result<> run(const exec::DeviceGroup::DeviceCall& ready = exec::no_device_wait) {
    std::vector<float> pixels(static_cast<size_t>(kToyBatch) * 36), labels(static_cast<size_t>(kToyBatch), 1);
    for (size_t i = 0; i < pixels.size(); i++) pixels[i] = static_cast<float>(i % 7) - 3;
    DT_TRY_VOID(executors.forward(Batch::of(pixels, labels), exec::no_device_wait));
    return executors.backward(ready);
  }
  [[nodiscard]] std::vector<float> gradients(size_t device) {
    std::vector<float> all;
    for (const ParameterSpan& p : executors.parameters(device).parameters) {
      all.insert(all.end(), p.gradient.begin(), p.gradient.end());
    }
    return all;
  }

 private:
  static std::vector<std::unique_ptr<exec::Executor>> compile() {
    const auto backend = cuda::test::emulated_backend();
    std::vector<std::unique_ptr<exec::Executor>> executors;
    for (const int64_t batch : {2, 3}) {
      executors.push_back(must(backend->compile(
          toy_network(), {.batch_size = batch, .inputs = {{.shape = {1, 6, 6}}}, .bucket_begin = {0, 2, 4}})));
    }
    return executors;
  }
};

// A rank of a group whose other ranks never arrive.
class LonelyEnd final : public comm::Collective {
 public:
  explicit LonelyEnd(std::vector<std::string>& called_off) : called_off_(called_off) {}
  [[nodiscard]] uint32_t rank() const override { return 0; }
  [[nodiscard]] uint32_t size() const override { return 2; }
  Result<> all_reduce(std::span<float>) override { return {}; }
  Result<> reduce_scatter(std::span<float>) override { return {}; }
  Result<> all_gather(std::span<float>) override { return {}; }
  Result<> reduce(std::span<float>, uint32_t) override { return {}; }
  Result<> broadcast(std::span<float>, uint32_t) override { return {}; }
  void cancel(Error error) override { called_off_.push_back(error.message); }

 private:
  std::vector<std::string>& called_off_;
};

}  // namespace

TEST_CASE("if gradients are summed on devices, only the first device copies them to the host", "[cuda][kvstore]") {
  TwoDevices apart(false), together(true);
  REQUIRE(apart.run());
  REQUIRE(together.run());
  std::vector<float> sum = apart.gradients(0);
  const std::vector<float> other = apart.gradients(1);
  for (size_t i = 0; i < sum.size(); i++) sum[i] += other[i];
  CHECK(together.gradients(0) == sum);
  CHECK(together.gradients(1) == std::vector<float>(sum.size(), -1.0F));
}

TEST_CASE("a device that waits in vain for gradients of others says so and cancels the sum", "[cuda][kvstore]") {
  TwoDevices two(false);
  std::vector<std::string> called_off;
  cuda::CudaExecutor& first = cuda_executor(two.executors, 0);
  first.sum_gradients_over(std::make_unique<LonelyEnd>(called_off));
  first.store_stream()->set_watch([](auto) -> Result<> { return fail(Code::kPeerLost, "a rank did not come"); });
  const Result<> outcome = two.run();
  REQUIRE_FALSE(outcome);
  CHECK(outcome.error().code == Code::kPeerLost);
  CHECK(called_off == std::vector<std::string>{"a rank did not come"});
}

TEST_CASE("a run with the parameters on devices continues from its checkpoint with the same bits", "[cuda][kvstore]") {
  for (const size_t count : {1, 2}) {
    const ToyOptions options = devices(count, UpdateAt::kShards, true);
    const TempDir whole, parts;
    REQUIRE(ToyRun(toy_spec(whole.path("net"), 3), options).run());
    REQUIRE(ToyRun(toy_spec(parts.path("net"), 1), options).run());
    train::TrainSpec rest = toy_spec(parts.path("net"), 3);
    rest.start_from = train::StartFrom{parts.path("net"), std::nullopt};
    REQUIRE(ToyRun(rest, options).run());
    const train::CheckpointName a{whole.path("net"), 3}, b{parts.path("net"), 3};
    CHECK(must(read_file(a.params_path())) == must(read_file(b.params_path())));
    CHECK(must(read_file(a.states_path())) == must(read_file(b.states_path())));
  }
}

namespace {

ToyOptions with_change(ToyOptions options, const ToyDataset::Change& change) {
  options.change = change;
  options.network = linear_network();
  options.bucket_begin = {0};
  return options;
}

void spoil_loss(int64_t index, std::span<float> image) {
  if (index == 11) image[3] = std::numeric_limits<float>::quiet_NaN();
}
// So large that the loss is finite but the gradient, a sum over images, is not.
void spoil_gradient(int64_t index, std::span<float> image) {
  if (index % 3 == 0) image[3] = 3e38F;
}

}  // namespace

TEST_CASE("a value that is not finite on a device ends the run and is named as on the host", "[cuda][kvstore]") {
  for (const auto& change : {spoil_loss, spoil_gradient}) {
    for (const size_t count : {1, 2}) {
      const auto run = [&](bool on_device) {
        return Ended(with_change(devices(count, UpdateAt::kReplicas, on_device), change));
      };
      const Ended on_host = run(false), on_device = run(true);
      CHECK_THAT(on_device.error, Catch::Contains("rank 0") && Catch::Contains("is not finite") &&
                                      Catch::Contains(", first in layer '"));
      CHECK(on_device.error == on_host.error);
    }
  }
}

TEST_CASE("steps that are not finite are skipped on devices as on the host", "[cuda][kvstore]") {
  for (const auto& change : {spoil_loss, spoil_gradient}) {
    for (const size_t count : {1, 2}) {
      const auto run = [&](bool on_device) {
        return Ended(with_change(devices(count, UpdateAt::kReplicas, on_device), change),
                     [](train::TrainSpec& spec) { spec.on_nan = job::OnNan::kSkip; });
      };
      const Ended on_host = run(false), on_device = run(true);
      CHECK(on_host.error.empty());
      CHECK(std::ranges::any_of(on_host.lines,
                                [](const auto& line) { return line.find("left out") != std::string::npos; }));
      check_same(on_device, on_host);
    }
  }
}

namespace {

// So large that gradients overflow until the scale has been halved several times.
void overflow_float16(int64_t index, std::span<float> image) {
  if (index % 5 == 0) std::ranges::fill(image, 60.0F);
}

}  // namespace

TEST_CASE("the loss scale moves on devices as over the host", "[cuda][kvstore]") {
  for (const size_t count : {1, 2}) {
    const auto run = [&](bool on_device) {
      ToyOptions options = devices(count, UpdateAt::kShards, on_device);
      options.dtype = Type::kFloat16;
      options.change = overflow_float16;
      return Ended(std::move(options),
                   [](train::TrainSpec& spec) { spec.loss_scale = *train::LossScale::parse("dynamic"); });
    };
    const Ended on_host = run(false), on_device = run(true);
    CHECK(std::ranges::any_of(on_host.lines,
                              [](const auto& line) { return line.find("overflowed") != std::string::npos; }));
    check_same(on_device, on_host);
  }
}

namespace {

// Runs a job without servers whose workers' devices are all in one group, and keeps its results.
struct JobEnded {
  TempDir directory;
  std::vector<std::string> errors;              // by worker
  std::vector<std::vector<std::string>> lines;  // by worker
  std::string files;                            // of rank 0

  JobEnded(uint32_t workers, ToyOptions options, const std::function<void(train::TrainSpec&)>& change = nullptr)
      : errors(workers), lines(workers) {
    train::TrainSpec spec = toy_spec(directory.path("net"), 2);
    spec.disp_batches = 100;
    if (change) change(spec);
    const bool samples_differ = spec.on_nan == job::OnNan::kSkip || spec.loss_scale.is_dynamic();
    Group group = make_group(workers * options.devices);
    options.workers = workers;
    options.make_store = [&](exec::DeviceGroup& executors, DeviceStoreOptions store, Waits& waits) {
      store.update_at = UpdateAt::kReplicas;
      store.samples_differ = samples_differ;
      Group mine;
      for (size_t i = 0; i < executors.size(); i++) mine.push_back(std::move(group[i]));
      group.erase(group.begin(), group.begin() + static_cast<ptrdiff_t>(executors.size()));
      return make_store(std::move(mine), store.rule.optimizer, executors, store, waits);
    };
    Meetings meetings(workers);
    std::vector<std::unique_ptr<Member>> members;
    std::vector<std::unique_ptr<ToyRun>> runs;
    for (uint32_t w = 0; w < workers; w++) {
      options.rank = w;
      members.push_back(std::make_unique<Member>(meetings, w));
      runs.push_back(std::make_unique<ToyRun>(spec, options, members.back().get()));
    }
    run_all(runs);
    for (uint32_t w = 0; w < workers; w++) lines[w] = steady_lines(*runs[w], directory);
    files = checkpoints(directory);
  }

 private:
  void run_all(const std::vector<std::unique_ptr<ToyRun>>& runs) {
    std::vector<std::jthread> threads;
    for (size_t w = 0; w < runs.size(); w++) {
      threads.emplace_back([&, w] {
        const auto outcome = runs[w]->run();
        if (!outcome) errors[w] = outcome.error().text();
      });
    }
  }
};

void check_same(const JobEnded& a, const JobEnded& b) {
  CHECK(a.errors == b.errors);
  CHECK(a.lines == b.lines);
  CHECK(a.files == b.files);
}

bool says(const std::vector<std::string>& lines, const std::string& what) {
  return std::ranges::any_of(lines, [&](const auto& line) { return line.find(what) != std::string::npos; });
}

}  // namespace

TEST_CASE("devices of several workers give the same bits as sums on the hosts", "[cuda][kvstore]") {
  for (const size_t count : {1, 2}) {
    const auto run = [&](bool on_device) { return JobEnded(2, devices(count, UpdateAt::kReplicas, on_device)); };
    const JobEnded on_host = run(false), on_device = run(true);
    CHECK(on_host.errors == std::vector<std::string>(2));
    CHECK(on_host.files.find("none") == std::string::npos);
    check_same(on_device, on_host);
  }
}

// The first worker's share has the image with a NaN; only the other worker's step counts.
TEST_CASE("a worker that skips a step adds no samples on the devices of the others", "[cuda][kvstore]") {
  for (const size_t count : {1, 2}) {
    const auto run = [&](bool on_device) {
      return JobEnded(2, with_change(devices(count, UpdateAt::kReplicas, on_device), spoil_loss),
                      [](train::TrainSpec& spec) { spec.on_nan = job::OnNan::kSkip; });
    };
    const JobEnded on_host = run(false), on_device = run(true);
    CHECK(on_host.errors == std::vector<std::string>(2));
    CHECK(says(on_host.lines[0], "left out"));
    CHECK_FALSE(says(on_host.lines[1], "left out"));
    check_same(on_device, on_host);
  }
}

// One device, which runs in the test's own thread; gradients are handed over at once or held back.
TEST_CASE("a store on a device trains with the same bits as late as streams may run", "[cuda][kvstore]") {
  for (const job::OnNan on_nan : {job::OnNan::kFail, job::OnNan::kSkip}) {
    const auto run = [&](bool on_device) {
      return Ended(devices(1, UpdateAt::kOwner, on_device), [&](train::TrainSpec& spec) { spec.on_nan = on_nan; });
    };
    const Ended on_host = run(false);
    const cuda::emulator::LateStreams late;
    check_same(run(true), on_host);
  }
}

namespace {

// Steps of a single worker with one device, batch after batch, as the trainer makes them.
class DeviceSteps {
 public:
  static constexpr int64_t kBatches = 4;

  DeviceSteps(Type type, job::OnNan on_nan, const std::string& loss_scale)
      : devices_(must(cuda::test::emulated_backend()->compile(graph_, {.batch_size = kToyBatch,
                                                                       .inputs = {{.shape = {1, 6, 6}}},
                                                                       .dtype = type,
                                                                       .parameters_on_device = true})),
                 kToyBatch),
        store_(make_store({}, {}, devices_, {.update_at = UpdateAt::kOwner}, waits_)),
        runner_({.graph = graph_,
                 .inputs = {{.shape = {1, 6, 6}}},
                 .devices = devices_,
                 .bucket_begin = {0},
                 .store = *store_,
                 .on_nan = on_nan,
                 .loss_scale = must(train::LossScale::parse(loss_scale)),
                 .log = Log::silent()}) {
    must(store_->initialize({&devices_.device_parameters(), 1}, {}));
    for (uint64_t b = 0; b < kBatches; b++) {
      images_[b].assign(static_cast<size_t>(kToyBatch) * 36, 0.1F * static_cast<float>(b));
      labels_[b].assign(static_cast<size_t>(kToyBatch), static_cast<float>(b));
      batches_[b] = {Batch::of(images_[b], labels_[b]), kToyBatch, {}, b + 1};
    }
  }

  Result<bool> run(uint64_t step, bool announces) {
    const data::LoadedBatch* next = announces ? &batches_[(step + 1) % kBatches] : nullptr;
    return runner_.run(batches_[step % kBatches], step, next);
  }
  [[nodiscard]] std::vector<float> probabilities() {
    const std::span<const float> all = devices_.result(0);
    return {all.begin(), all.end()};
  }
  [[nodiscard]] size_t image_bytes() const { return images_[0].size() * sizeof(float); }

 private:
  const graph::Graph graph_ = toy_network();
  exec::DeviceGroup devices_;
  Waits waits_;
  std::unique_ptr<kvstore::Store> store_;
  std::array<std::vector<float>, kBatches> images_, labels_;
  std::array<data::LoadedBatch, kBatches> batches_;
  train::StepRunner runner_;
};

size_t copies_to_device(const cuda::emulator::Session& session, size_t bytes) {
  return static_cast<size_t>(std::ranges::count_if(session.records(), [&](const cuda::emulator::Record& record) {
    return record.name == "copy to device" && record.bytes == static_cast<int64_t>(bytes);
  }));
}

size_t graphs(const cuda::emulator::Session& session) {
  return static_cast<size_t>(std::ranges::count(session.records(), "graph", &cuda::emulator::Record::name));
}

}  // namespace

// The default of float16 and other settings: the device decides whether the step counts and adjusts the loss scale.
TEST_CASE("a step on one device is one graph, and the host waits for it once", "[cuda][kvstore]") {
  struct Way {
    Type type;
    job::OnNan on_nan;
    const char* loss_scale;
  };
  for (const Way& way : {Way{Type::kFloat16, job::OnNan::kFail, "dynamic"},
                         {Type::kFloat16, job::OnNan::kSkip, "dynamic"},
                         {Type::kFloat16, job::OnNan::kFail, "128"},
                         {Type::kFloat32, job::OnNan::kSkip, "none"},
                         {Type::kFloat32, job::OnNan::kFail, "none"}}) {
    INFO(way.loss_scale << ", on nan " << static_cast<int>(way.on_nan));
    DeviceSteps steps(way.type, way.on_nan, way.loss_scale);
    for (uint64_t step = 0; step < 5; step++) {
      const cuda::emulator::Session session;
      const uint64_t before = cuda::emulator::host_waits();
      REQUIRE(steps.run(step, true));
      CHECK(cuda::emulator::host_waits() - before == 1);
      CHECK(graphs(session) == (step == 0 ? 0 : 1));
    }
  }
}

TEST_CASE("an announced batch is copied beside the step before it", "[cuda][kvstore]") {
  DeviceSteps apart(Type::kFloat16, job::OnNan::kFail, "dynamic"), beside(Type::kFloat16, job::OnNan::kFail, "dynamic");
  for (uint64_t step = 0; step < 6; step++) {
    const cuda::emulator::Session session;
    REQUIRE(apart.run(step, false));
    CHECK(copies_to_device(session, apart.image_bytes()) == 1);
    const std::vector<float> expected = apart.probabilities();
    const cuda::emulator::LateStreams late;
    const cuda::emulator::Session of_beside;
    REQUIRE(beside.run(step, step != 3));
    // The first batch, and the one after step 3, which was not announced, are copied in their own step.
    const size_t own = step == 0 || step == 4 ? 1 : 0, next = step != 3 ? 1 : 0;
    CHECK(copies_to_device(of_beside, beside.image_bytes()) == own + next);
    CHECK(beside.probabilities() == expected);
  }
}

// Like test/train/allocation_test.cc for other devices. Allocations of the emulated driver are not counted.
TEST_CASE("a step of a store on a device allocates nothing", "[cuda][kvstore]") {
  const auto backend = cuda::test::emulated_backend();
  const graph::Graph graph = toy_network();
  const auto images = static_cast<size_t>(kToyBatch);
  const std::vector<float> pixels(images * 36, 0.5F), labels(images, 1);
  for (const job::OnNan on_nan : {job::OnNan::kFail, job::OnNan::kSkip}) {
    exec::DeviceGroup devices(
        must(backend->compile(
            graph, {.batch_size = kToyBatch, .inputs = {{.shape = {1, 6, 6}}}, .parameters_on_device = true})),
        kToyBatch);
    Waits waits;
    const auto store = make_store({}, {}, devices, {.update_at = UpdateAt::kOwner}, waits);
    must(store->initialize({&devices.device_parameters(), 1}, {}));
    train::StepRunner runner({.graph = graph,
                              .inputs = {{.shape = {1, 6, 6}}},
                              .devices = devices,
                              .bucket_begin = {0},
                              .store = *store,
                              .on_nan = on_nan,
                              .log = Log::silent()});
    dtrain::test::allocations = 0;
    for (uint64_t step = 0; step < 20; step++) {
      dtrain::test::counts_allocations = step >= 10;
      const Result<bool> applied = runner.run({Batch::of(pixels, labels), kToyBatch}, step);
      dtrain::test::counts_allocations = false;
      REQUIRE(applied);
    }
    CHECK(dtrain::test::allocations == 0);
  }
}
