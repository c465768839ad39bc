// The sum of one round's gradients of one slice and group, or the mean of its statistics. float32.
#pragma once

#include <cstdint>
#include <map>
#include <span>

#include "kvstore/wire.h"
#include "tensor/buffer.h"

namespace dtrain::kvstore {

// One thread at a time. Memory is taken with the first gradient.
class Accumulator {
 public:
  enum class Order {
    kArrival,  // added up as they come: one buffer
    kRank,     // kept apart, then added up by rank: equal bits whoever comes first; a buffer a rank (R-D3)
  };
  Accumulator(size_t elements, Order order) : elements_(elements), order_(order) {}

  // Elements [first, first + count) of the rank's gradient. The chunks of one gradient come in order, once each.
  void take(uint32_t rank, size_t first, size_t count, Pieces payload);
  // The rank's gradient is whole and counts; `samples` is its weight in a mean.
  void complete(uint32_t rank, uint32_t samples);
  // The rank sends no more in this round; takes back what is not whole. False: it cannot be taken back (kArrival).
  [[nodiscard]] bool drop_partial(uint32_t rank);

  // The sum of all whole gradients; at least one. Good until the next take.
  std::span<const float> total();
  // kRank: the mean of all whole ones, weighted by their samples (all alike if there are none), in double precision.
  // One alone stays as it is to the bit.
  void mean(std::span<float> out) const;  // takes memory
  // Of all whole gradients.
  [[nodiscard]] uint64_t samples() const;
  // The next round begins.
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
  size_t begun_ = 0;                                // kArrival: elements of sum_ that hold something
  std::map<uint32_t, Contribution> contributions_;  // by rank; kArrival: without values
};

}  // namespace dtrain::kvstore
