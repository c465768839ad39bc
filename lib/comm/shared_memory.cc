#include "comm/shared_memory.h"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <optional>
#include <string_view>
#include <utility>

#include "base/mutex.h"
#include "comm/missing.h"
#include "comm/ordered_sum.h"

namespace dtrain::comm {
namespace {

using Clock = std::chrono::steady_clock;

enum class Operation { kAllReduce, kReduceScatter, kAllGather, kReduce, kBroadcast };

std::string_view name_of(Operation operation) {
  constexpr std::string_view kNames[] = {"all_reduce", "reduce_scatter", "all_gather", "reduce", "broadcast"};
  return kNames[static_cast<size_t>(operation)];
}

// The operation for which a rank has arrived.
struct Call {
  Operation operation = Operation::kAllReduce;
  std::span<float> values = {};
  uint32_t root = 0;

  [[nodiscard]] bool agrees_with(const Call& other) const {
    return operation == other.operation && values.size() == other.values.size() && root == other.root;
  }
  [[nodiscard]] std::string text() const {
    return fmt::format("{} of {} elements, root {}", name_of(operation), values.size(), root);
  }
};

// The part of an array that a rank computes. Like part_of, but in whole cache lines, so that no two ranks write to the
// same line.
Part stripe_of(size_t elements, uint32_t rank, uint32_t size) {
  constexpr size_t kLine = 64 / sizeof(float);
  const Part lines = part_of((elements + kLine - 1) / kLine, rank, size);
  const size_t begin = std::min(lines.begin * kLine, elements);
  return {begin, std::min((lines.begin + lines.count) * kLine, elements) - begin};
}

void copy(const float* from, float* to, Part part) {
  std::memcpy(to + part.begin, from + part.begin, part.count * sizeof(float));
}

// The state that the ends share. An operation has three phases: all ranks arrive (with a time limit), all work without
// the lock, all are done. No rank returns before the end, even after an error, because others are working on its array.
class Group {
 public:
  Group(uint32_t size, double wait_limit_s)
      : size_(size), wait_limit_s_(wait_limit_s), calls_(size), arrays_(size), arrived_(size), left_(size) {}

  [[nodiscard]] uint32_t size() const { return size_; }

  Result<> run(uint32_t rank, const Call& call) {
    DT_TRY(const Arrays arrays, come(rank, call));
    work(rank, call, arrays);
    return finish();
  }

  void cancel(Error error) DT_EXCLUDES(mutex_) {
    const MutexLock lock(mutex_);
    if (!error_) error_ = std::move(error);
    changed_.notify_all();
  }

  void leave(uint32_t rank) DT_EXCLUDES(mutex_) {
    const MutexLock lock(mutex_);
    left_[rank] = true;
    changed_.notify_all();
  }

 private:
  using Arrays = std::span<float* const>;  // the array of each rank, indexed by rank

  // Returns arrays_, which does not change until all ranks are done.
  Result<Arrays> come(uint32_t rank, const Call& call) DT_EXCLUDES(mutex_);
  void begin() DT_REQUIRES(mutex_);
  void give_up(Operation operation) DT_REQUIRES(mutex_);
  [[nodiscard]] tl::unexpected<Error> failure() const DT_REQUIRES(mutex_);
  void work(uint32_t rank, const Call& call, Arrays arrays) const;
  Result<> finish() DT_EXCLUDES(mutex_);

  [[nodiscard]] bool someone_has_left() const DT_REQUIRES(mutex_) {
    return std::find(left_.begin(), left_.end(), true) != left_.end();
  }

