// The check of sums from MXNet's nightly tests, over gRPC: all devices of all workers push, the servers add, all pull.
#include <vector>

#include "exchange.h"
#include "support/catch.h"

namespace dtrain::rpc {

namespace {

// A small array, one that is cut into slices (over 1,000,000 elements), and one of an odd size.
const std::vector<Shape> kShapes = {{2, 3}, {1200, 1200}, {1211, 1211}};

// Each device of worker w pushes w + 1, and the servers add 2 * (sum of gradients) to the weights. The update rule
// divides by the number of samples, one of each worker, so it is given W times the rate.
void check_sums(const test::ExchangeOptions& options, uint64_t repeats) {
  test::Exchange exchange(options);
  exchange.on_each([&](uint32_t rank, test::ExchangeWorker& worker) -> Result<> {
    for (const auto& arrays : worker.arrays) {
      for (size_t k = 0; k < kShapes.size(); k++) dtrain::test::fill(arrays->weight(k), rank == 0 ? 1 : 9);
    }
    return worker.store->initialize(worker.views, {});
  });
  for (uint64_t i = 0; i < repeats; i++) {
    exchange.on_each([&](uint32_t rank, test::ExchangeWorker& worker) -> Result<> {
      for (const auto& arrays : worker.arrays) {
        for (size_t k = 0; k < kShapes.size(); k++) {
          dtrain::test::fill(arrays->gradient(k), static_cast<float>(rank + 1));
        }
      }
      return worker.step(i, 1);
    });
    const uint64_t sum = (options.workers + 1) * options.workers / 2 * options.devices;
    const auto expected = static_cast<float>(2 * sum * (i + 1) + 1);
    for (const auto& worker : exchange.workers) {
      for (const auto& arrays : worker->arrays) {
        for (size_t k = 0; k < kShapes.size(); k++) CHECK(dtrain::test::all_equal(arrays->weight(k), expected));
      }
    }
  }
}

}  // namespace

// ThreadSanitizer takes two minutes for the memory of all cases, and sees every thread with few of them.
#ifdef __SANITIZE_THREAD__
constexpr uint32_t kWorkers[] = {4};
constexpr uint32_t kServers[] = {2};
#else
constexpr uint32_t kWorkers[] = {1, 2, 4, 7};
constexpr uint32_t kServers[] = {1, 2, 3};
#endif

// After repeat i, every value on every device is exactly rate/2 (W + 1) W D (i + 1) + 1, for W workers of D devices and
// rate 2. All cases together take about 5 s on an idle host.
TEST_CASE("servers add up the gradients of all devices of all workers exactly, over gRPC", "[rpc]") {
  for (const uint32_t devices : {1U, 2U}) {
    for (const uint32_t workers : kWorkers) {
      for (const uint32_t servers : kServers) {
        INFO("devices " << devices << " workers " << workers << " servers " << servers);
        test::ExchangeOptions options;
        options.workers = workers;
        options.servers = servers;
        options.devices = devices;
        options.shapes = kShapes;
        options.rule = dtrain::test::plain_rule(2 * workers);
        check_sums(options, workers == 7 && servers == 3 ? 7 : 2);
      }
    }
  }
}

}  // namespace dtrain::rpc
