// Single steps with the learned tensors on a device: their graphs, copies and allocations.

#include <cuda_runtime_api.h>

#include "base/host_limits.h"
#include "cuda/executor/planned_bytes.h"
#include "cuda/runtime/memory.h"
#include "on_device_runs.h"
#include "support/allocations.h"
#include "support/catch.h"
#include "train/fakes.h"

using namespace dtrain;
using namespace dtrain::train::test;

namespace {

// Steps of a single worker with one or more devices, batch after batch, as the trainer makes them.
class DeviceSteps {
 public:
  static constexpr int64_t kBatches = 4;

  DeviceSteps(Type type, job::OnNan on_nan, const std::string& loss_scale,
              const std::vector<int64_t>& shares = {kToyBatch}, UpdateAt place = UpdateAt::kOwner)
      : devices_(compile(graph_, type, shares), shares),
        store_(make_store(shares.size() == 1 ? Group{} : make_group(shares.size()), kAdam, devices_,
                          {.update_at = place, .rule = {.optimizer = kAdam}, .bucket_begin = buckets(shares)}, waits_)),
        runner_({.graph = graph_,
                 .inputs = {{.shape = {1, 6, 6}}},
                 .devices = devices_,
                 .bucket_begin = buckets(shares),
                 .store = *store_,
                 .on_nan = on_nan,
                 .loss_scale = must(train::LossScale::parse(loss_scale)),
                 .log = Log::silent()}) {
    const std::span<float> weights = devices_.parameters().all_weights;
    for (size_t i = 0; i < weights.size(); i++) weights[i] = 0.01F * static_cast<float>(i % 17) - 0.05F;
    must(copy_to_device(devices_.parameters(), devices_.device_parameters()));
    std::vector<ParameterView> views;
    views.reserve(devices_.size());
    for (size_t i = 0; i < devices_.size(); i++) views.push_back(devices_.device_parameters(i));
    must(store_->initialize(views, {}));
    for (uint64_t b = 0; b < kBatches; b++) {
      images_[b].assign(static_cast<size_t>(kToyBatch) * 36, 0.1F * static_cast<float>(b));
      labels_[b].assign(static_cast<size_t>(kToyBatch), static_cast<float>(b));
      batches_[b] = {Batch::of(images_[b], labels_[b]), kToyBatch, {}, b + 1};
    }
  }

  Result<> launch(uint64_t step) { return runner_.launch(batches_[step % kBatches], step); }
  Result<> announce(uint64_t step) { return runner_.announce(batches_[step % kBatches]); }
  Result<bool> finish() { return runner_.finish(); }
  // Makes a gradient of the batch infinite, but not the loss.
  void spoil(uint64_t step) { images_[step % kBatches][0] = 3e38F; }
  std::vector<float> weights() {
    must(copy_to_host(devices_.device_parameters(), devices_.parameters()));
    const std::span<const float> all = devices_.parameters().all_weights;
    return {all.begin(), all.end()};
  }
  Result<bool> run(uint64_t step, bool announces) {
    const data::LoadedBatch* next = announces ? &batches_[(step + 1) % kBatches] : nullptr;
    return run_step(runner_, batches_[step % kBatches], step, next);
  }
  [[nodiscard]] std::vector<float> probabilities() {
    const std::span<const float> all = devices_.result(0);
    return {all.begin(), all.end()};
  }
  [[nodiscard]] optim::LossScaleState loss_scale() { return runner_.loss_scale().state(); }
  [[nodiscard]] size_t image_bytes() const { return images_[0].size() * sizeof(float); }

 private:
  // Every update has another correction of the learning rate.
  inline static const optim::OptimizerSpec kAdam{.name = "adam"};
  // With several devices, sums of the last layers overlap with the backward pass of the first ones.
  static std::vector<size_t> buckets(const std::vector<int64_t>& shares) {
    return shares.size() == 1 ? std::vector<size_t>{0} : std::vector<size_t>{0, 2, 4};
  }
  static std::vector<std::unique_ptr<exec::Executor>> compile(const graph::Graph& graph, Type type,
                                                              const std::vector<int64_t>& shares) {
    const auto backend = cuda::test::emulated_backend();
    std::vector<std::unique_ptr<exec::Executor>> executors;
    for (const int64_t share : shares) {
      executors.push_back(must(backend->compile(graph, {.batch_size = share,
                                                        .inputs = {{.shape = {1, 6, 6}}},
                                                        .bucket_begin = buckets(shares),
                                                        .dtype = type,
                                                        .parameters_on_device = true})));
    }
    return executors;
  }

