#include "cuda/nccl_group.h"

#include <cuda_runtime_api.h>

#include <thread>

#include "comm/exchange.h"
#include "cuda/nccl_collective.h"

namespace dtrain::cuda {

// Joining waits for all: a thread each.
Result<std::vector<std::unique_ptr<comm::Collective>>> join_in_process(std::span<CudaExecutor* const> executors) {
  using End = std::unique_ptr<comm::Collective>;
  const auto process = make_nccl_process();
  const auto size = static_cast<uint32_t>(executors.size());
  comm::Board board(size);
  std::vector<Result<End>> joined(executors.size());
  const auto join_one = [&](uint32_t rank) {
    const std::shared_ptr<StoreStream>& store = executors[rank]->store_stream();
    Result<> outcome = catching([&]() -> Result<> {
      DT_CUDA(cudaSetDevice(store->device()));
      DT_TRY(joined[rank], join_nccl({.rank = rank, .size = size, .process = process}, store, board.of(rank)));
      return {};
    });
    if (outcome) return;
    joined[rank] = tl::unexpected(std::move(outcome.error()).with(fmt::format("joining device {}", rank)));
    board.call_off(joined[rank].error());
  };
  std::vector<std::thread> threads;
  for (uint32_t rank = 0; rank < size; rank++) threads.emplace_back(join_one, rank);
  for (std::thread& thread : threads) thread.join();
  std::vector<End> ends;
  for (Result<End>& end : joined) {
    if (!end) return tl::unexpected(std::move(end.error()));
    ends.push_back(std::move(*end));
  }
  return ends;
}

}  // namespace dtrain::cuda
