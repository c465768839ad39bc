#include "comm/gloo.h"

#include <algorithm>
#include <array>
#include <string_view>
#include <utility>

#include "base/crc32c.h"
#include "comm/links.h"
#include "comm/ordered_sum.h"
#include "tensor/buffer.h"

namespace dtrain::comm {
namespace {

constexpr uint32_t kNobody = UINT32_MAX;

// The number of elements per message of a sum (2 MiB), and the number of segments that are in flight while the first of
// them is summed. Summing 100 MB on two busy cores takes 47 ms with 2 ranks and 123 ms with 4; gloo's ring takes 53 ms
// and 134 ms. Two segments of 1 MiB, as in gloo's ring, take twice as long, because a rank that has to wait for a core
// is too late to keep the connection busy.
constexpr size_t kSegment = size_t{1} << 19;
constexpr size_t kDepth = 4;

// The nth segment of a part.
Part segment_of(Part part, size_t nth) {
  const size_t begin = std::min(nth * kSegment, part.count);
  return {part.begin + begin, std::min(kSegment, part.count - begin)};
}

class GlooGroup final : public Collective {
 public:
  GlooGroup(const GlooOptions& options, std::unique_ptr<Links> links)
      : rank_(options.rank), size_(options.size), links_(std::move(links)), inputs_(options.size) {}

  [[nodiscard]] uint32_t rank() const override { return rank_; }
  [[nodiscard]] uint32_t size() const override { return size_; }
  Result<> all_reduce(std::span<float> values) override;
  Result<> reduce_scatter(std::span<float> values) override;
  Result<> all_gather(std::span<float> values) override;
  Result<> reduce(std::span<float> values, uint32_t root) override;
  Result<> broadcast(std::span<float> values, uint32_t root) override;
  void cancel(Error error) override { links_->cancel(std::move(error)); }

 private:
  using Channel = Links::Channel;
  using Round = Links::Round;

  // The channels for the two exchanges of an operation.
  struct Channels {
    Channel first;
    Channel second;
  };
  Result<Channels> begin(std::string_view operation, size_t elements, uint32_t root);
  [[nodiscard]] Part part(size_t elements, uint32_t rank) const { return part_of(elements, rank, size_); }
  [[nodiscard]] std::span<float> received(uint32_t from, size_t step, size_t count) {
    return received_.part((step % kDepth * size_ + from) * segment_, count);
  }
  static Result<> send(Round& round, uint32_t to, std::span<const float> values) {
    return values.empty() ? Result<>{} : round.send(to, std::as_bytes(values));
  }
  static Result<> receive(Round& round, uint32_t from, std::span<float> values) {
    return values.empty() ? Result<>{} : round.receive(from, std::as_writable_bytes(values));
  }
  static std::span<float> at(std::span<float> values, Part where) { return values.subspan(where.begin, where.count); }

  Result<> sum_own_part(Channel channel, std::span<float> values, std::span<float> sum);
  Result<std::unique_ptr<Round>> post_step(Channel channel, std::span<float> values, size_t step);
  void add_step(std::span<float> values, size_t step, std::span<float> sum);
  Result<std::unique_ptr<Round>> expect_parts(Channel channel, std::span<float> values, uint32_t has_all);
  Result<> share_part(Round& round, std::span<float> values, uint32_t has_all);