  const graph::Graph graph_ = toy_network();
  // Before the devices, which may still copy an announced batch when they are destroyed.
  std::array<std::vector<float>, kBatches> images_, labels_;
  std::array<data::LoadedBatch, kBatches> batches_;
  exec::DeviceGroup devices_;
  Waits waits_;
  std::unique_ptr<kvstore::Store> store_;
  train::StepRunner runner_;
};

size_t copies_to_device(const cuda::emulator::Session& session, size_t bytes) {
  return static_cast<size_t>(std::ranges::count_if(session.records(), [&](const cuda::emulator::Record& record) {
    return record.name == "copy to device" && record.bytes == static_cast<int64_t>(bytes);
  }));
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
    for (uint64_t step = 0; step < 7; step++) {
      const uint64_t waits = cuda::emulator::host_waits(), graphs = cuda::emulator::graph_launches();
      REQUIRE(steps.run(step, true));
      CHECK(cuda::emulator::host_waits() - waits == 1);
      CHECK(cuda::emulator::graph_launches() - graphs == (step < 2 ? 0 : 1));
    }
  }
}

TEST_CASE("a float16 step on two devices is one graph each, and the host waits for each once", "[cuda][kvstore]") {
  for (const UpdateAt place : kPlaces) {
    INFO("update_at " << static_cast<int>(place));
    DeviceSteps steps(Type::kFloat16, job::OnNan::kFail, "dynamic", {2, 3}, place);
    for (uint64_t step = 0; step < 7; step++) {
      const uint64_t waits = cuda::emulator::host_waits(), graphs = cuda::emulator::graph_launches();
      REQUIRE(steps.run(step, true));
      CHECK(cuda::emulator::host_waits() - waits == 2);
      CHECK(cuda::emulator::graph_launches() - graphs == (step < 2 ? 0 : 2));
    }
  }
}

