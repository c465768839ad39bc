// Checkpoints, logs and messages of training with the learned tensors on devices must equal those of training with host
// memory byte by byte.

#include "cuda/executor/host_executor.h"
#include "on_device_runs.h"
#include "support/catch.h"
#include "train/fakes.h"

using namespace dtrain;
using namespace dtrain::train::test;

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

graph::Graph network_with_dropout() {
  using namespace graph;
  Graph g;
  NodeId x = g.add("data", Input{}, {});
  x = g.add("flatten", Flatten{}, {x});
  x = g.add("fc1", FullyConnected{.outputs = 8}, {x});
  x = g.add("drop1", Dropout{0.5}, {x});
  x = g.add("fc2", FullyConnected{.outputs = kToyClasses}, {x});
  g.add("softmax", SoftmaxOutput{}, {x});
  return g;
}

}  // namespace

// A batch is copied to the device ahead of its step, with the keys that say which elements its images lose.
TEST_CASE("a store on a device leaves out the same elements as one over the host", "[cuda][kvstore]") {
  const auto run = [](bool on_device) {
    ToyOptions options = devices(1, UpdateAt::kOwner, on_device);
    options.network = network_with_dropout();
    options.bucket_begin = {0};
    return Ended(options);
  };
  const Ended on_host = run(false), on_device = run(true);
  CHECK(on_host.error.empty());
  CHECK(on_host.files.find("none") == std::string::npos);
  check_same(on_device, on_host);
}

