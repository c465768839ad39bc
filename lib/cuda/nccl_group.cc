#include "cuda/nccl_group.h"

#include <cuda_runtime_api.h>

#include <thread>

#include "cuda/nccl_collective.h"

namespace dtrain::cuda {

namespace {

using End = std::unique_ptr<comm::Collective>;

// Joins one rank on its device. An Error ends the joining of the other ranks of this process; ranks of other processes
// wait until their time limit.
Result<End> join_one(const NcclRank& rank, const std::string& id) {
  Result<End> end;
  Result<> outcome = catching([&]() -> Result<> {
    DT_CUDA(cudaSetDevice(rank.store->device()));
    DT_TRY(end, join_nccl(rank, id));
    return {};
  });
  if (outcome) return end;
  cancel(*rank.process, outcome.error());
  return tl::unexpected(std::move(outcome.error()).with(fmt::format("joining GPU {}", rank.store->device())));
}

}  // namespace

// Joining waits for all ranks, so each rank joins in a separate thread.
Result<std::vector<End>> join_devices(std::span<CudaExecutor* const> executors, const comm::Processes& processes) {
  DT_TRY(const std::string id, agree_on_nccl_id(processes.rank, processes.size, processes.exchange));
  const auto process = make_nccl_process();
  const auto here = static_cast<uint32_t>(executors.size());
  std::vector<Result<End>> joined(here);
  std::vector<std::thread> threads;
  for (uint32_t device = 0; device < here; device++) {
    const NcclRank rank{.rank = processes.rank * here + device,
                        .size = processes.size * here,
                        .store = executors[device]->store_stream(),
                        .process = process};
    threads.emplace_back([&, rank, device] { joined[device] = join_one(rank, id); });
  }
  for (std::thread& thread : threads) thread.join();
  std::vector<End> ends;
  for (Result<End>& end : joined) {
    if (!end) return tl::unexpected(std::move(end.error()));
    ends.push_back(std::move(*end));
  }
  return ends;
}

}  // namespace dtrain::cuda
