#include "cuda/nccl_collective.h"

#include <nccl.h>

#include <algorithm>
#include <cstring>
#include <optional>
#include <thread>
#include <utility>

#include "base/mutex.h"
#include "cuda/runtime/nccl_error.h"

namespace dtrain::cuda {

namespace {

using Clock = std::chrono::steady_clock;

// NCCL has no wait with a time limit, so its state is polled at these intervals.
constexpr std::chrono::microseconds kPollWhileJoining{1000};
constexpr std::chrono::microseconds kPollWhileRunning{20};

// An ncclComm_t shared by several threads: one makes calls, and any may abort. The communicator is non-blocking, so no
// call blocks and the mutex is held only briefly. Abort never frees what a call still uses.
class Communicator {
 public:
  Communicator() = default;
  Communicator(const Communicator&) = delete;
  Communicator& operator=(const Communicator&) = delete;
  ~Communicator() { abort({Code::kInternal, "the NCCL group is gone", {}}); }

  // Calls call(ncclComm_t&) -> ncclResult_t. If an error was recorded before, returns that instead.
  template <class Call>
  Result<ncclResult_t> use(const Call& call) DT_EXCLUDES(mutex_) {
    const MutexLock lock(mutex_);
    if (error_) return tl::unexpected<Error>(*error_);
    return call(comm_);
  }

  // The state of the last call: ncclInProgress, ncclSuccess, or an error, possibly one of another rank.
  Result<ncclResult_t> state() {
    return use([](ncclComm_t comm) {
      ncclResult_t state = ncclSuccess;
      const ncclResult_t asked = ncclCommGetAsyncError(comm, &state);
      return asked == ncclSuccess ? state : asked;
    });
  }

  std::string text_of(ncclResult_t result) DT_EXCLUDES(mutex_) {
    const MutexLock lock(mutex_);
    return nccl_error_text(result, ncclGetLastError(comm_));
  }

  // Records the first error and returns it. Ends the work that is running on the device.
  Error abort(Error error) DT_EXCLUDES(mutex_) {
    const MutexLock lock(mutex_);
    if (!error_) error_ = std::move(error);
    // The result is ignored, because the communicator is gone either way. ncclCommDestroy would wait for the other
    // ranks.
    if (comm_ != nullptr) (void)ncclCommAbort(std::exchange(comm_, nullptr));
    return *error_;
  }

 private:
  Mutex mutex_;
  ncclComm_t comm_ DT_GUARDED_BY(mutex_) = nullptr;
  std::optional<Error> error_ DT_GUARDED_BY(mutex_);
};

}  // namespace

class NcclProcess {
 public:
  void enter(const std::shared_ptr<Communicator>& communicator) DT_EXCLUDES(mutex_) {
    const MutexLock lock(mutex_);
    if (error_) communicator->abort(*error_);
    communicators_.push_back(communicator);
  }

  void cancel(const Error& error) DT_EXCLUDES(mutex_) {
    const MutexLock lock(mutex_);
    if (!error_) error_ = error;
    for (const auto& weak : communicators_) {
      if (const auto communicator = weak.lock()) communicator->abort(*error_);
    }
  }

 private:
  Mutex mutex_;
  std::optional<Error> error_ DT_GUARDED_BY(mutex_);
  std::vector<std::weak_ptr<Communicator>> communicators_ DT_GUARDED_BY(mutex_);
};

std::shared_ptr<NcclProcess> make_nccl_process() {
  return std::make_shared<NcclProcess>();
}

void cancel(NcclProcess& process, const Error& error) {
  process.cancel(error);
}

namespace {

class NcclCollective final : public comm::Collective {
 public:
  NcclCollective(NcclRank rank, std::shared_ptr<Communicator> communicator)
      : rank_(std::move(rank)), communicator_(std::move(communicator)) {}

  [[nodiscard]] uint32_t rank() const override { return rank_.rank; }
  [[nodiscard]] uint32_t size() const override { return rank_.size; }

  Result<> all_reduce(std::span<float> values) override {
    return run("all_reduce", values, [&](ncclComm_t comm) {
      return ncclAllReduce(values.data(), values.data(), values.size(), ncclFloat32, ncclSum, comm, rank_.stream);
    });
  }