TEST_CASE("an announced batch is copied while the step before it runs", "[cuda][kvstore]") {
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

namespace {

// Makes steps that are launched before the last one is finished, and compares with steps that follow each other.
// Returns how many of 8 steps counted.
int check_launched_ahead(DeviceSteps& ahead, DeviceSteps& plain, size_t devices) {
  int counted = 0;
  REQUIRE(ahead.launch(0));
  REQUIRE(ahead.announce(1));
  for (uint64_t step = 0; step < 7; step++) {
    const uint64_t waits = cuda::emulator::host_waits(), graphs = cuda::emulator::graph_launches();
    REQUIRE(ahead.launch(step + 1));
    CHECK(cuda::emulator::graph_launches() - graphs == (step + 1 < 2 ? 0 : devices));
    REQUIRE(ahead.announce(step + 2));
    CHECK(cuda::emulator::host_waits() == waits);
    const bool counts = must(ahead.finish());
    counted += counts ? 1 : 0;
    CHECK(cuda::emulator::host_waits() - waits == devices);
    CHECK(must(plain.run(step, true)) == counts);
    CHECK(ahead.probabilities() == plain.probabilities());
    CHECK(ahead.loss_scale() == plain.loss_scale());
  }
  const bool counts = must(ahead.finish());
  CHECK(must(plain.run(7, true)) == counts);
  CHECK(ahead.probabilities() == plain.probabilities());
  CHECK(ahead.weights() == plain.weights());
  return counted + (counts ? 1 : 0);
}

void check_launched_ahead(Type type, const std::vector<int64_t>& shares, UpdateAt place) {
  DeviceSteps plain(type, job::OnNan::kFail, "none", shares, place),
      ahead(type, job::OnNan::kFail, "none", shares, place);
  CHECK(check_launched_ahead(ahead, plain, shares.size()) == 8);
}

// The steps with these batches, of 4 that take turns, are skipped. Adam corrects its rate by the number of updates, so
// the bits differ if a step after a skipped one takes the scalars of another update.
void check_skips_ahead(Type type, const std::string& loss_scale, const std::vector<uint64_t>& bad,
                       const std::vector<int64_t>& shares, UpdateAt place) {
  DeviceSteps plain(type, job::OnNan::kSkip, loss_scale, shares, place),
      ahead(type, job::OnNan::kSkip, loss_scale, shares, place);
  for (const uint64_t batch : bad) {
    plain.spoil(batch);
    ahead.spoil(batch);
  }
  const int counted = check_launched_ahead(ahead, plain, shares.size()), good = 8 - 2 * static_cast<int>(bad.size());
  CHECK(counted <= good);
  if (type == Type::kFloat32) CHECK(counted == good);  // the first loss scales are too large for float16
}

}  // namespace

// The queues of the device then hold two steps, so it begins the second one without waiting for the host.
TEST_CASE("a step is launched before the host waits for the last one, with the same bits", "[cuda][kvstore]") {
  for (const Type type : {Type::kFloat32, Type::kBfloat16}) {
    check_launched_ahead(type, {kToyBatch}, UpdateAt::kOwner);
    for (const UpdateAt place : kPlaces) check_launched_ahead(type, {2, 3}, place);
  }
  for (const uint64_t seed : {0, 1, 2, 3}) {
    INFO("seed " << seed);
    const cuda::emulator::LateStreams late(seed);
    check_launched_ahead(Type::kFloat32, {kToyBatch}, UpdateAt::kOwner);
  }
}

// The device has decided about a step before it updates in the next one; the host learns it only later.
TEST_CASE("a step launched ahead of a skipped one has the bits of steps one after the other", "[cuda][kvstore]") {
  for (const std::vector<uint64_t>& bad : {std::vector<uint64_t>{0}, {1}, {2, 3}, {0, 1, 2}}) {
    INFO(bad.size() << " bad batches, first " << bad.front());
    check_skips_ahead(Type::kFloat32, "none", bad, {kToyBatch}, UpdateAt::kOwner);
    check_skips_ahead(Type::kFloat16, "dynamic", bad, {kToyBatch}, UpdateAt::kOwner);
    for (const UpdateAt place : kPlaces) check_skips_ahead(Type::kFloat16, "dynamic", bad, {2, 3}, place);
    const cuda::emulator::LateStreams late(bad.front());
    check_skips_ahead(Type::kFloat16, "dynamic", bad, {kToyBatch}, UpdateAt::kOwner);
  }
}

// The bad step is queued call by call, captured, or replayed.
TEST_CASE("a bad step is an error of its own, and neither it nor the next one changes weights", "[cuda][kvstore]") {
  for (const uint64_t bad : {1, 2, 3, 5}) {
    INFO("step " << bad);
    DeviceSteps steps(Type::kFloat32, job::OnNan::kFail, "none");
    for (uint64_t step = 0; step < bad; step++) REQUIRE(must(steps.run(step, false)));
    const std::vector<float> before = steps.weights();
    steps.spoil(bad);
    REQUIRE(steps.launch(bad));
    REQUIRE(steps.launch(bad + 1));
    const Result<bool> outcome = steps.finish();
    REQUIRE_FALSE(outcome);
    CHECK_THAT(outcome.error().message, Catch::Matchers::StartsWith(fmt::format("step {}, rank 0: ", bad)) &&
                                            Catch::Matchers::Contains("first in layer 'conv1_weight'"));
    CHECK(steps.weights() == before);
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
      const Result<bool> applied = run_step(runner, {Batch::of(pixels, labels), kToyBatch}, step);
      dtrain::test::counts_allocations = false;
      REQUIRE(applied);
    }
    CHECK(dtrain::test::allocations == 0);
  }
}

