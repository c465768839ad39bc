// Whole training runs with the learned tensors in the memory of emulated devices, or of the host.
#pragma once

#include <algorithm>
#include <array>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "comm/shared_memory.h"
#include "cuda/executor/executor.h"
#include "cuda/optimizer.h"
#include "emulator.h"
#include "plain_runner.h"
#include "support/catch.h"
#include "train/checkpoint.h"
#include "train/toy_run.h"

namespace dtrain::train::test {

using kvstore::DeviceStore;
using kvstore::DeviceStoreOptions;
using kvstore::UpdateAt;

inline constexpr std::array kPlaces = {UpdateAt::kFirstDevice, UpdateAt::kOwner, UpdateAt::kShards,
                                       UpdateAt::kReplicas};

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

inline Group make_group(size_t ranks) {
  return comm::make_shared_memory_group(static_cast<uint32_t>(ranks), {.wait_limit_s = 60});
}

inline cuda::CudaExecutor& cuda_executor(exec::DeviceGroup& executors, size_t device) {
  return dynamic_cast<cuda::CudaExecutor&>(executors.executor(device));
}

inline std::unique_ptr<comm::Collective> queued(std::unique_ptr<comm::Collective> end,
                                                const cuda::CudaExecutor& executor) {
  return std::make_unique<QueuedCollective>(std::move(end), executor.store_stream());
}

// The ends, wrapped to work in the store's streams if the executors' arrays are on devices.
inline Group placed(Group ends, exec::DeviceGroup& executors) {
  if (!executors.parameters_on_device()) return ends;
  for (size_t i = 0; i < ends.size(); i++) ends[i] = queued(std::move(ends[i]), cuda_executor(executors, i));
  return ends;
}

inline std::unique_ptr<kvstore::Store> make_store(Group ends, const optim::OptimizerSpec& spec,
                                                  exec::DeviceGroup& executors, DeviceStoreOptions options,
                                                  Waits& waits) {
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

inline ToyOptions devices(size_t count, UpdateAt update_at, bool on_device) {
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

// The log lines without times and without the name of the directory. The lines "Saved ..." come last, because the
// thread that writes checkpoints logs them at any time.
inline std::vector<std::string> steady_lines(const ToyRun& run, const TempDir& directory) {
  std::vector<std::string> lines;
  for (std::string line : run.lines()) {
    // Measured times, and what follows from them.
    if (line.find("Time cost") != std::string::npos || line.find("waiting for batches") != std::string::npos) continue;
    if (line.find("  rate ") != std::string::npos) line.erase(line.rfind("  "));  // "epoch 1/2 ... 12.9 s"
    if (const size_t at = line.find(directory.path()); at != std::string::npos) line.erase(at, directory.path().size());
    lines.push_back(line);
  }
  std::ranges::stable_partition(lines, [](const std::string& line) { return !line.starts_with("Saved "); });
  return lines;
}

inline std::string checkpoints(const TempDir& directory) {
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

  explicit Ended(ToyOptions options, const std::function<void(train::TrainSpec&)>& change = nullptr,
                 uint64_t stop_at = 1000) {
    train::TrainSpec spec = toy_spec(directory.path("net"), 2);
    spec.disp_batches = 100;  // no line with a speed
    if (change) change(spec);
    const std::atomic<bool> never = false;
    StoppingCoordinator coordinator(never, stop_at);
    ToyRun run(spec, std::move(options), &coordinator);
    const auto outcome = run.run();
    if (!outcome) error = outcome.error().text();
    lines = steady_lines(run, directory);
    files = checkpoints(directory);
  }
};

inline void check_same(const Ended& a, const Ended& b) {
  CHECK(a.error == b.error);
  CHECK(a.lines == b.lines);
  CHECK(a.files == b.files);
}

inline ToyOptions with_change(ToyOptions options, const ToyDataset::Change& change) {
  options.change = change;
  options.network = linear_network(2);  // so that a gradient with respect to one image can overflow
  options.bucket_begin = {0};
  return options;
}

inline void spoil_loss(int64_t index, std::span<float> image) {
  if (index == 11) image[3] = std::numeric_limits<float>::quiet_NaN();
}

}  // namespace dtrain::train::test
