// Groups of emulated devices that sum with NCCL, emulated too (emulator/nccl.cc): the whole life of a group, with a
// step that is one graph.
#include <csignal>
#include <future>
#include <thread>

#include "cuda/nccl_group.h"
#include "on_device_runs.h"
#include "support/catch.h"
#include "support/patience.h"
#include "support/process.h"

namespace dtrain::train::test {
namespace {

constexpr double kPatience_s = std::chrono::duration<double>(dtrain::test::kPatience).count();
constexpr const char* kGroup = "DTRAIN_TEST_GROUP";  // the id of the group, for the other process of a test

// Sets `made`, if given, to the store.
std::unique_ptr<kvstore::Store> make_nccl_store(exec::DeviceGroup& executors, DeviceStoreOptions options, Waits& waits,
                                                const comm::Processes& processes, kvstore::Store** made = nullptr) {
  std::vector<cuda::CudaExecutor*> devices;
  for (size_t i = 0; i < executors.size(); i++) devices.push_back(&cuda_executor(executors, i));
  Group group = must(cuda::join_devices(devices, processes));
  DeviceStore::Optimizers optimizers;
  for (cuda::CudaExecutor* device : devices) {
    optimizers.push_back(must(cuda::make_device_optimizer(*device, options.rule.optimizer)));
  }
  auto store = must(DeviceStore::create_on_devices(std::move(options), std::move(group), std::move(optimizers), waits));
  if (made != nullptr) *made = store.get();
  return store;
}

// One of two workers with one device each.
ToyOptions worker(int64_t rank, const comm::Exchange& exchange, kvstore::Store** made) {
  ToyOptions options = devices(1, UpdateAt::kReplicas, true);
  options.rank = rank;
  options.workers = 2;
  options.make_store = [=](exec::DeviceGroup& executors, DeviceStoreOptions store, Waits& waits) {
    store.update_at = UpdateAt::kReplicas;
    store.samples_differ = false;
    return make_nccl_store(executors, std::move(store), waits, {static_cast<uint32_t>(rank), 2, exchange}, made);
  };
  return options;
}

// Kills the process before a step that all earlier ones have made a replayed graph.
class KillingCoordinator final : public LocalCoordinator {
 public:
  using LocalCoordinator::LocalCoordinator;
  Result<bool> may_begin(uint64_t step) override {
    constexpr uint64_t kLast = 5;
    if (step == kLast) std::raise(SIGKILL);
    return true;
  }
};

}  // namespace

TEST_CASE("a run of two devices that sum with NCCL ends, with the bits of sums on the host", "[cuda][nccl]") {
  for (const UpdateAt place : kPlaces) {
    INFO("update_at " << static_cast<int>(place));
    ToyOptions by_nccl = devices(2, place, true);
    by_nccl.make_store = [place](exec::DeviceGroup& executors, DeviceStoreOptions store, Waits& waits) {
      store.update_at = place;
      return make_nccl_store(executors, std::move(store), waits, {});
    };
    const Ended on_host(devices(2, place, false)), on_device(by_nccl);
    CHECK(on_host.files.find("none") == std::string::npos);
    CHECK(on_device.lines == on_host.lines);
    CHECK(on_device.files == on_host.files);
  }
}

TEST_CASE("the second worker of the next test", "[.nccl-peer]") {
  const TempDir directory;
  const char* const id = std::getenv(kGroup);
  if (id == nullptr) return;  // a filter such as "~[networks]" selects hidden cases too
  const comm::Exchange exchange = [&](const std::string&) -> Result<std::vector<std::string>> {
    std::string padded = id;
    padded.resize(128);
    return std::vector<std::string>{padded, ""};
  };
  std::atomic<bool> stop = false;
  KillingCoordinator killing(stop);
  ToyRun run(toy_spec(directory.path("net"), 2), worker(1, exchange, nullptr), &killing);
  const Result<TrainOutcome> outcome = run.run();
  FAIL("the process was not killed: " << (outcome ? "the run ended" : outcome.error().text()));
}

// The other process waits for the sums of a graph that never end. The scheduler notices the loss; here the test does.
TEST_CASE("a worker that is killed in a replayed step ends the other one, which names it", "[cuda][nccl]") {
  const TempDir directory;
  std::unique_ptr<dtrain::test::Process> peer;
  const comm::Exchange exchange = [&](std::string mine) -> Result<std::vector<std::string>> {
    peer = std::make_unique<dtrain::test::Process>(
        std::vector<std::string>{"/proc/self/exe", "[.nccl-peer]"},
        dtrain::test::ProcessOptions{
            .deadline_s = kPatience_s, .directory = {}, .environment = {fmt::format("{}={}", kGroup, mine.c_str())}});
    return std::vector<std::string>{std::move(mine), ""};
  };
  kvstore::Store* store = nullptr;
  ToyRun run(toy_spec(directory.path("net"), 2), worker(0, exchange, &store));
  std::promise<Result<TrainOutcome>> promise;
  std::future<Result<TrainOutcome>> outcome = promise.get_future();
  std::jthread training([&] { promise.set_value(run.run()); });
  const dtrain::test::Ended killed = peer->wait(kPatience_s);
  INFO(killed.output);
  CHECK(killed.signal == SIGKILL);
  store->cancel({Code::kPeerLost, "worker 1 was lost", {}});
  const Result<TrainOutcome> ended = dtrain::test::within(std::move(outcome));
  REQUIRE_FALSE(ended);
  CHECK(ended.error().code == Code::kPeerLost);
  CHECK(ended.error().message == "worker 1 was lost");
}

}  // namespace dtrain::train::test
