// What devices do together: sums and copies over arrays that each of them has. One interface for the devices of one
// process (shared_memory.h), for processes (gloo.h) and for both (hierarchy.h). distributed.md 1.2, R-S2, R-S4.
//
// A group has `size()` ranks. All of them call the same operations in the same order, with arrays of the same length.
// Between a rank's call and its return its array belongs to the group: others read and write it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "base/error.h"

namespace dtrain::comm {

// Elements [begin, begin + count) of an array.
struct Part {
  size_t begin = 0;
  size_t count = 0;
};

// What rank `rank` of `size` owns of an array after reduce_scatter: stride = ceil(elements / size), so the last ranks
// may have less, or nothing.
constexpr Part part_of(size_t elements, uint32_t rank, uint32_t size) {
  const size_t stride = (elements + size - 1) / size;
  const size_t begin = stride * rank < elements ? stride * rank : elements;
  return {begin, elements - begin < stride ? elements - begin : stride};
}

// One rank's end of a group. One thread at a time calls it, but for cancel. Errors: Code::kPeerLost names the rank that
// did not come within the group's limit; what cancel() was given. After an Error the group is of no further use, and
// the arrays hold anything.
class Collective {
 public:
  virtual ~Collective() = default;
  [[nodiscard]] virtual uint32_t rank() const = 0;
  [[nodiscard]] virtual uint32_t size() const = 0;

  // Everybody's array becomes the sum of all.
  virtual Result<> all_reduce(std::span<float> values) = 0;
  // The rank's part (part_of) of its array becomes the sum of that part of all. The rest of the array: as it was.
  virtual Result<> reduce_scatter(std::span<float> values) = 0;
  // Each rank's part goes to all.
  virtual Result<> all_gather(std::span<float> values) = 0;
  // The root's array becomes the sum of all; the others' stay as they were.
  virtual Result<> reduce(std::span<float> values, uint32_t root) = 0;
  // The root's array goes to all.
  virtual Result<> broadcast(std::span<float> values, uint32_t root) = 0;

  // From any thread, on any rank: every operation of the group's ranks in this process, open or to come, returns
  // `error`. The first one counts.
  virtual void cancel(Error error) = 0;
};

}  // namespace dtrain::comm