// Each call of a step fails in turn: when the step is queued call by call, captured, and replayed.
TEST_CASE("a device that fails in any call of a step is an Error that names it, with a code", "[cuda][kvstore]") {
  struct Failure {
    int error;
    const char* says;
  };
  constexpr std::array failures = {
      Failure{cudaErrorMemoryAllocation, "out of memory"},
      Failure{cudaErrorInsufficientDriver, "supports CUDA 12.2, and this program needs 13.0"},
      Failure{cudaErrorDevicesUnavailable, "another process"},
      Failure{cudaErrorNoDevice, "it was lost"},
      Failure{cudaErrorNoKernelImageForDevice, "sm_80"},
      Failure{cudaErrorECCUncorrectable, "(ECC)"},
      Failure{cudaErrorLaunchFailure, "dmesg | grep Xid"},
      Failure{cudaErrorUnknown, "unknown error"}};
  const std::string gpu = "GPU 0 on " + host_name() + ": ";
  for (const uint64_t before : {0, 2, 4}) {
    size_t calls = 0;
    for (bool came = true; came; calls++) {
      const Failure& failure = failures[calls % failures.size()];
      INFO("call " << calls << " of step " << before << ": " << failure.says);
      DeviceSteps steps(Type::kFloat16, job::OnNan::kFail, "dynamic");
      for (uint64_t step = 0; step < before; step++) REQUIRE(steps.run(step, true));
      cuda::emulator::fail_next_call(failure.error, calls);
      const Result<> outcome = catching([&]() -> Result<> {
        DT_TRY_VOID(steps.run(before, true));
        return {};
      });
      came = cuda::emulator::failed();
      cuda::emulator::fail_next_call(cudaSuccess);
      REQUIRE(outcome.has_value() == !came);
      if (!came) continue;
      CHECK(outcome.error().code == Code::kDevice);
      CHECK_THAT(outcome.error().message, Catch::Matchers::StartsWith(gpu) && Catch::Matchers::Contains(failure.says));
    }
    CHECK(calls > failures.size());
  }
}

// The launch of the kernel succeeds; the device reports the error later, and does nothing from then on.
TEST_CASE("a kernel that faults in any place of a step is an Error that names the device", "[cuda][kvstore]") {
  const std::string gpu = "GPU 0 on " + host_name() + ": ";
  for (const uint64_t before : {0, 2, 4}) {
    size_t kernels = 0;
    for (bool came = true; came; kernels++) {
      INFO("kernel " << kernels << " of step " << before);
      {
        DeviceSteps steps(Type::kFloat16, job::OnNan::kFail, "dynamic");
        for (uint64_t step = 0; step < before; step++) REQUIRE(steps.run(step, true));
        cuda::emulator::fault_kernel(cudaErrorIllegalAddress, kernels);
        const Result<> outcome = catching([&]() -> Result<> {
          DT_TRY_VOID(steps.run(before, true));
          return {};
        });
        came = cuda::emulator::faulted();
        REQUIRE(outcome.has_value() == !came);
        if (came) {
          CHECK(outcome.error().code == Code::kDevice);
          CHECK_THAT(outcome.error().message, Catch::Matchers::StartsWith(gpu + "its work was ended by an illegal"));
        }
      }
      cuda::emulator::recover_devices();
    }
    CHECK(kernels > 10);
  }
}

TEST_CASE("a device that hangs is listed as a wait and then an Error", "[cuda][kvstore]") {
  std::atomic<bool> hangs = true;
  Waits waits;
  std::vector<OpenWait> listed;
  {
    const graph::Graph graph = toy_network();
    const auto executor = must(cuda::test::emulated_backend()->compile(
        graph,
        {.batch_size = kToyBatch, .inputs = {{.shape = {1, 6, 6}}}, .parameters_on_device = true, .waits = &waits}));
    const auto store = dynamic_cast<cuda::CudaExecutor&>(*executor).store_stream();
    store->set_limits({.listed_after = std::chrono::milliseconds(0), .failed_after = std::chrono::milliseconds(20)});
    cuda::emulator::queue(
        store->get(), [] {},
        [&] {
          if (listed.empty()) listed = waits.open();
          return !hangs;
        });
    const std::vector<float> images(static_cast<size_t>(kToyBatch) * 36), labels(static_cast<size_t>(kToyBatch));
    REQUIRE(executor->forward(Batch::of(images, labels), exec::no_wait));
    const Result<> outcome = catching([&]() -> Result<> {
      DT_TRY_VOID(executor->backward(exec::no_wait));
      return executor->finish();
    });
    REQUIRE_FALSE(outcome);
    CHECK(outcome.error().code == Code::kDevice);
    CHECK_THAT(outcome.error().message,
               Catch::Matchers::StartsWith("GPU 0 on " + host_name() + ": its work has not ended within 0.02 s: "));
    hangs = false;
    cudaDeviceSynchronize();
    cuda::forget_hanging();
  }
  REQUIRE(listed.size() == 1);
  CHECK(listed[0].name == "the work of GPU 0");
}

