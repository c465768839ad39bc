#include "cuda/nccl_collective.h"

#include <nccl.h>

#include <iostream>
#include <thread>

#include "cuda/runtime/nccl_error.h"
#include "support/catch.h"

namespace dtrain::cuda {

using Catch::Matchers::Contains;

namespace {

comm::Exchange returns(std::vector<std::string> all) {
  return [all = std::move(all)](const std::string&) -> Result<std::vector<std::string>> { return all; };
}

bool has_device() {
  int count = 0;
  return cudaGetDeviceCount(&count) == cudaSuccess && count > 0;
}

std::string own_id() {
  return agree_on_nccl_id(0, 1, comm::Processes().exchange).value();
}

}  // namespace

TEST_CASE("all processes get the id that the first one made", "[cuda][nccl]") {
  constexpr uint32_t kSize = 3;
  comm::Board board(kSize);
  std::vector<std::string> ids(kSize);
  std::vector<std::jthread> threads;
  for (uint32_t rank = 0; rank < kSize; rank++) {
    threads.emplace_back([&, rank] { ids[rank] = agree_on_nccl_id(rank, kSize, board.of(rank)).value_or("none"); });
  }
  threads.clear();
  CHECK(ids[0].size() == NCCL_UNIQUE_ID_BYTES);
  CHECK(ids[1] == ids[0]);
  CHECK(ids[2] == ids[0]);
}

TEST_CASE("the result of an exchange is checked like all data from peers", "[cuda][nccl]") {
  const auto code_of = [](const Result<std::string>& id) { return id ? Code::kInternal : id.error().code; };
  CHECK(code_of(agree_on_nccl_id(1, 2, returns({std::string(128, 'i')}))) == Code::kStartup);  // of only one process
  CHECK(code_of(agree_on_nccl_id(1, 2, returns({std::string(127, 'i'), ""}))) == Code::kStartup);
  CHECK(code_of(agree_on_nccl_id(1, 2, returns({"", std::string(128, 'i')}))) == Code::kStartup);
  CHECK(code_of(agree_on_nccl_id(1, 2, returns({}))) == Code::kStartup);
  CHECK(agree_on_nccl_id(1, 2, returns({std::string(128, 'i'), ""})).value() == std::string(128, 'i'));

  const comm::Exchange lost = [](const std::string&) -> Result<std::vector<std::string>> {
    return fail(Code::kSchedulerLost, "the scheduler is gone");
  };
  const Result<std::string> id = agree_on_nccl_id(1, 2, lost);
  REQUIRE_FALSE(id);
  CHECK(id.error().code == Code::kSchedulerLost);
  CHECK_THAT(id.error().text(), Contains("exchanging the id of the NCCL group"));
}

TEST_CASE("an error has NCCL's text and its most likely cause", "[cuda][nccl]") {
  CHECK_THAT(nccl_error_text(ncclRemoteError, "socket closed\n"), Contains("socket closed (likely: another rank"));
  CHECK_THAT(nccl_error_text(ncclSystemError, ""), Contains("NCCL_SOCKET_IFNAME"));
  CHECK_THAT(nccl_error_text(ncclInvalidUsage, "Duplicate GPU detected : rank 0 and rank 1 both on CUDA device 0"),
             Contains("--gpus"));
  CHECK_THAT(nccl_error_text(ncclSystemError, "Error while creating shared memory segment /dev/shm/nccl-x"),
             Contains("--shm-size"));
  CHECK_THAT(nccl_error_text(ncclUnhandledCudaError, "Cuda failure 35 'CUDA driver version is insufficient'"),
             Contains("the driver is older"));
  for (int result = ncclUnhandledCudaError; result < ncclNumResults; result++) {
    INFO(result);
    CHECK_THAT(nccl_error_text(static_cast<ncclResult_t>(result), "reason"), Contains(": reason (likely: "));
  }
}

TEST_CASE("DT_NCCL throws the call's text", "[cuda][nccl]") {
  const auto call = [] { DT_NCCL(ncclGetVersion(nullptr)); };
  CHECK_THROWS_WITH(call(),
                    Contains("nccl_collective_test.cc") && Contains("ncclGetVersion(nullptr)") && Contains("likely"));
  CHECK_THROWS_AS(call(), DeviceError);
}

TEST_CASE("a group that was canceled before a rank joins refuses it", "[cuda][nccl]") {
  if (!has_device()) {
    std::cout << "skipped: no CUDA device\n";
    return;
  }
  const auto process = make_nccl_process();
  const auto joined = [&] {
    return join_nccl({.store = std::make_shared<StoreStream>(0), .process = process}, own_id());
  };
  auto first = joined();
  REQUIRE(first);
  (*first)->cancel({Code::kPreempted, "stop", {}});
  const auto second = joined();
  REQUIRE_FALSE(second);
  CHECK(second.error().code == Code::kPreempted);
}

// With one rank every operation leaves its array unchanged, but goes through all of NCCL's calls.
TEST_CASE("one rank joins, sums, and is cancelled", "[cuda][nccl]") {
  if (!has_device()) {
    std::cout << "skipped: no CUDA device\n";
    return;
  }
  const auto store = std::make_shared<StoreStream>(0);
  auto group = join_nccl({.store = store}, own_id());
  REQUIRE(group);
  const std::vector<float> sent = {1, 2, 3, 4, 5};
  float* memory = nullptr;
  REQUIRE(cudaMalloc(&memory, sent.size() * sizeof(float)) == cudaSuccess);
  REQUIRE(cudaMemcpy(memory, sent.data(), sent.size() * sizeof(float), cudaMemcpyDefault) == cudaSuccess);
  const std::span<float> values(memory, sent.size());
  CHECK((*group)->all_reduce(values));
  CHECK((*group)->reduce_scatter(values));
  CHECK((*group)->all_gather(values));
  CHECK((*group)->reduce(values, 0));
  CHECK((*group)->broadcast(values, 0));
  const CudaEvent summed = make_event();
  REQUIRE(cudaEventRecord(summed.get(), store->get()) == cudaSuccess);
  CHECK(store->wait(summed.get()));
  std::vector<float> received(sent.size());
  REQUIRE(cudaMemcpy(received.data(), memory, sent.size() * sizeof(float), cudaMemcpyDefault) == cudaSuccess);
  CHECK(received == sent);
  (*group)->cancel({Code::kPreempted, "stop", {}});
  const Result<> after = (*group)->all_reduce(values);
  REQUIRE_FALSE(after);
  CHECK(after.error().code == Code::kPreempted);
  group->reset();
  CHECK(cudaFree(memory) == cudaSuccess);
}

}  // namespace dtrain::cuda
