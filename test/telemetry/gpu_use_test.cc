#include "telemetry/gpu_use.h"

#include <dlfcn.h>

#include "support/catch.h"

#include <optional>
#include <string>

using namespace dtrain;
using namespace dtrain::telemetry;

namespace {

constexpr const char* kFake = DTRAIN_TEST_LIBRARIES "/fake_nvml.so";
const UsedGpu kGpu{.label = "1", .pci_bus_id = "0000:3B:00.0"};
constexpr int kUnknownError = 999;

// The fake, whose functions return what they are told.
class Fake {
 public:
  explicit Fake(const char* path = kFake) : library_(::dlopen(path, RTLD_NOW)) { REQUIRE(library_ != nullptr); }
  ~Fake() {
    returns(0, 0);
    ::dlclose(library_);
  }
  Fake(const Fake&) = delete;
  Fake& operator=(const Fake&) = delete;

  void returns(int from_init, int from_others) {
    function<void(int, int)>("fake_nvml_returns")(from_init, from_others);
  }
  int users() { return function<int()>("fake_nvml_users")(); }

 private:
  template <class Function>
  Function* function(const char* name) {
    return reinterpret_cast<Function*>(::dlsym(library_, name));
  }
  void* library_;
};

size_t gpu_samples(Registry& registry) {
  size_t count = 0;
  for (const Sample& sample : registry.snapshot()) count += info(sample.metric).name.starts_with("gpu_") ? 1 : 0;
  return count;
}

}  // namespace

TEST_CASE("the use of a GPU is in every snapshot, under its number in --gpus", "[telemetry][gpu_use]") {
  Fake fake;
  Registry registry;
  {
    const Registry::Handle handle = collect_gpu_use(registry, {kGpu}, kFake);
    CHECK(fake.users() == 1);
    const Snapshot snapshot = registry.snapshot();
    CHECK(value_of(snapshot, Metric::kGpuBusyShare, "1") == 0.75);
    CHECK(value_of(snapshot, Metric::kGpuMemoryBytes, "1") == 1 << 28);
    CHECK(value_of(snapshot, Metric::kGpuMemoryTotalBytes, "1") == 1 << 30);
    CHECK(value_of(snapshot, Metric::kGpuPower, "1") == 350.5);
    CHECK(value_of(snapshot, Metric::kGpuTemperature, "1") == 61);
  }
  CHECK(fake.users() == 0);
}

TEST_CASE("without NVML, without GPUs, or if NVML does not start, there are no metrics of GPUs",
          "[telemetry][gpu_use]") {
  Fake fake;
  Registry registry;
  for (const char* library : {"libthere-is-none.so.1", "libm.so.6"}) {
    const Registry::Handle handle = collect_gpu_use(registry, {kGpu}, library);
    CHECK(gpu_samples(registry) == 0);
  }
  const Registry::Handle without_gpus = collect_gpu_use(registry, {}, kFake);
  fake.returns(kUnknownError, 0);
  const Registry::Handle failed = collect_gpu_use(registry, {kGpu}, kFake);
  CHECK(gpu_samples(registry) == 0);
  CHECK(fake.users() == 0);
}

TEST_CASE("a function that an old driver lacks leaves out its metric", "[telemetry][gpu_use]") {
  Registry registry;
  const Registry::Handle handle = collect_gpu_use(registry, {kGpu}, DTRAIN_TEST_LIBRARIES "/old_fake_nvml.so");
  const Snapshot snapshot = registry.snapshot();
  CHECK(value_of(snapshot, Metric::kGpuBusyShare, "1") == 0.75);
  CHECK(value_of(snapshot, Metric::kGpuPower, "1") == std::nullopt);
  CHECK(value_of(snapshot, Metric::kGpuTemperature, "1") == std::nullopt);
}

TEST_CASE("a GPU that NVML does not find has no metrics, and the others have theirs", "[telemetry][gpu_use]") {
  Registry registry;
  const UsedGpu hidden{.label = "0", .pci_bus_id = "0000:18:00.0"};
  const Registry::Handle handle = collect_gpu_use(registry, {hidden, kGpu}, kFake);
  const Snapshot snapshot = registry.snapshot();
  CHECK(value_of(snapshot, Metric::kGpuBusyShare, "0") == std::nullopt);
  CHECK(value_of(snapshot, Metric::kGpuBusyShare, "1") == 0.75);
}

TEST_CASE("while NVML fails, the metrics are absent instead of old", "[telemetry][gpu_use]") {
  Fake fake;
  Registry registry;
  const Registry::Handle handle = collect_gpu_use(registry, {kGpu}, kFake);
  CHECK(gpu_samples(registry) == 5);
  fake.returns(0, kUnknownError);
  CHECK(gpu_samples(registry) == 0);
  fake.returns(0, 0);
  CHECK(gpu_samples(registry) == 5);
}