  Result<> reduce_scatter(std::span<float> values) override {
    return run("reduce_scatter", values, [&](ncclComm_t comm) {
      if (values.size() % rank_.size == 0) {
        const comm::Part part = part_of(values, rank_.rank);
        return ncclReduceScatter(values.data(), values.data() + part.begin, part.count, ncclFloat32, ncclSum, comm,
                                 rank_.stream);
      }
      return for_each_part(values, [&](float* part, size_t count, int owner) {
        return ncclReduce(part, part, count, ncclFloat32, ncclSum, owner, comm, rank_.stream);
      });
    });
  }

  Result<> all_gather(std::span<float> values) override {
    return run("all_gather", values, [&](ncclComm_t comm) {
      if (values.size() % rank_.size == 0) {
        const comm::Part part = part_of(values, rank_.rank);
        return ncclAllGather(values.data() + part.begin, values.data(), part.count, ncclFloat32, comm, rank_.stream);
      }
      return for_each_part(values, [&](float* part, size_t count, int owner) {
        return ncclBroadcast(part, part, count, ncclFloat32, owner, comm, rank_.stream);
      });
    });
  }

  Result<> reduce(std::span<float> values, uint32_t root) override {
    return run("reduce", values, [&](ncclComm_t comm) {
      return ncclReduce(values.data(), values.data(), values.size(), ncclFloat32, ncclSum, static_cast<int>(root), comm,
                        rank_.stream);
    });
  }

  Result<> broadcast(std::span<float> values, uint32_t root) override {
    return run("broadcast", values, [&](ncclComm_t comm) {
      return ncclBroadcast(values.data(), values.data(), values.size(), ncclFloat32, static_cast<int>(root), comm,
                           rank_.stream);
    });
  }

  void cancel(Error error) override {
    if (rank_.process) rank_.process->cancel(error);
    communicator_->abort(std::move(error));
  }

  // Called by StoreStream::wait while the host waits for the stream.
  Result<> watch(Clock::duration waited) {
    DT_TRY_VOID(usable());
    if (waited < rank_.operation_limit) return {};
    return tl::unexpected<Error>(communicator_->abort(
        {Code::kPeerLost,
         fmt::format("rank {} of {}: the sums did not finish within {} ms: a rank is missing or its connection is "
                     "broken",
                     rank_.rank, rank_.size, rank_.operation_limit.count()),
         {}}));
  }

 private:
  [[nodiscard]] comm::Part part_of(std::span<float> values, uint32_t rank) const {
    return comm::part_of(values.size(), rank, rank_.size);
  }

  // NCCL's reduce-scatter and all-gather need parts of equal size. If the last parts are shorter, one operation per
  // owner is used, all in one group, which NCCL runs as one launch.
  template <class Call>
  ncclResult_t for_each_part(std::span<float> values, const Call& call) const {
    ncclResult_t first = ncclGroupStart();
    for (uint32_t owner = 0; owner < rank_.size && first == ncclSuccess; owner++) {
      const comm::Part part = part_of(values, owner);
      if (part.count == 0) continue;
      const ncclResult_t result = call(values.data() + part.begin, part.count, static_cast<int>(owner));
      if (result != ncclInProgress) first = result;
    }
    const ncclResult_t end = ncclGroupEnd();
    return first == ncclSuccess ? end : first;
  }

  // Runs one operation: enqueues it and, unless enqueue_only, waits until it is done.
  template <class Call>
  Result<> run(const char* what, std::span<float> values, const Call& call) {
    if (values.empty()) return usable();
    const Clock::time_point deadline = Clock::now() + rank_.operation_limit;
    DT_TRY(ncclResult_t result, communicator_->use(call));
    while (result == ncclInProgress) {
      if (Clock::now() >= deadline) return late(what, values.size());
      std::this_thread::sleep_for(kPollWhileRunning);
      DT_TRY(result, communicator_->state());
    }
    if (result != ncclSuccess) return failed(what, result);
    return rank_.enqueue_only ? Result<>{} : wait(what, values.size(), deadline);
  }

