// A device module (exec/device_module.h) over the emulator, which the tests load in place of the one for GPUs.
#include <memory>

#include "cuda/executor/plain_runner.h"
#include "cuda/executor/planned_bytes.h"
#include "cuda/optimizer.h"
#include "exec/device_module.h"

namespace dtrain::gpu {

namespace {

class EmulatedModule final : public exec::DeviceModule {
 public:
  Result<int> device_count() override { return 1; }
  Result<std::string> describe(int) override { return std::string("emulated device"); }
  Result<std::string> pci_bus_id(int) override { return std::string("0000:3B:00.0"); }
  Versions versions() override { return {}; }
  Result<PlannedBytes> planned_bytes(const graph::Graph& graph, const exec::Options& options) override {
    return cuda::planned_bytes(graph, options);
  }
  Result<std::unique_ptr<exec::Backend>> make_backend(int, const exec::PlanSettings&, const Log&) override {
    return cuda::test::emulated_backend();
  }
  Result<std::unique_ptr<optim::ArrayOptimizer>> make_optimizer(exec::Executor& executor,
                                                                const optim::OptimizerSpec& spec) override {
    return cuda::make_device_optimizer(executor, spec);
  }
  Result<std::vector<std::unique_ptr<comm::Collective>>> join(std::span<exec::Executor* const>,
                                                              const comm::Processes&) override {
    return fail(Code::kDevice, "no NCCL in the emulator");
  }
  Result<> sum_gradients(std::span<exec::Executor* const>) override {
    return fail(Code::kDevice, "no NCCL in the emulator");
  }
};

}  // namespace

}  // namespace dtrain::gpu

extern "C" dtrain::exec::DeviceModule* dtrain_make_device_module() {
  return new dtrain::gpu::EmulatedModule;
}
