#include "bench/device.h"

#include <algorithm>

#include "kvstore/worker/device_store.h"
#include "optim/initializer.h"

namespace dtrain::bench {
namespace {

class Cpu final : public BenchDevice {
 public:
  explicit Cpu(int threads) : threads_(threads) {}

  [[nodiscard]] std::string name() const override { return "cpu"; }

  Result<exec::Executor*> compile(const graph::Graph& graph, const exec::Options& options) override {
    DT_TRY(executor_, exec::cpu::CpuExecutor::compile(graph, options));
    DT_TRY_VOID(optim::initialize({}, executor_->parameters(), kBenchSeed));
    return executor_.get();
  }

  Result<std::unique_ptr<kvstore::Store>> make_store(Waits& waits) override {
    DT_TRY(std::unique_ptr<kvstore::Store> store,
           kvstore::DeviceStore::create({.rule = bench_rule(), .threads = threads_}, {}, nullptr, waits));
    DT_TRY_VOID(store->initialize({&executor_->parameters(), 1}, {}));
    return store;
  }

  Result<> measure_peak() override {
    note_peak(exec::cpu::measure_peak(threads_));
    return {};
  }
  void begin_profile() override { executor_->enable_profile(); }
  Result<std::vector<ProfileLine>> profile(const std::function<Result<>(int64_t)>& /*run*/) override {
    return executor_->profile();
  }

 private:
  const int threads_;
  std::unique_ptr<exec::cpu::CpuExecutor> executor_;
};

}  // namespace

kvstore::UpdateRule bench_rule() {
  return {.optimizer = {}, .schedule = {.base = 0.01}};
}

void BenchDevice::note_peak(const Peak& peak) {
  peak_.flops_per_s = std::max(peak_.flops_per_s, peak.flops_per_s);
  peak_.bytes_per_s = std::max(peak_.bytes_per_s, peak.bytes_per_s);
}

std::unique_ptr<BenchDevice> bench_cpu(int threads) {
  return std::make_unique<Cpu>(threads);
}

}  // namespace dtrain::bench