  const uint32_t rank_;
  const uint32_t size_;
  std::unique_ptr<Links> links_;
  uint64_t operations_ = 0;
  size_t segment_ = 0;      // number of elements in a segment
  Buffer<float> received_;  // memory for received segments: kDepth of them for each rank
  // In a reduce to another rank: the sum of this rank's own part, because the caller's array must not change.
  Buffer<float> sum_;
  std::vector<const float*> inputs_;  // the arrays that are summed, indexed by rank
};

// Chooses channel numbers that distinguish the operation from all others. They also depend on its kind, length and
// root, so a peer whose call differs in these uses other channels.
Result<GlooGroup::Channels> GlooGroup::begin(std::string_view operation, size_t elements, uint32_t root) {
  constexpr uint64_t kSecond = uint64_t{1} << 63;
  DT_CHECK(root < size_, "root {} of {}", root, size_);
  DT_TRY_VOID(links_->check());
  const std::array<uint64_t, 2> shape = {elements, root};
  const uint32_t check = crc32c(std::as_bytes(std::span(shape)), crc32c(std::as_bytes(std::span(operation))));
  const uint64_t number = (++operations_ << 32) | check;
  return Channels{{operation, number}, {operation, number | kSecond}};
}

// Sums this rank's own part, segment by segment, into `sum`, which has the part's length and may overlap `values`.
Result<> GlooGroup::sum_own_part(Channel channel, std::span<float> values, std::span<float> sum) {
  if (size_ == 1) return {};
  const size_t longest = part(values.size(), 0).count;
  if (segment_ < std::min(longest, kSegment)) {
    segment_ = std::min(longest, kSegment);
    received_ = Buffer<float>(kDepth * size_ * segment_);
  }
  const size_t steps = (longest + kSegment - 1) / kSegment;
  std::array<std::unique_ptr<Round>, kDepth> rounds;
  for (size_t step = 0; step < steps + kDepth; step++) {
    std::unique_ptr<Round>& round = rounds[step % kDepth];
    if (round) {
      DT_TRY_VOID(round->finish());
      add_step(values, step - kDepth, sum);
      round.reset();
    }
    if (step < steps) {
      DT_TRY(round, post_step(channel, values, step));
    }
  }
  return {};
}

// Sends each rank its segment of this step, and receives the values of all other ranks for this rank's own segment.
Result<std::unique_ptr<Links::Round>> GlooGroup::post_step(Channel channel, std::span<float> values, size_t step) {
  std::unique_ptr<Round> round = links_->round(channel);
  const Part own = segment_of(part(values.size(), rank_), step);
  for (uint32_t i = 1; i < size_; i++) {
    const uint32_t peer = (rank_ + i) % size_;  // start at different peers, so that not all send to rank 0 first
    DT_TRY_VOID(receive(*round, peer, received(peer, step, own.count)));
    DT_TRY_VOID(send(*round, peer, at(values, segment_of(part(values.size(), peer), step))));
  }
  return round;
}

void GlooGroup::add_step(std::span<float> values, size_t step, std::span<float> sum) {
  const Part own = part(values.size(), rank_);
  const Part segment = segment_of(own, step);
  if (segment.count == 0) return;
  for (uint32_t rank = 0; rank < size_; rank++) inputs_[rank] = received(rank, step, segment.count).data();
  inputs_[rank_] = values.data() + segment.begin;
  float* const to = sum.data() + (segment.begin - own.begin);
  ordered_sum(inputs_, {&to, 1}, 0, segment.count);
}

// Begins the second exchange of an operation: each rank's part goes to all others, except to the rank `has_all`, which
// already has all parts. The receives are posted before the first exchange. So a rank that leaves in between is
// noticed, and its messages can be stored on arrival without a round trip. This is safe although the first exchange
// still sends the old contents of the array: a rank sends its part only after it has received all of that part from
// this rank.
Result<std::unique_ptr<Links::Round>> GlooGroup::expect_parts(Channel channel, std::span<float> values,
                                                              uint32_t has_all) {
  std::unique_ptr<Round> round = links_->round(channel);
  for (uint32_t i = 1; i < size_ && rank_ != has_all; i++) {
    const uint32_t peer = (rank_ + i) % size_;
    DT_TRY_VOID(receive(*round, peer, at(values, part(values.size(), peer))));
  }
  return round;
}

Result<> GlooGroup::share_part(Round& round, std::span<float> values, uint32_t has_all) {
  for (uint32_t i = 1; i < size_; i++) {
    const uint32_t peer = (rank_ + i) % size_;
    if (peer != has_all) DT_TRY_VOID(send(round, peer, at(values, part(values.size(), rank_))));
  }
  return round.finish();
}

Result<> GlooGroup::all_reduce(std::span<float> values) {
  DT_TRY(const Channels channels, begin("all_reduce", values.size(), 0));
  DT_TRY(const std::unique_ptr<Round> parts, expect_parts(channels.second, values, kNobody));
  DT_TRY_VOID(sum_own_part(channels.first, values, at(values, part(values.size(), rank_))));
  return share_part(*parts, values, kNobody);
}

Result<> GlooGroup::reduce_scatter(std::span<float> values) {
  DT_TRY(const Channels channels, begin("reduce_scatter", values.size(), 0));
  return sum_own_part(channels.first, values, at(values, part(values.size(), rank_)));
}

Result<> GlooGroup::all_gather(std::span<float> values) {
  DT_TRY(const Channels channels, begin("all_gather", values.size(), 0));
  DT_TRY(const std::unique_ptr<Round> parts, expect_parts(channels.second, values, kNobody));
  return share_part(*parts, values, kNobody);
}

Result<> GlooGroup::reduce(std::span<float> values, uint32_t root) {
  DT_TRY(const Channels channels, begin("reduce", values.size(), root));
  const Part own = part(values.size(), rank_);
  if (rank_ == root) {
    DT_TRY(const std::unique_ptr<Round> parts, expect_parts(channels.second, values, kNobody));
    DT_TRY_VOID(sum_own_part(channels.first, values, at(values, own)));
    return parts->finish();
  }
  if (sum_.size() < own.count) sum_ = Buffer<float>(own.count);
  const std::span<float> sum = sum_.part(0, own.count);
  DT_TRY_VOID(sum_own_part(channels.first, values, sum));
  const std::unique_ptr<Round> part_of_root = links_->round(channels.second);
  DT_TRY_VOID(send(*part_of_root, root, sum));
  return part_of_root->finish();
}

// Broadcasts in two exchanges: each rank gets its part from the root, then all ranks share their parts. So the root
// need not send the whole array to every rank.
Result<> GlooGroup::broadcast(std::span<float> values, uint32_t root) {
  DT_TRY(const Channels channels, begin("broadcast", values.size(), root));
  DT_TRY(const std::unique_ptr<Round> parts, expect_parts(channels.second, values, root));
  const std::unique_ptr<Round> from_root = links_->round(channels.first);
  if (rank_ != root) DT_TRY_VOID(receive(*from_root, root, at(values, part(values.size(), rank_))));
  for (uint32_t peer = 0; peer < size_ && rank_ == root; peer++) {
    if (peer != root) DT_TRY_VOID(send(*from_root, peer, at(values, part(values.size(), peer))));
  }
  DT_TRY_VOID(from_root->finish());
  return share_part(*parts, values, root);
}

}  // namespace

Result<std::unique_ptr<Collective>> make_gloo_group(const GlooOptions& options, const PairExchange& exchange) {
  DT_CHECK(options.rank < options.size, "rank {} of {}", options.rank, options.size);
  DT_TRY(std::unique_ptr<Links> links, Links::connect(options, exchange), "connecting rank {} of {} to the others",
         options.rank, options.size);
  return std::make_unique<GlooGroup>(options, std::move(links));
}

}  // namespace dtrain::comm
