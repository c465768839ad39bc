// The float32 sum of the gradients of one round, for one slice and one group; for statistics, their mean.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <span>

#include "kvstore/server/gradient_buffers.h"
#include "kvstore/wire/payload.h"
#include "tensor/buffer.h"

namespace dtrain::kvstore {

// Not thread-safe. It has memory only while its round has gradients.
class Accumulator {
 public:
  enum class Order {
    kArrival,  // added in order of arrival, in a single buffer
    kRank,     // one buffer per rank, added in rank order: the same bits whatever the order of arrival
  };
  // `buffers` must outlive the object.
  Accumulator(GradientBuffers& buffers, Order order) : buffers_(buffers), order_(order) {}

  // Adds the rank's gradient of this round, which has buffers.elements() values. `samples` is its weight in a mean; 0
  // means that the rank has left the step out: its loss or gradient was not finite, so it contributes zeros. Each rank
  // adds at most one gradient to a round.
  void add(uint32_t rank, uint32_t samples, Pieces gradient);

  // The sum of the round's gradients, of which there must be at least one. Valid until the next add().
  std::span<const float> total();
  // Needs kRank. The mean of all contributions, weighted by their samples (equally if all have 0), computed in double
  // precision. A single contribution is returned unchanged, bit for bit.
  void mean(std::span<float> out) const;  // the call allocates memory
  // The number of samples in all gradients of the round.
  [[nodiscard]] uint64_t samples() const { return samples_; }
  // A rank that has left the step of this round out; nullopt if none has.
  [[nodiscard]] std::optional<uint32_t> left_out_by() const { return left_out_by_; }
  // The rank whose gradient made a value of the sum infinite or NaN; nullopt if all are finite. To be called after
  // total().
  [[nodiscard]] std::optional<uint32_t> spoiled_by() const { return spoiled_by_; }
  // Gives the round's memory back and starts the next round.
  void reset();

 private:
  struct Contribution {
    Buffer<float> values;
    uint32_t samples = 0;
  };
  GradientBuffers& buffers_;
  Order order_;
  // The state of the round:
  uint64_t samples_ = 0;
  size_t gradients_ = 0;
  std::optional<uint32_t> left_out_by_;
  std::optional<uint32_t> spoiled_by_;

  Buffer<float> sum_;  // the sum so far, with kArrival
  // With kRank: the gradients of the round that are not in its sum yet, indexed by rank. total() leaves one, the sum.
  std::map<uint32_t, Contribution> contributions_;
};

}  // namespace dtrain::kvstore
