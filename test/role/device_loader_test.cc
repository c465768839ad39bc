// Loads the part for GPUs, on any host. DTRAIN_TEST_DEVICE_MODULE names its file if it was built.
#include <cstdlib>
#include <iostream>
#include <memory>

#include "base/file.h"
#include "role/setup/device_loader.h"
#include "support/catch.h"
#include "support/must.h"

using namespace dtrain;

namespace {

void check_refused(const Result<std::shared_ptr<exec::DeviceModule>>& loaded, const std::string& reason) {
  REQUIRE_FALSE(loaded);
  CHECK(loaded.error().code == Code::kDevice);
  CHECK_THAT(loaded.error().message, Catch::Matchers::Contains(reason));
  CHECK_THAT(loaded.error().message, Catch::Matchers::Contains("leave out --gpus"));
}

}  // namespace

TEST_CASE("a missing or wrong CUDA module is an error that suggests --cpus", "[role]") {
  check_refused(role::load_devices("/nowhere/dtrain_cuda.so"),
                "this build of dtrain does not have the module for GPUs");
  check_refused(role::load_devices("/proc/self/exe"), "cannot load the module for GPUs");
}

// With a driver and a device it describes the device. Without them it still loads, and says what is missing.
TEST_CASE("the CUDA module loads with or without a driver", "[role]") {
  const char* path = std::getenv("DTRAIN_TEST_DEVICE_MODULE");
  if (path == nullptr) {
    std::cout << "skipped: no CUDA\n";
    return;
  }
  const auto loaded = role::load_devices(path);
  if (!loaded) return check_refused(loaded, "GPU");
  CHECK_THAT(dtrain::test::must((*loaded)->describe(0)), Catch::Matchers::Contains("sm_"));
  CHECK((*loaded)->describe(1 << 20).error().code == Code::kDevice);
}
