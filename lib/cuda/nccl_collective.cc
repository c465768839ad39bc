#include "cuda/nccl_collective.h"

#include <nccl.h>

#include <algorithm>
#include <cstring>
#include <future>
#include <optional>
#include <thread>
#include <utility>

#include "base/mutex.h"
#include "base/thread.h"
#include "cuda/runtime/nccl_error.h"

namespace dtrain::cuda {

namespace {

using Clock = std::chrono::steady_clock;

// NCCL has no wait with a time limit, so its state is polled at these intervals.
constexpr std::chrono::microseconds kPollWhileJoining{1000};
constexpr std::chrono::microseconds kPollWhileRunning{20};
constexpr std::chrono::microseconds kPollWhileEnding{1000};
// How long NCCL may take to end a communicator. If it takes longer, the thread that ends the communicator is left
// running until the process ends.
constexpr std::chrono::seconds kAbortLimit{5};

// Whether all ranks complete their work within the limit, so that the communicator can be destroyed.
bool finalized(ncclComm_t comm, std::chrono::milliseconds limit) {
  const Clock::time_point deadline = Clock::now() + limit;
  ncclResult_t state = ncclCommFinalize(comm);
  while (state == ncclInProgress && Clock::now() < deadline) {
    std::this_thread::sleep_for(kPollWhileEnding);
    if (ncclCommGetAsyncError(comm, &state) != ncclSuccess) return false;
  }
  return state == ncclSuccess;
}

// The communicators of a process that are ending. Each is ended in a thread of its own, because NCCL's calls for this
// block until no CUDA graph contains the group's work, and ncclCommDestroy also until the other ranks of the host are
// destroyed.
class Endings {
 public:
  // A communicator that is ending in its thread. wait() returns when the communicator has ended, or at `deadline`.
  struct Ended {
    std::shared_future<void> done;
    Clock::time_point deadline;
    void wait() const { done.wait_until(deadline); }
  };

  Endings() = default;
  Endings(const Endings&) = delete;
  Endings& operator=(const Endings&) = delete;
  ~Endings() {
    const MutexLock lock(mutex_);
    for (const Ended& ended : all_) ended.wait();
  }

  // Begins to end the communicator. If there is a limit and all ranks complete their work within it, the communicator
  // is destroyed. Otherwise it is aborted.
  Ended begin(ncclComm_t comm, std::optional<std::chrono::milliseconds> limit) DT_EXCLUDES(mutex_) {
    std::packaged_task<void()> end([comm, limit] {
      name_thread("nccl-end");
      (void)(limit && finalized(comm, *limit) ? ncclCommDestroy(comm) : ncclCommAbort(comm));
    });
    Ended ended{end.get_future(), Clock::now() + limit.value_or(std::chrono::milliseconds(0)) + kAbortLimit};
    std::thread(std::move(end)).detach();
    const MutexLock lock(mutex_);
    all_.push_back(ended);
    return ended;
  }

 private:
  Mutex mutex_;
  std::vector<Ended> all_ DT_GUARDED_BY(mutex_);
};

// Holds an ncclComm_t. Only the owner, the thread that owns the stream, makes calls; any thread may call fail_with().
// The communicator is non-blocking, so no call blocks, except for those that end it, and the mutex is held only
// briefly.
class Communicator {
 public:
  Communicator(std::shared_ptr<Endings> endings, std::chrono::milliseconds end_limit)
      : endings_(std::move(endings)), end_limit_(end_limit) {}
  Communicator(const Communicator&) = delete;
  Communicator& operator=(const Communicator&) = delete;
  ~Communicator() { begin_end(); }

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

  // Records the first error and returns it. This does not end the work on the device: an abort by a thread other than
  // the owner would wait forever for graphs that only the owner can drop.
  Error fail_with(Error error) DT_EXCLUDES(mutex_) {
    const MutexLock lock(mutex_);
    if (!error_) error_ = std::move(error);
    return *error_;
  }

  // Ends the communicator. Called by the owner after a failure, once no CUDA graph contains the group's work. Returns
  // when the work on the device has ended, or when NCCL has taken longer than kAbortLimit.
  void abort() {
    if (const std::optional<Endings::Ended> ended = begin_end()) ended->wait();
  }

 private:
  // Begins to end the communicator: after a failure the work on the device is aborted, otherwise it is completed.
  std::optional<Endings::Ended> begin_end() DT_EXCLUDES(mutex_) {
    const MutexLock lock(mutex_);
    const bool failed = error_.has_value();
    if (!failed) error_ = {Code::kInternal, "the NCCL group is gone", {}};
    if (comm_ != nullptr) {
      ended_ = endings_->begin(std::exchange(comm_, nullptr), failed ? std::nullopt : std::optional(end_limit_));
    }
    return ended_;
  }

  std::shared_ptr<Endings> endings_;
  std::chrono::milliseconds end_limit_;
  Mutex mutex_;
  ncclComm_t comm_ DT_GUARDED_BY(mutex_) = nullptr;
  std::optional<Error> error_ DT_GUARDED_BY(mutex_);
  std::optional<Endings::Ended> ended_ DT_GUARDED_BY(mutex_);
};

}  // namespace

class NcclProcess {
 public:
  std::shared_ptr<Communicator> make_communicator(std::chrono::milliseconds end_limit) DT_EXCLUDES(mutex_) {
    auto communicator = std::make_shared<Communicator>(endings_, end_limit);
    const MutexLock lock(mutex_);
    if (error_) communicator->fail_with(*error_);
    communicators_.push_back(communicator);
    return communicator;
  }