TEST_CASE("too little memory on a device says how much was wanted and how much is free", "[cuda][kvstore]") {
  cuda::emulator::fail_next_call(cudaErrorMemoryAllocation);
  const Result<> outcome = catching([]() -> Result<> {
    const cuda::DeviceMemory memory(size_t{3} << 29);
    return {};
  });
  REQUIRE_FALSE(outcome);
  CHECK(outcome.error().code == Code::kDevice);
  CHECK_THAT(outcome.error().message, Catch::Matchers::Contains("out of memory: 1536 MiB of device memory were wanted; "
                                                                "3072 of 8192 MiB are free on the GPU"));
}

TEST_CASE("memory is allocated on the executor's device, whichever is current", "[cuda][kvstore]") {
  const graph::Graph graph = toy_network();
  const auto executor = must(cuda::test::emulated_backend()->compile(
      graph, {.batch_size = kToyBatch, .inputs = {{.shape = {1, 6, 6}}}, .parameters_on_device = true}));
  REQUIRE(cudaSetDevice(1) == cudaSuccess);
  executor->skip_bad_steps(false);
  const std::vector<float> images(static_cast<size_t>(kToyBatch) * 36), labels(static_cast<size_t>(kToyBatch));
  REQUIRE(executor->forward(Batch::of(images, labels), exec::no_wait));
  CHECK(catching([&]() -> Result<> {
    DT_TRY_VOID(executor->backward(exec::no_wait));
    return executor->finish();
  }));
  REQUIRE(cudaSetDevice(0) == cudaSuccess);
}

// The emulated device has 3 GiB of free memory. The activations are not allocated before the refusal.
TEST_CASE("the memory of an executor is known without a device", "[cuda][kvstore]") {
  for (const int64_t batch : {1, 5, 64}) {
    for (const Type type : {Type::kFloat32, Type::kFloat16}) {
      const graph::Graph graph = toy_network();
      const exec::Options options{
          .batch_size = batch, .inputs = {{.shape = {1, 6, 6}}}, .dtype = type, .parameters_on_device = true};
      const auto planned = must(cuda::planned_bytes(graph, options));
      const auto executor = must(cuda::test::emulated_backend()->compile(graph, options));
      const ParameterView& view = executor->parameters();
      const size_t canonical =
          view.all_weights.size_bytes() + view.all_gradients.size_bytes() + view.all_statistics.size_bytes();
      const auto taken = static_cast<double>(canonical + executor->memory_bytes());
      // Apart from small tables and the plain convolutions' workspace of 1,000 bytes.
      CHECK(std::abs(static_cast<double>(planned.parameters + planned.batch) - taken) < 4096);
    }
  }
}

TEST_CASE("a batch that does not fit on a device is refused with the number of images that fit", "[cuda][kvstore]") {
  graph::Graph wide;
  graph::NodeId x = wide.add("data", graph::Input{}, {});
  x = wide.add("conv", graph::Convolution{.filters = 512, .kernel_h = 3, .kernel_w = 3}, {x});
  x = wide.add("fc", graph::FullyConnected{.outputs = kToyClasses}, {wide.add("flatten", graph::Flatten{}, {x})});
  wide.add("softmax", graph::SoftmaxOutput{}, {x});
  const auto refused = cuda::test::emulated_backend()->compile(
      wide, {.batch_size = 100'000, .inputs = {{.shape = {1, 6, 6}}}, .parameters_on_device = true});
  REQUIRE_FALSE(refused);
  CHECK(refused.error().code == Code::kDevice);
  CHECK_THAT(refused.error().message, Catch::Matchers::Contains("batches of 100000 images need ") &&
                                          Catch::Matchers::Contains("3072 of 8192 MiB are free") &&
                                          Catch::Matchers::Contains(" images fit on a GPU"));
}

// An argument that CUDA rejects is a mistake of the program, not of the device.
TEST_CASE("a call that only a bug can make fail is an internal error", "[cuda][kvstore]") {
  cuda::emulator::fail_next_call(cudaErrorInvalidValue);
  const Result<> outcome = catching([]() -> Result<> {
    cuda::make_stream();
    return {};
  });
  REQUIRE_FALSE(outcome);
  CHECK(outcome.error().code == Code::kInternal);
}
