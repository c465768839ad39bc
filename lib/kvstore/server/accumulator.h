// The float32 sum of the gradients of one round, for one slice and one group; for statistics, their mean.
#pragma once

#include <cstdint>
#include <map>
#include <span>

#include "kvstore/wire/message.h"
#include "tensor/buffer.h"

namespace dtrain::kvstore {

// Not thread-safe. Memory is allocated when the first gradient arrives.
class Accumulator {
 public:
  enum class Order {
    kArrival,  // added in order of arrival, in a single buffer
    kRank,     // one buffer per rank, added in rank order: the same bits whatever the order of arrival
  };
  Accumulator(size_t elements, Order order) : elements_(elements), order_(order) {}

  // Takes elements [first, first + count) of the rank's gradient. The chunks of a gradient come in order, each of them
  // once.
  void take(uint32_t rank, size_t first, size_t count, Pieces payload);
  // Marks the rank's gradient as complete, so that it counts. `samples` is its weight in a mean.
  void complete(uint32_t rank, uint32_t samples);
  // The rank sends nothing more in this round: removes an incomplete gradient. Returns false if that is impossible
  // (kArrival, where part of it is already in the sum).
  [[nodiscard]] bool drop_partial(uint32_t rank);

  // The sum of all complete gradients, of which there must be at least one. Valid until the next take().
  std::span<const float> total();
  // Needs kRank. The mean of all complete contributions, weighted by their samples (equally if all have 0), computed in
  // double precision. A single contribution is returned unchanged, bit for bit.
  void mean(std::span<float> out) const;  // allocates
  // Of all complete gradients.
  [[nodiscard]] uint64_t samples() const;
  // Starts the next round.
  void reset();

 private:
  struct Contribution {
    Buffer<float> values;
    size_t received = 0;
    uint32_t samples = 0;
    bool whole = false;
  };
  size_t elements_;
  Order order_;
  Buffer<float> sum_;                               // kArrival
  size_t begun_ = 0;                                // kArrival: leading elements of sum_ that are valid
  std::map<uint32_t, Contribution> contributions_;  // by rank; with kArrival, the values are empty
};

}  // namespace dtrain::kvstore
