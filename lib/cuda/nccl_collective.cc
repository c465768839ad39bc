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

}  // namespace

class NcclProcess {
 public:
  // A communicator that is ending. wait() returns when it has ended, or at `deadline`.
  struct Ending {
    std::shared_future<void> done;
    Clock::time_point deadline;
    void wait() const { done.wait_until(deadline); }
  };

  NcclProcess() = default;
  NcclProcess(const NcclProcess&) = delete;
  NcclProcess& operator=(const NcclProcess&) = delete;
  ~NcclProcess() {
    const MutexLock lock(mutex_);
    for (const Ending& ending : endings_) ending.wait();
  }

  // Records the first error and returns it. This does not end the work on the devices: an abort by a thread other than
  // a rank's own would wait forever for graphs that only the rank's thread can drop.
  Error fail_with(Error error) DT_EXCLUDES(mutex_) {
    const MutexLock lock(mutex_);
    if (!error_) error_ = std::move(error);
    return *error_;
  }

  // The recorded error, if there is one.
  Result<> check() DT_EXCLUDES(mutex_) {
    const MutexLock lock(mutex_);
    if (error_) return tl::unexpected<Error>(*error_);
    return {};
  }

  // Begins to end the communicator: after an error it is aborted, and otherwise it is destroyed, if all ranks complete
  // their work within `limit`. In a thread of its own, because ncclCommDestroy blocks until the other ranks of the host
  // are destroyed.
  Ending begin_end(ncclComm_t comm, std::chrono::milliseconds limit) DT_EXCLUDES(mutex_) {
    const MutexLock lock(mutex_);
    if (error_) limit = {};
    std::packaged_task<void()> end([comm, limit, failed = error_.has_value()] {
      name_thread("nccl-end");
      (void)(!failed && finalized(comm, limit) ? ncclCommDestroy(comm) : ncclCommAbort(comm));
    });
    Ending ending{end.get_future(), Clock::now() + limit + kAbortLimit};
    std::thread(std::move(end)).detach();
    return endings_.emplace_back(std::move(ending));
  }

 private:
  Mutex mutex_;
  std::optional<Error> error_ DT_GUARDED_BY(mutex_);
  std::vector<Ending> endings_ DT_GUARDED_BY(mutex_);
};

std::shared_ptr<NcclProcess> make_nccl_process() {
  return std::make_shared<NcclProcess>();
}

void cancel(NcclProcess& process, const Error& error) {
  process.fail_with(error);
}

namespace {

// A rank, which owns its communicator. The communicator is non-blocking, so no call blocks, except for those that end
// it.
class NcclCollective final : public comm::Collective {
 public:
  explicit NcclCollective(NcclRank rank) : rank_(std::move(rank)) {}
  NcclCollective(const NcclCollective&) = delete;
  NcclCollective& operator=(const NcclCollective&) = delete;
  ~NcclCollective() override {
    rank_.store->set_watch(nullptr);
    begin_end();
  }

  Result<> join(const std::string& id) {
    if (Result<> joined = wait_for_join(id); !joined) return recorded(std::move(joined.error()));
    rank_.store->set_watch([this](Clock::duration waited) { return watch(waited); });
    return {};
  }

  [[nodiscard]] uint32_t rank() const override { return rank_.rank; }
  [[nodiscard]] uint32_t size() const override { return rank_.size; }

  Result<> all_reduce(std::span<float> values) override {
    return run("all_reduce", values, [&](ncclComm_t comm) {
      return ncclAllReduce(values.data(), values.data(), values.size(), ncclFloat32, ncclSum, comm, stream());
    });
  }

  Result<> reduce_scatter(std::span<float> values) override {
    return run("reduce_scatter", values, [&](ncclComm_t comm) {
      if (values.size() % rank_.size == 0) {
        const comm::Part part = part_of(values, rank_.rank);
        return ncclReduceScatter(values.data(), values.data() + part.begin, part.count, ncclFloat32, ncclSum, comm,
                                 stream());
      }
      return for_each_part(values, [&](float* part, size_t count, int owner) {
        return ncclReduce(part, part, count, ncclFloat32, ncclSum, owner, comm, stream());
      });
    });
  }

  Result<> all_gather(std::span<float> values) override {
    return run("all_gather", values, [&](ncclComm_t comm) {
      if (values.size() % rank_.size == 0) {
        const comm::Part part = part_of(values, rank_.rank);
        return ncclAllGather(values.data() + part.begin, values.data(), part.count, ncclFloat32, comm, stream());
      }
      return for_each_part(values, [&](float* part, size_t count, int owner) {
        return ncclBroadcast(part, part, count, ncclFloat32, owner, comm, stream());
      });
    });
  }

  Result<> reduce(std::span<float> values, uint32_t root) override {
    return run("reduce", values, [&](ncclComm_t comm) {
      return ncclReduce(values.data(), values.data(), values.size(), ncclFloat32, ncclSum, static_cast<int>(root), comm,
                        stream());
    });
  }

  Result<> broadcast(std::span<float> values, uint32_t root) override {
    return run("broadcast", values, [&](ncclComm_t comm) {
      return ncclBroadcast(values.data(), values.data(), values.size(), ncclFloat32, static_cast<int>(root), comm,
                           stream());
    });
  }

  void cancel(Error error) override { rank_.process->fail_with(std::move(error)); }

 private:
  [[nodiscard]] cudaStream_t stream() const { return rank_.store->get(); }
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