  const uint32_t size_;
  const double wait_limit_s_;
  Mutex mutex_;
  ConditionVariable changed_;
  std::vector<Call> calls_ DT_GUARDED_BY(mutex_);     // the call of each rank, indexed by rank
  std::vector<float*> arrays_ DT_GUARDED_BY(mutex_);  // the array of each rank, indexed by rank
  // Indexed by rank: whether it has arrived at the operation that has not begun yet.
  std::vector<bool> arrived_ DT_GUARDED_BY(mutex_);
  std::vector<bool> left_ DT_GUARDED_BY(mutex_);      // whether the end of each rank was destroyed, indexed by rank
  uint32_t arrived_count_ DT_GUARDED_BY(mutex_) = 0;  // number of ranks set in arrived_
  uint32_t working_ DT_GUARDED_BY(mutex_) = 0;        // number of ranks that have arrived and are not done
  uint64_t begun_ DT_GUARDED_BY(mutex_) = 0;          // number of operations at which all ranks have arrived
  std::optional<Error> error_ DT_GUARDED_BY(mutex_);  // if set, the group is unusable
  bool is_bug_ DT_GUARDED_BY(mutex_) = false;         // whether error_ is due to a bug
};

Result<Group::Arrays> Group::come(uint32_t rank, const Call& call) {
  const MutexLock lock(mutex_);
  if (error_) return failure();
  calls_[rank] = call;
  arrived_[rank] = true;
  const uint64_t before = begun_;
  if (++arrived_count_ == size()) {
    begin();
    changed_.notify_all();
  } else {
    const auto limit = std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(wait_limit_s_));
    changed_.wait_until(mutex_, Clock::now() + limit,
                        [&]() DT_REQUIRES(mutex_) { return begun_ != before || error_ || someone_has_left(); });
    if (begun_ == before && !error_) give_up(call.operation);
  }
  if (begun_ == before) return failure();
  return Arrays(arrays_);
}

// Begins the operation at which all ranks have arrived, unless their calls differ.
void Group::begin() {
  const Call& first = calls_.front();
  for (uint32_t rank = 0; rank < size(); rank++) {
    const Call& call = calls_[rank];
    arrays_[rank] = call.values.data();
    if (call.agrees_with(first) && call.root < size()) continue;
    is_bug_ = true;
    error_ =
        Error{Code::kInternal,
              fmt::format("device {} calls {}, but device 0 of {} calls {}", rank, call.text(), size(), first.text()),
              {}};
    return;
  }
  std::fill(arrived_.begin(), arrived_.end(), false);
  arrived_count_ = 0;
  working_ = size();
  begun_++;
}

void Group::give_up(Operation operation) {
  std::vector<uint32_t> left;
  std::vector<uint32_t> missing;
  for (uint32_t rank = 0; rank < size(); rank++) {
    if (left_[rank]) left.push_back(rank);
    if (!arrived_[rank]) missing.push_back(rank);
  }
  error_ = left.empty()
               ? timeout_error("device", missing, name_of(operation), wait_limit_s_)
               : Error{Code::kPeerLost,
                       fmt::format("{} left the group before {}", ranks_have("device", left), name_of(operation)),
                       {}};
  changed_.notify_all();
}

tl::unexpected<Error> Group::failure() const {
  DT_CHECK(!is_bug_, "{}", error_->message);
  return tl::unexpected<Error>(*error_);
}

void Group::work(uint32_t rank, const Call& call, Arrays arrays) const {
  const size_t elements = call.values.size();
  if (size() == 1 || elements == 0) return;
  const Part stripe = stripe_of(elements, rank, size());
  const Part part = part_of(elements, rank, size());
  switch (call.operation) {
    case Operation::kAllReduce: ordered_sum(arrays, arrays, stripe.begin, stripe.count); break;
    case Operation::kReduceScatter: ordered_sum(arrays, {&arrays[rank], 1}, part.begin, part.count); break;
    case Operation::kAllGather:
      for (uint32_t from = 0; from < size(); from++) {
        if (from != rank) copy(arrays[from], arrays[rank], part_of(elements, from, size()));
      }
      break;
    case Operation::kReduce: ordered_sum(arrays, {&arrays[call.root], 1}, stripe.begin, stripe.count); break;
    case Operation::kBroadcast:
      for (uint32_t to = 0; to < size(); to++) {
        if (to != call.root) copy(arrays[call.root], arrays[to], stripe);
      }
      break;
  }
}

// Waits until all ranks are done. This has no time limit, because a working rank waits for nothing.
Result<> Group::finish() {
  const MutexLock lock(mutex_);
  if (--working_ == 0) {
    changed_.notify_all();
  } else {
    changed_.wait(mutex_, [this]() DT_REQUIRES(mutex_) { return working_ == 0; });
  }
  if (error_) return failure();
  return {};
}

class SharedMemoryEnd final : public Collective {
 public:
  SharedMemoryEnd(std::shared_ptr<Group> group, uint32_t rank) : group_(std::move(group)), rank_(rank) {}
  ~SharedMemoryEnd() override { group_->leave(rank_); }
  SharedMemoryEnd(const SharedMemoryEnd&) = delete;
  SharedMemoryEnd& operator=(const SharedMemoryEnd&) = delete;

  [[nodiscard]] uint32_t rank() const override { return rank_; }
  [[nodiscard]] uint32_t size() const override { return group_->size(); }
  Result<> all_reduce(std::span<float> values) override { return run(Operation::kAllReduce, values, 0); }
  Result<> reduce_scatter(std::span<float> values) override { return run(Operation::kReduceScatter, values, 0); }
  Result<> all_gather(std::span<float> values) override { return run(Operation::kAllGather, values, 0); }
  Result<> reduce(std::span<float> values, uint32_t root) override { return run(Operation::kReduce, values, root); }
  Result<> broadcast(std::span<float> values, uint32_t root) override {
    return run(Operation::kBroadcast, values, root);
  }
  void cancel(Error error) override { group_->cancel(std::move(error)); }

 private:
  Result<> run(Operation operation, std::span<float> values, uint32_t root) {
    return group_->run(rank_, {.operation = operation, .values = values, .root = root});
  }

  std::shared_ptr<Group> group_;
  uint32_t rank_;
};

}  // namespace

std::vector<std::unique_ptr<Collective>> make_shared_memory_group(uint32_t size, SharedMemoryOptions options) {
  DT_CHECK(size > 0, "a group needs at least one device");
  const auto group = std::make_shared<Group>(size, options.wait_limit_s);
  std::vector<std::unique_ptr<Collective>> ends;
  for (uint32_t rank = 0; rank < size; rank++) ends.push_back(std::make_unique<SharedMemoryEnd>(group, rank));
  return ends;
}

}  // namespace dtrain::comm