  // Returns an error that NCCL has detected asynchronously, if there is one.
  Result<> usable() {
    DT_TRY(const ncclResult_t state, communicator_->state());
    return state == ncclSuccess || state == ncclInProgress ? Result<>{} : failed("the group", state);
  }

  Result<> wait(const char* what, size_t count, Clock::time_point deadline) {
    for (;;) {
      const cudaError_t stream = cudaStreamQuery(rank_.stream);
      DT_TRY(const ncclResult_t state, communicator_->state());  // an abort ends the stream's work too
      if (state != ncclSuccess && state != ncclInProgress) return failed(what, state);
      if (stream == cudaSuccess) return {};
      if (stream != cudaErrorNotReady) {
        throw DeviceError(fmt::format("{} of {} values: {}", what, count, cudaGetErrorString(stream)));
      }
      if (Clock::now() >= deadline) return late(what, count);
      std::this_thread::sleep_for(kPollWhileRunning);
    }
  }

  Result<> late(const char* what, size_t count) {
    return tl::unexpected<Error>(communicator_->abort(
        {Code::kPeerLost,
         fmt::format("rank {} of {}: {} of {} values did not finish within {} ms: a rank is missing or its connection "
                     "is broken",
                     rank_.rank, rank_.size, what, count, rank_.operation_limit.count()),
         {}}));
  }

  // Failures of peers and networks are Errors. A broken device, or a call that NCCL rejects as invalid, throws
  // DeviceError.
  Result<> failed(const char* what, ncclResult_t result) {
    const std::string text =
        fmt::format("rank {} of {}: {}: {}", rank_.rank, rank_.size, what, communicator_->text_of(result));
    const bool of_peers = result == ncclRemoteError || result == ncclSystemError;
    const Error error = communicator_->abort({of_peers ? Code::kPeerLost : Code::kDevice, text, {}});
    if (!of_peers) throw DeviceError(text);
    return tl::unexpected<Error>(error);
  }

  NcclRank rank_;
  std::shared_ptr<Communicator> communicator_;
};

// A rank that works in a store's stream.
class StoreCollective final : public comm::Collective {
 public:
  StoreCollective(std::shared_ptr<StoreStream> store, std::shared_ptr<NcclCollective> rank)
      : store_(std::move(store)), rank_(std::move(rank)) {
    store_->set_watch([rank = rank_](Clock::duration waited) { return rank->watch(waited); });
  }
  ~StoreCollective() override {
    store_->drop_graphs();
    store_->set_watch(nullptr);
  }
  StoreCollective(const StoreCollective&) = delete;
  StoreCollective& operator=(const StoreCollective&) = delete;

  [[nodiscard]] uint32_t rank() const override { return rank_->rank(); }
  [[nodiscard]] uint32_t size() const override { return rank_->size(); }
  Result<> all_reduce(std::span<float> values) override {
    return recorded("all_reduce", values, [&](std::span<float> queued) { return rank_->all_reduce(queued); });
  }
  Result<> reduce_scatter(std::span<float> values) override {
    return recorded("reduce_scatter", values, [&](std::span<float> queued) { return rank_->reduce_scatter(queued); });
  }
  Result<> all_gather(std::span<float> values) override {
    return recorded("all_gather", values, [&](std::span<float> queued) { return rank_->all_gather(queued); });
  }
  Result<> reduce(std::span<float> values, uint32_t root) override {
    return recorded("reduce", values, [&](std::span<float> queued) { return rank_->reduce(queued, root); });
  }
  Result<> broadcast(std::span<float> values, uint32_t root) override {
    return recorded("broadcast", values, [&](std::span<float> queued) { return rank_->broadcast(queued, root); });
  }
  void cancel(Error error) override { rank_->cancel(std::move(error)); }

 private:
  // Queues the operation. Work that a graph contains is not queued again; an operation on an empty span only checks
  // that the group is usable. The device is set because a store may call from any thread.
  template <class Operation>
  Result<> recorded(const char* name, std::span<float> values, const Operation& operation) const {
    DT_CUDA(cudaSetDevice(store_->device()));
    if (!store_->takes_work()) return operation({});
    const DeviceSpans::Span span(store_->spans(), DeviceSpans::Track::kStore, store_->get(), name, "device",
                                 static_cast<int64_t>(values.size_bytes()));
    return operation(values);
  }

