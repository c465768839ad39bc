// Collective operations: sums and copies over arrays that every rank of a group has. There is one interface for the
// devices of one process (shared_memory.h), for processes (gloo.h) and for all devices of several processes
// (hierarchy.h).
//
// A group has `size()` ranks. All ranks must call the same operations in the same order, with arrays of the same
// length. From a rank's call until it returns, its array belongs to the group: other ranks read and write it.
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

// The part of an array that rank `rank` of `size` owns after reduce_scatter. All parts have ceil(elements / size)
// elements, except that the last ranks may own less, or nothing.
constexpr Part part_of(size_t elements, uint32_t rank, uint32_t size) {
  const size_t stride = (elements + size - 1) / size;
  const size_t begin = stride * rank < elements ? stride * rank : elements;
  return {begin, elements - begin < stride ? elements - begin : stride};
}

// One rank's end of a group. Not thread-safe, except for cancel. Errors: Code::kPeerLost names the ranks that did not
// take part within the group's time limit. After cancel(), the error is the one that was given to it. After an Error
// the group is unusable and the contents of the arrays are undefined.
class Collective {
 public:
  virtual ~Collective() = default;
  [[nodiscard]] virtual uint32_t rank() const = 0;
  [[nodiscard]] virtual uint32_t size() const = 0;

  // Sets every array to the sum of all arrays.
  virtual Result<> all_reduce(std::span<float> values) = 0;
  // Sets this rank's part (part_of) of its array to the sum of that part over all ranks. The rest of the array does not
  // change.
  virtual Result<> reduce_scatter(std::span<float> values) = 0;
  // Copies each rank's part of its array to all other ranks.
  virtual Result<> all_gather(std::span<float> values) = 0;
  // Sets the root's array to the sum of all arrays; the other arrays do not change.
  virtual Result<> reduce(std::span<float> values, uint32_t root) = 0;
  // Copies the root's array to all other ranks.
  virtual Result<> broadcast(std::span<float> values, uint32_t root) = 0;

  // May be called from any thread, on any rank. Every current and future operation of the group's ranks in this process
  // returns `error`. If cancel is called several times, the first error is kept.
  virtual void cancel(Error error) = 0;
};

}  // namespace dtrain::comm