namespace {

// Does what sum_gradients of a device module does.
void sum_gradients(exec::DeviceGroup& executors) {
  Group ends = make_group(executors.size());
  for (size_t i = 0; i < ends.size(); i++) {
    auto& executor = dynamic_cast<cuda::HostExecutor&>(executors.executor(i));
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
  auto& first = dynamic_cast<cuda::HostExecutor&>(two.executors.executor(0));
  first.sum_gradients_over(std::make_unique<LonelyEnd>(called_off));
  first.store_stream()->set_watch([](auto) -> Result<> { return fail(Code::kPeerLost, "a rank did not join"); });
  const Result<> outcome = two.run();
  REQUIRE_FALSE(outcome);
  CHECK(outcome.error().code == Code::kPeerLost);
  CHECK(called_off == std::vector<std::string>{"a rank did not join"});
}

namespace {

// How often as many bytes were copied between the host and the device.
size_t copies_of(size_t bytes, const cuda::emulator::Session& session) {
  return static_cast<size_t>(std::ranges::count_if(session.records(), [&](const cuda::emulator::Record& record) {
    return (record.name == "copy to host" || record.name == "copy to device") &&
           record.bytes == static_cast<int64_t>(bytes);
  }));
}

}  // namespace

// Also if steps may be left out, so that the statistics must be put back.
TEST_CASE("statistics are copied only when the host asks for them or has changed them", "[cuda][kvstore]") {
  struct Way {
    Type type;
    job::OnNan on_nan;
    const char* loss_scale;
  };
  for (const Way& way : {Way{Type::kFloat32, job::OnNan::kFail, "none"},
                         {Type::kFloat32, job::OnNan::kSkip, "none"},
                         {Type::kFloat16, job::OnNan::kFail, "dynamic"}}) {
    INFO(way.loss_scale << ", on nan " << static_cast<int>(way.on_nan));
    const graph::Graph graph = toy_network();
    exec::DeviceGroup devices(
        must(cuda::test::emulated_backend()->compile(
            graph, {.batch_size = kToyBatch, .inputs = {{.shape = {1, 6, 6}}}, .dtype = way.type})),
        kToyBatch);
    std::ranges::fill(devices.parameters().all_weights, 0.1F);
    Waits waits;
    const auto store = make_store({}, {}, devices, {.update_at = UpdateAt::kOwner}, waits);
    must(store->initialize({&devices.device_parameters(), 1}, {}));
    train::StepRunner runner({.graph = graph,
                              .inputs = {{.shape = {1, 6, 6}}},
                              .devices = devices,
                              .bucket_begin = {0},
                              .store = *store,
                              .on_nan = way.on_nan,
                              .loss_scale = must(train::LossScale::parse(way.loss_scale)),
                              .log = Log::silent()});
    const std::vector<float> pixels(static_cast<size_t>(kToyBatch) * 36, 0.5F);
    const std::vector<float> labels(static_cast<size_t>(kToyBatch), 1);
    const size_t bytes = devices.parameters().all_statistics.size_bytes();
    const auto step = [&](uint64_t number) {
      const cuda::emulator::Session session;
      REQUIRE(run_step(runner, {Batch::of(pixels, labels), kToyBatch}, number));
      return copies_of(bytes, session);
    };
    CHECK(step(0) == 1);
    for (uint64_t number = 1; number < 5; number++) CHECK(step(number) == 0);
    {
      const cuda::emulator::Session session;
      for (int time = 0; time < 2; time++) CHECK(devices.parameters().all_statistics[0] != 0);
      CHECK(copies_of(bytes, session) == 1);
    }
    CHECK(step(5) == 1);
    CHECK(step(6) == 0);
  }
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

// So large that the loss is finite but the gradient is not.
void spoil_gradient(int64_t index, std::span<float> image) {
  if (index % 3 == 0) image[3] = 3e38F;
}

// Only the host limits gradients whose sum it cannot see.
std::string without_limit(std::string text) {
  const size_t at = text.find(" or not below "), end = text.find(", first", at);
  return at == std::string::npos ? text : text.erase(at, end == std::string::npos ? end : end - at);
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
      CHECK(on_device.error == without_limit(on_host.error));
    }
  }
}

namespace {

// Every update has another learning rate, which depends on the steps that counted before it.
const optim::ScheduleSpec kEachStepDiffers{
    .base = 0.05, .kind = optim::ScheduleSpec::Kind::kCosine, .end_epochs = 2, .warmup_epochs = 0.5};

}  // namespace

TEST_CASE("steps that are not finite are skipped on devices as on the host", "[cuda][kvstore]") {
  for (const auto& change : {spoil_loss, spoil_gradient}) {
    for (const size_t count : {1, 2}) {
      const auto run = [&](bool on_device) {
        return Ended(with_change(devices(count, UpdateAt::kReplicas, on_device), change), [](train::TrainSpec& spec) {
          spec.on_nan = job::OnNan::kSkip;
          spec.schedule = kEachStepDiffers;
        });
      };
      Ended on_host = run(false), on_device = run(true);
      CHECK(on_host.error.empty());
      CHECK(std::ranges::any_of(on_host.lines,
                                [](const auto& line) { return line.find("skipped") != std::string::npos; }));
      for (std::string& line : on_host.lines) line = without_limit(line);
      check_same(on_device, on_host);
    }
  }
}

// On the device, the trainer asks whether it may make a step before it knows whether the last one counts.
TEST_CASE("a run on a device with skipped steps stops before the same step as one on the host", "[cuda][kvstore]") {
  for (const uint64_t stop_at : {1, 2, 3, 4, 5}) {
    INFO("stops before update " << stop_at);
    const auto run = [&](bool on_device) {
      return Ended(
          with_change(devices(1, UpdateAt::kOwner, on_device), spoil_gradient),
          [](train::TrainSpec& spec) { spec.on_nan = job::OnNan::kSkip; }, stop_at);
    };
    Ended on_host = run(false);
    CHECK(on_host.error.empty());
    for (std::string& line : on_host.lines) line = without_limit(line);
    check_same(run(true), on_host);
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
      return Ended(std::move(options), [](train::TrainSpec& spec) {
        spec.loss_scale = *train::LossScale::parse("dynamic");
        spec.schedule = kEachStepDiffers;
      });
    };
    const Ended on_host = run(false), on_device = run(true);
    CHECK(std::ranges::any_of(on_host.lines,
                              [](const auto& line) { return line.find("overflowed") != std::string::npos; }));
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
