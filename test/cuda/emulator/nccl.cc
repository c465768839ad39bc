// NCCL for emulated devices: ranks are threads of one process or of several, which share a file in memory. It has those
// rules of NCCL that a program can break: an operation stands still in its stream until all ranks have reached it, also
// if one of them never will; a group is finalized only when all ranks finalize it; and finalizing, destroying and
// aborting a communicator wait until no graph contains its operations.
#include <fcntl.h>
#include <nccl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <functional>
#include <memory>
#include <string>
#include <thread>

#include "emulator.h"

namespace {

constexpr size_t kRanks = 8, kFloats = size_t{1} << 20;

// What the ranks of a group share. A rank's values of operation n are in values[n % 2]; it writes them when it reaches
// the operation, and by then all ranks have finished operation n - 2.
struct Shared {
  std::atomic<uint32_t> joined, finalized;
  std::array<std::atomic<uint64_t>, kRanks> reached;  // how many operations each rank has reached
  std::array<std::array<std::array<float, kFloats>, kRanks>, 2> values;
};

Shared* map(const std::string& name) {
  const int file = shm_open(name.c_str(), O_RDWR | O_CREAT, 0600);
  if (file < 0) return nullptr;
  void* const memory = ftruncate(file, sizeof(Shared)) != 0
                           ? MAP_FAILED
                           : mmap(nullptr, sizeof(Shared), PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  close(file);
  return memory == MAP_FAILED ? nullptr : static_cast<Shared*>(memory);
}

// One rank's side. Queued operations keep it, so that they may outlive its communicator.
struct Rank {
  Rank(Shared* memory, size_t own, size_t all) : shared(memory), rank(own), size(all) {}
  Rank(const Rank&) = delete;
  Rank& operator=(const Rank&) = delete;
  ~Rank() { munmap(shared, sizeof(Shared)); }

  // Called by the thread that runs the stream.
  bool ready(const float* from, size_t count) {
    if (aborted) return true;
    std::atomic<uint64_t>& own = shared->reached[rank];
    if (own == finished) {
      std::memcpy(values(rank), from, count * sizeof(float));
      own = finished + 1;
    }
    for (size_t r = 0; r < size; r++) {
      if (shared->reached[r] <= finished) return false;
    }
    return true;
  }
  [[nodiscard]] float* values(size_t of) const { return shared->values[finished % 2][of].data(); }
  [[nodiscard]] float sum(size_t at) const {
    float total = 0;
    for (size_t r = 0; r < size; r++) total += values(r)[at];
    return total;
  }

  Shared* const shared;
  const size_t rank, size;
  uint64_t finished = 0;  // operations
  std::atomic<bool> aborted{false};
  std::atomic<int> in_graphs{0};  // operations in graphs that exist
};

// Queues an operation that all ranks reach with `count` values and that then calls work(rank).
ncclResult_t queue(const std::shared_ptr<Rank>& rank, const void* from, size_t count, cudaStream_t stream,
                   std::function<void(const Rank&)> work) {
  if (count > kFloats) return ncclInvalidArgument;
  rank->in_graphs++;
  std::shared_ptr<void> held(rank.get(), [rank](Rank* one) { one->in_graphs--; });
  dtrain::cuda::emulator::queue(
      stream,
      [rank, work = std::move(work)] {
        if (!rank->aborted) work(*rank);
        rank->finished++;
      },
      [rank, from, count] { return rank->ready(static_cast<const float*>(from), count); }, std::move(held));
  return ncclSuccess;
}

}  // namespace

struct ncclComm {
  std::shared_ptr<Rank> rank;
  bool is_finalizing = false, is_finalized = false;
};

namespace {

void await_graphs(const ncclComm& comm) {
  while (comm.rank->in_graphs != 0) std::this_thread::yield();
}

}  // namespace

ncclResult_t ncclGetVersion(int* version) {
  *version = 22809;
  return ncclSuccess;
}
const char* ncclGetErrorString(ncclResult_t) {
  return "emulated NCCL failed";
}
const char* ncclGetLastError(ncclComm_t) {
  return "";
}
ncclResult_t ncclGetUniqueId(ncclUniqueId* id) {
  static std::atomic<int> made{0};
  *id = {};
  std::snprintf(id->internal, sizeof(id->internal), "/dtrain-nccl-%d-%d", getpid(), made++);
  return ncclSuccess;
}

ncclResult_t ncclCommInitRankConfig(ncclComm_t* comm, int ranks, ncclUniqueId id, int rank, ncclConfig_t* config) {
  if (ranks > static_cast<int>(kRanks) || config->blocking != 0) return ncclInvalidArgument;
  Shared* const shared = map(id.internal);
  if (shared == nullptr) return ncclSystemError;
  *comm = new ncclComm{std::make_shared<Rank>(shared, static_cast<size_t>(rank), static_cast<size_t>(ranks))};
  if (++shared->joined == static_cast<uint32_t>(ranks)) shm_unlink(id.internal);
  return ncclInProgress;
}
ncclResult_t ncclCommGetAsyncError(ncclComm_t comm, ncclResult_t* state) {
  const Rank& rank = *comm->rank;
  bool done = rank.shared->joined == rank.size;
  if (comm->is_finalizing) {
    if (!comm->is_finalized && rank.in_graphs == 0) {
      comm->is_finalized = true;
      rank.shared->finalized++;
    }
    done = rank.shared->finalized == rank.size;
  }
  *state = done ? ncclSuccess : ncclInProgress;
  return ncclSuccess;
}
ncclResult_t ncclCommFinalize(ncclComm_t comm) {
  comm->is_finalizing = true;
  return ncclInProgress;
}
ncclResult_t ncclCommDestroy(ncclComm_t comm) {
  await_graphs(*comm);
  delete comm;
  return ncclSuccess;
}
ncclResult_t ncclCommAbort(ncclComm_t comm) {
  comm->rank->aborted = true;
  await_graphs(*comm);
  delete comm;
  return ncclSuccess;
}

ncclResult_t ncclGroupStart() {
  return ncclSuccess;
}
ncclResult_t ncclGroupEnd() {
  return ncclSuccess;
}
ncclResult_t ncclAllReduce(const void* from, void* to, size_t count, ncclDataType_t, ncclRedOp_t, ncclComm_t comm,
                           cudaStream_t stream) {
  return queue(comm->rank, from, count, stream, [to, count](const Rank& rank) {
    for (size_t i = 0; i < count; i++) static_cast<float*>(to)[i] = rank.sum(i);
  });
}
ncclResult_t ncclReduceScatter(const void* from, void* to, size_t count, ncclDataType_t, ncclRedOp_t, ncclComm_t comm,
                               cudaStream_t stream) {
  return queue(comm->rank, from, count * comm->rank->size, stream, [to, count](const Rank& rank) {
    for (size_t i = 0; i < count; i++) static_cast<float*>(to)[i] = rank.sum(rank.rank * count + i);
  });
}
ncclResult_t ncclAllGather(const void* from, void* to, size_t count, ncclDataType_t, ncclComm_t comm,
                           cudaStream_t stream) {
  return queue(comm->rank, from, count, stream, [to, count](const Rank& rank) {
    for (size_t r = 0; r < rank.size; r++) {
      std::memcpy(static_cast<float*>(to) + r * count, rank.values(r), count * sizeof(float));
    }
  });
}
ncclResult_t ncclReduce(const void* from, void* to, size_t count, ncclDataType_t, ncclRedOp_t, int root,
                        ncclComm_t comm, cudaStream_t stream) {
  return queue(comm->rank, from, count, stream, [to, count, root](const Rank& rank) {
    if (rank.rank != static_cast<size_t>(root)) return;
    for (size_t i = 0; i < count; i++) static_cast<float*>(to)[i] = rank.sum(i);
  });
}
ncclResult_t ncclBroadcast(const void* from, void* to, size_t count, ncclDataType_t, int root, ncclComm_t comm,
                           cudaStream_t stream) {
  return queue(comm->rank, from, count, stream, [to, count, root](const Rank& rank) {
    std::memcpy(to, rank.values(static_cast<size_t>(root)), count * sizeof(float));
  });
}