  std::shared_ptr<StoreStream> store_;
  std::shared_ptr<NcclCollective> rank_;
};

// Starts joining. The communicator may be used once its state is ncclSuccess.
Result<ncclResult_t> begin_join(Communicator& communicator, const NcclRank& rank, const std::string& id) {
  ncclUniqueId unique{};
  std::memcpy(unique.internal, id.data(), sizeof(unique.internal));
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  config.blocking = 0;
  return communicator.use([&](ncclComm_t& comm) {
    return ncclCommInitRankConfig(&comm, static_cast<int>(rank.size), unique, static_cast<int>(rank.rank), &config);
  });
}

Result<> finish_join(Communicator& communicator, const NcclRank& rank, ncclResult_t result) {
  const Clock::time_point deadline = Clock::now() + rank.join_limit;
  while (result == ncclInProgress) {
    if (Clock::now() >= deadline) {
      return fail(Code::kStartup, "rank {} of {}: not all ranks have joined within {} ms ({})", rank.rank, rank.size,
                  rank.join_limit.count(), communicator.text_of(result));
    }
    std::this_thread::sleep_for(kPollWhileJoining);
    DT_TRY(result, communicator.state());
  }
  if (result == ncclSuccess) return {};
  const bool of_peers = result == ncclRemoteError || result == ncclSystemError;
  return fail(of_peers ? Code::kStartup : Code::kDevice, "rank {} of {}: {}", rank.rank, rank.size,
              communicator.text_of(result));
}

}  // namespace

Result<std::string> agree_on_nccl_id(uint32_t process, uint32_t processes, const comm::Exchange& exchange) {
  std::string mine;
  if (process == 0) {
    ncclUniqueId id{};
    const ncclResult_t result = ncclGetUniqueId(&id);
    if (result != ncclSuccess) {
      return fail(Code::kStartup, "{}", nccl_error_text(result, ncclGetLastError(nullptr)));
    }
    mine.assign(id.internal, sizeof(id.internal));
  }
  DT_TRY(std::vector<std::string> all, exchange(std::move(mine)), "exchanging the id of the NCCL group");
  if (all.size() != processes) {
    return fail(Code::kStartup, "the exchange returned the messages of {1} processes instead of {0}", processes,
                all.size());
  }
  if (all[0].size() != NCCL_UNIQUE_ID_BYTES) {
    return fail(Code::kStartup,
                "the first process of the NCCL group sent an id of {} bytes instead of {}: is it another build?",
                all[0].size(), NCCL_UNIQUE_ID_BYTES);
  }
  return std::move(all[0]);
}

namespace {

Result<std::unique_ptr<NcclCollective>> join(const NcclRank& rank, const std::string& id) {
  DT_CHECK(rank.rank < rank.size, "rank {} of {}", rank.rank, rank.size);
  auto communicator = std::make_shared<Communicator>();
  if (rank.process) rank.process->enter(communicator);
  DT_TRY(const ncclResult_t begun, begin_join(*communicator, rank, id));
  DT_TRY_VOID(finish_join(*communicator, rank, begun));
  return std::make_unique<NcclCollective>(rank, std::move(communicator));
}

}  // namespace

Result<std::unique_ptr<comm::Collective>> join_nccl(const NcclRank& rank, const std::string& id) {
  return join(rank, id);
}

Result<std::unique_ptr<comm::Collective>> join_nccl(NcclRank rank, std::shared_ptr<StoreStream> store,
                                                    const std::string& id) {
  rank.stream = store->get();
  rank.enqueue_only = true;
  DT_TRY(std::shared_ptr<NcclCollective> joined, join(rank, id));
  return std::make_unique<StoreCollective>(std::move(store), std::move(joined));
}

// For example, 22703 means 2.27.3.
std::string nccl_version() {
  int version = 0;
  if (ncclGetVersion(&version) != ncclSuccess) return "";
  return fmt::format("{}.{}.{}", version / 10000, version % 10000 / 100, version % 100);
}

}  // namespace dtrain::cuda
