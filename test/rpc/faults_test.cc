// Faults are injected between the store and real pipes. The results must be the same as without faults.
#include "kvstore/wire/faults.h"

#include <algorithm>
#include <chrono>
#include <set>
#include <string>
#include <vector>

#include "exchange.h"
#include "job/process/inject.h"
#include "scheduler.pb.h"
#include "support/catch.h"

namespace dtrain::rpc {
namespace {

using namespace std::chrono_literals;

constexpr uint64_t kSteps = 6;

struct Trained {
  std::vector<float> weights;
  kvstore::FaultCounts faults;
  uint64_t repeats = 0;
};

Trained train(const kvstore::Faults& faults) {
  test::ExchangeOptions options;
  options.shapes = {{600'000}, {9}};  // divided over both servers, two slices on each; a small array
  options.rule.schedule.base = 0.05;
  options.rule.samples_per_epoch = 100;
  options.bigarray_bound = 500'000;
  options.faults = faults;
  test::Exchange exchange(options);
  exchange.on_each([&](uint32_t rank, test::ExchangeWorker& worker) -> Result<> {
    DT_TRY_VOID(worker.store->initialize(worker.views, {}));
    for (uint64_t step = 0; step < kSteps; step++) {
      RandomStream random(11, Use::kTest, rank, step);
      for (size_t k = 0; k < options.shapes.size(); k++) {
        for (float& g : worker.arrays[0]->gradient(k)) g = static_cast<float>(random.uniform(-1, 1));
      }
      DT_TRY_VOID(worker.step(step, 3 + rank));
    }
    return {};
  });
  Trained trained;
  for (size_t k = 0; k < options.shapes.size(); k++) {
    const std::span<const float> weights = exchange.workers[0]->arrays[0]->weight(k);
    CHECK(std::ranges::equal(weights, exchange.workers[1]->arrays[0]->weight(k)));
    trained.weights.insert(trained.weights.end(), weights.begin(), weights.end());
  }
  for (const auto& server : exchange.servers) trained.repeats += server->shard->counts().duplicates;
  for (const auto& worker : exchange.workers) {
    const kvstore::FaultCounts counts = worker->faulty->counts();
    trained.faults.messages += counts.messages;
    trained.faults.lost += counts.lost;
    trained.faults.doubled += counts.doubled;
  }
  return trained;
}

}  // namespace

TEST_CASE("a process can be killed at every message of the control stream and at every call of a member", "[rpc]") {
  std::set<std::string> wanted = {"data"};
  for (const auto* message : {proto::Up::descriptor(), proto::Down::descriptor()}) {
    const auto* what = message->FindOneofByName("what");
    for (int i = 0; i < what->field_count(); i++) wanted.insert(what->field(i)->name());
  }
  for (const char* call : {"join", "barrier", "done"}) {
    wanted.insert(call);
    wanted.insert(std::string(call) + "_reply");
  }
  const std::vector<std::string> names = job::fault_messages();
  CHECK(std::set<std::string>(names.begin(), names.end()) == wanted);
}

TEST_CASE("weights have the same bits with and without network faults", "[rpc]") {
  const Trained calm = train({});
  CHECK(calm.faults.messages == 0);
  const Trained disturbed = train({.drop = 0.1, .dup = 0.1, .delay_max = 5ms, .seed = 1});
  CHECK(disturbed.faults.lost > 5);
  CHECK(disturbed.faults.doubled > 5);
  CHECK(disturbed.repeats > 0);
  CHECK(disturbed.weights == calm.weights);
}

}  // namespace dtrain::rpc
