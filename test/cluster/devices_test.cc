// N devices of one process, and W workers, train like one device with the whole batch, up to the rounding of sums and
// whichever store joins them. Two runs of the same command on one host give the same bits.

#include <algorithm>
#include <numeric>

#include "cluster/lenet_run.h"
#include "cluster/loopback_job.h"
#include "support/catch.h"
#include "support/command_line.h"
#include "support/must.h"

using namespace dtrain;
using namespace dtrain::test;

namespace {

constexpr size_t kBatch = 32;
constexpr size_t kSteps = 20;

std::vector<NamedArray> train(const TempDir& dir, const std::vector<std::string>& flags) {
  const bool is_job = std::find(flags.begin(), flags.end(), "-n") != flags.end();
  const std::string batch_size = std::to_string(is_job ? kBatch / 2 : kBatch);
  return train_lenet(dir, is_job ? "shares" : "whole", command_line(flags, "--batch-size", batch_size));
}

// Writes the records in two orders, such that in each step one process with the file `whole` and two workers, each with
// half of the file `shares`, train on the same records.
void write_data(const TempDir& dir) {
  std::vector<size_t> whole(kBatch * kSteps), shares(kBatch * kSteps);
  std::iota(whole.begin(), whole.end(), 0);
  for (size_t i = 0; i < whole.size(); i++) {
    const size_t step = i / kBatch, worker = i % kBatch / (kBatch / 2);
    shares[worker * kSteps * (kBatch / 2) + step * (kBatch / 2) + i % (kBatch / 2)] = i;
  }
  write_mnist(dir.path("whole"), whole);
  write_mnist(dir.path("shares"), shares);
}

}  // namespace

TEST_CASE("four devices end with the weights of one device, in every store of one process", "[devices]") {
  const TempDir dir;
  write_data(dir);
  const auto one = train(dir, {"--cpus", "1"});
  std::vector<NamedArray> first;
  for (const char* store : {"local", "device", "nccl", "nccl_allreduce", "allreduce"}) {
    INFO(store);
    const auto weights = train(dir, {"--cpus", "4", "--kv-store", store});
    CHECK(relative_difference(weights, one) <= 1e-5);
    CHECK(same_bits(weights, train(dir, {"--cpus", "4", "--kv-store", store})));
    if (first.empty()) first = weights;
    CHECK(same_bits(weights, first));  // all stores sum in the same order
  }
  CHECK(relative_difference(train(dir, {"--cpus", "3", "--work-load-list", "3,1,2", "--kv-store", "device"}), one) <=
        1e-5);
}

// Three commands that NVIDIA published for MXNet (one per store), on CPU devices and with less to do.
TEST_CASE("NVIDIA's commands end with the same weights in all stores", "[nvidia]") {
  const TempDir dir;
  std::vector<NamedArray> first;
  for (const char* store : {"", "nccl_allreduce", "nccl"}) {
    const std::string run_dir = dir.path(std::string("run-") + store);
    const std::vector<std::string> command = command_line(
        dtrain_program(),
        "--preset imagenet --cpus 8 --batch-size 1024 --num-epochs 1 --disp-batches 100 --network resnet-v1 "
        "--num-layers 50 --dtype float16 --benchmark 1",
        *store == '\0' ? command_line() : command_line("--kv-store", store),
        "--image-shape 3,32,32 --dtype float32 --batch-size 64 --num-batches 3 --seed 1 --run-dir", run_dir);
    const Ended end = run(command, {.deadline_s = 300, .directory = dir.path(), .environment = {}});
    INFO(end.output);
    REQUIRE(end.code == 0);
    const std::vector<NamedArray> weights = must(read_ndarray_file(run_dir + "/resnet-v1-0001.params"));
    if (first.empty()) first = weights;
    CHECK(same_bits(weights, first));
  }
}

TEST_CASE("two workers end with the weights of one process with twice the batch", "[devices]") {
  const TempDir dir;
  write_data(dir);
  const auto one = train(dir, {"--cpus", "1"});
  CHECK(relative_difference(train(dir, {"-n", "2", "-s", "2", "--kv-store", "dist_sync"}), one) <= 1e-5);
  CHECK(relative_difference(train(dir, {"-n", "2", "--kv-store", "allreduce"}), one) <= 1e-5);
}

TEST_CASE("workers with two devices each end with the weights of one device", "[devices]") {
  const TempDir dir;
  write_data(dir);
  const auto one = train(dir, {"--cpus", "1"});
  const std::vector<std::string> servers = {"-n", "2", "-s", "2", "--cpus", "2", "--kv-store", "dist_device_sync"};
  CHECK(relative_difference(train(dir, servers), one) <= 1e-5);
  for (const char* store : {"allreduce", "nccl_allreduce", "nccl"}) {
    INFO(store);
    const std::vector<std::string> flags = {"-n", "2", "--cpus", "2", "--kv-store", store};
    const auto weights = train(dir, flags);
    CHECK(relative_difference(weights, one) <= 1e-5);
    CHECK(same_bits(weights, train(dir, flags)));
  }
}