  void cancel(const Error& error) DT_EXCLUDES(mutex_) {
    const MutexLock lock(mutex_);
    if (!error_) error_ = error;
    for (const auto& weak : communicators_) {
      if (const auto communicator = weak.lock()) communicator->fail_with(*error_);
    }
  }

 private:
  std::shared_ptr<Endings> endings_ = std::make_shared<Endings>();
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
    rank_.process->cancel(error);
    communicator_->fail_with(std::move(error));
  }

  // Ends the communicator. Called by the thread that waits for the stream, once no CUDA graph contains the group's
  // work.
  void abort() { communicator_->abort(); }

  // Called repeatedly by StoreStream::wait while the host waits for the stream. An error ends that wait.
  Result<> watch(Clock::duration waited) {
    DT_TRY_VOID(usable());
    if (waited < rank_.operation_limit) return {};
    return tl::unexpected<Error>(
        communicator_->fail_with({Code::kPeerLost,
                                  fmt::format("rank {} of {}: the all-reduce did not finish within {} ms: a rank is "
                                              "missing, or its connection is broken",
                                              rank_.rank, rank_.size, rank_.operation_limit.count()),
                                  {}}));
  }

 private:
  [[nodiscard]] comm::Part part_of(std::span<float> values, uint32_t rank) const {
    return comm::part_of(values.size(), rank, rank_.size);
  }

  // Makes one call for the part of each rank, all in one NCCL group, which NCCL runs as one launch. For arrays whose
  // last parts are shorter than the others: NCCL's reduce-scatter and all-gather need parts of equal size.
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
    if (rank_.enqueue_only) return {};
    Result<> done = wait(what, values.size(), deadline);
    if (!done) abort();  // so that the device does not use the array anymore
    return done;
  }

  // Returns an error that NCCL has detected asynchronously, if there is one.
  Result<> usable() {
    DT_TRY(const ncclResult_t state, communicator_->state());
    return state == ncclSuccess || state == ncclInProgress ? Result<>{} : failed("the group", state);
  }

  Result<> wait(const char* what, size_t count, Clock::time_point deadline) {
    for (;;) {
      const cudaError_t stream = cudaStreamQuery(rank_.stream);
      DT_TRY(const ncclResult_t state, communicator_->state());
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
    return tl::unexpected<Error>(
        communicator_->fail_with({Code::kPeerLost,
                                  fmt::format("rank {} of {}: {} of {} values did not finish within {} ms: a rank is "
                                              "missing, or its connection is broken",
                                              rank_.rank, rank_.size, what, count, rank_.operation_limit.count()),
                                  {}}));
  }

  // Failures of peers and networks are Errors. A broken device, or a call that NCCL rejects as invalid, throws
  // DeviceError.
  Result<> failed(const char* what, ncclResult_t result) {
    const std::string text =
        fmt::format("rank {} of {}: {}: {}", rank_.rank, rank_.size, what, communicator_->text_of(result));
    const bool of_peers = result == ncclRemoteError || result == ncclSystemError;
    const Error error = communicator_->fail_with({of_peers ? Code::kPeerLost : Code::kDevice, text, {}});
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
    store_->set_watch([this](Clock::duration waited) {
      Result<> usable = rank_->watch(waited);
      if (!usable) abort();
      return usable;
    });
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
  // Aborts the group, because the device's work waits for a peer that is lost, and the caller waits for that work.
  void abort() const {
    store_->drop_graphs();
    rank_->abort();
  }
  // Queues the operation, unless a CUDA graph that is about to run already contains it. In that case the operation is
  // called with an empty span, which only checks that the group is usable. Sets the current device first, because a
  // store may call from any thread.
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
                "the first process of the NCCL group sent an id of {} bytes instead of {}: does it run a different "
                "build of dtrain?",
                all[0].size(), NCCL_UNIQUE_ID_BYTES);
  }
  return std::move(all[0]);
}

namespace {

Result<std::unique_ptr<NcclCollective>> join(NcclRank rank, const std::string& id) {
  DT_CHECK(rank.rank < rank.size, "rank {} of {}", rank.rank, rank.size);
  if (!rank.process) rank.process = make_nccl_process();
  std::shared_ptr<Communicator> communicator = rank.process->make_communicator(rank.end_limit);
  DT_TRY(const ncclResult_t begun, begin_join(*communicator, rank, id));
  if (Result<> joined = finish_join(*communicator, rank, begun); !joined) {
    return tl::unexpected(communicator->fail_with(std::move(joined.error())));
  }
  return std::make_unique<NcclCollective>(std::move(rank), std::move(communicator));
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

// NCCL gives its version as a number: 22703 means 2.27.3.
std::string nccl_version() {
  int version = 0;
  if (ncclGetVersion(&version) != ncclSuccess) return "";
  return fmt::format("{}.{}.{}", version / 10000, version % 10000 / 100, version % 100);
}

}  // namespace dtrain::cuda