  // Queues one operation, unless a CUDA graph that is about to run already contains it. Sets the current device first,
  // because a store may call from any thread.
  template <class Call>
  Result<> run(const char* what, std::span<float> values, const Call& call) {
    DT_CUDA(cudaSetDevice(rank_.store->device()));
    if (values.empty() || !rank_.store->takes_work()) return check();
    DT_TRY_VOID(rank_.process->check());
    const DeviceSpans::Span span(rank_.store->spans(), DeviceSpans::Track::kStore, stream(), what, "device",
                                 static_cast<int64_t>(values.size_bytes()));
    const Clock::time_point deadline = Clock::now() + rank_.operation_limit;
    ncclResult_t result = call(comm_);
    while (result == ncclInProgress) {
      if (Clock::now() >= deadline) return late(fmt::format("{} of {} values", what, values.size()));
      std::this_thread::sleep_for(kPollWhileRunning);
      DT_TRY(result, state());
    }
    return result == ncclSuccess ? Result<>{} : failed(what, result);
  }

  // Called repeatedly by StoreStream::wait while the host waits for the stream. An error ends that wait. It also ends
  // the communicator, because the device's work may wait for a peer that is lost.
  Result<> watch(Clock::duration waited) {
    Result<> usable = check();
    if (usable && waited >= rank_.operation_limit) usable = late("the all-reduce");
    if (!usable) begin_end();
    if (ending_) ending_->wait();
    return usable;
  }

  // Ends the communicator, in the order that the header states.
  void begin_end() {
    rank_.store->drop_graphs();
    if (comm_ != nullptr) ending_ = rank_.process->begin_end(std::exchange(comm_, nullptr), rank_.end_limit);
  }

  // The state of the last call: ncclInProgress, ncclSuccess, or an error, possibly one of another rank.
  Result<ncclResult_t> state() {
    DT_TRY_VOID(rank_.process->check());
    ncclResult_t state = ncclSuccess;
    const ncclResult_t asked = ncclCommGetAsyncError(comm_, &state);
    return asked == ncclSuccess ? state : asked;
  }

  // Returns an error that was recorded, or that NCCL has detected asynchronously, if there is one.
  Result<> check() {
    DT_TRY(const ncclResult_t now, state());
    return now == ncclSuccess || now == ncclInProgress ? Result<>{} : failed("the group", now);
  }

  Result<> recorded(Error error) { return tl::unexpected<Error>(rank_.process->fail_with(std::move(error))); }

  Result<> late(const std::string& what) {
    return recorded({Code::kPeerLost,
                     fmt::format("rank {} of {}: {} did not finish within {} ms: a rank is missing, or its connection "
                                 "is broken",
                                 rank_.rank, rank_.size, what, rank_.operation_limit.count()),
                     {}});
  }

  // Failures of peers and networks are Errors. A broken device, or a call that NCCL rejects as invalid, throws
  // DeviceError.
  Result<> failed(const char* what, ncclResult_t result) {
    const std::string text = fmt::format("rank {} of {}: {}: {}", rank_.rank, rank_.size, what, text_of(result));
    if (is_of_peers(result)) return recorded({Code::kPeerLost, text, {}});
    rank_.process->fail_with({Code::kDevice, text, {}});
    throw DeviceError(text);
  }

  Result<> wait_for_join(const std::string& id) {
    DT_TRY_VOID(rank_.process->check());
    ncclUniqueId unique{};
    std::memcpy(unique.internal, id.data(), sizeof(unique.internal));
    ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
    config.blocking = 0;
    const Clock::time_point deadline = Clock::now() + rank_.join_limit;
    ncclResult_t result =
        ncclCommInitRankConfig(&comm_, static_cast<int>(rank_.size), unique, static_cast<int>(rank_.rank), &config);
    while (result == ncclInProgress) {
      if (Clock::now() >= deadline) {
        return fail(Code::kStartup, "rank {} of {}: not all ranks have joined within {} ms ({})", rank_.rank,
                    rank_.size, rank_.join_limit.count(), text_of(result));
      }
      std::this_thread::sleep_for(kPollWhileJoining);
      DT_TRY(result, state());
    }
    if (result == ncclSuccess) return {};
    return fail(is_of_peers(result) ? Code::kStartup : Code::kDevice, "rank {} of {}: {}", rank_.rank, rank_.size,
                text_of(result));
  }

  static bool is_of_peers(ncclResult_t result) { return result == ncclRemoteError || result == ncclSystemError; }
  [[nodiscard]] std::string text_of(ncclResult_t result) const {
    return nccl_error_text(result, ncclGetLastError(comm_));
  }

  NcclRank rank_;
  ncclComm_t comm_ = nullptr;  // null after an error that has ended it
  std::optional<NcclProcess::Ending> ending_;
};

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

Result<std::unique_ptr<comm::Collective>> join_nccl(NcclRank rank, const std::string& id) {
  DT_CHECK(rank.rank < rank.size, "rank {} of {}", rank.rank, rank.size);
  if (!rank.process) rank.process = make_nccl_process();
  auto joined = std::make_unique<NcclCollective>(std::move(rank));
  DT_TRY_VOID(joined->join(id));
  return joined;
}

// NCCL gives its version as a number: 22703 means 2.27.3.
std::string nccl_version() {
  int version = 0;
  if (ncclGetVersion(&version) != ncclSuccess) return "";
  return fmt::format("{}.{}.{}", version / 10000, version % 10000 / 100, version % 100);
}

}  // namespace dtrain::cuda
