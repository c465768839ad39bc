// The host in place of a device, through the emulator of test/cuda/emulator. Its rates are not measurements, and it
// says so.
#include <memory>

#include "cuda/executor/plain_runner.h"
#include "machine.h"

namespace dtrain::gpu {

namespace {

class EmulatedMachine final : public Machine {
 public:
  [[nodiscard]] const Facts& facts() const override { return facts_; }
  exec::Backend& backend() override { return *backend_; }
  void use() override {}
  Result<> synchronise() override { return {}; }
  MemoryUse memory() override { return {int64_t{1} << 30, int64_t{1} << 30}; }
  Result<> nccl_alone() override { return fail(Code::kNotFound, "no NCCL in the emulator"); }
  Result<CopyRates> copy_rates() override { return fail(Code::kNotFound, "no device in the emulator"); }
  [[nodiscard]] bool emulated() const override { return true; }
  std::string nvml() override { return DTRAIN_FAKE_NVML; }
  std::string module_path() override { return DTRAIN_EMULATED_MODULE; }

 private:
  Facts facts_{.name = "emulated device",
               .capability = "0.0",
               .processors = 1,
               .memory_bytes = 1 << 30,
               .cuda_driver = "none",
               .cuda_runtime = "none",
               .cudnn = "none",
               .nccl = "none",
               .properties = "{}"};
  std::unique_ptr<exec::Backend> backend_ = cuda::test::emulated_backend();
};

}  // namespace

Result<std::unique_ptr<Machine>> open_machine(const PlanFile&, const Log&) {
  return std::make_unique<EmulatedMachine>();
}

}  // namespace dtrain::gpu
