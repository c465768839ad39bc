// Places the values of a program in one arena, in which values with disjoint lifetimes may share addresses. Independent
// of the backend: a value is a number of bytes, and a step is the set of values that it reads and writes.
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <vector>

namespace dtrain::exec {

// A piece of memory that is needed from step `first` to step `last`, inclusive.
struct Lifetime {
  size_t first = 0, last = 0, bytes = 0;
};

struct ArenaLayout {
  std::vector<size_t> offset;  // offset of each lifetime's memory in the arena, a multiple of the alignment
  size_t bytes = 0;            // size of the arena
};

// Places the largest lifetimes first, each at the lowest address that is free during its whole lifetime. The arena is
// never larger than the sum of the bytes; for the networks of this program it is within a few percent of the largest
// total that is alive at once. This takes time proportional to the square of the number of lifetimes. If there are more
// than kComparedMax, as only a network from a hostile file has, they are placed in the order of their first steps
// instead; the arena may then be larger.
inline constexpr size_t kComparedMax = 20000;
ArenaLayout place(std::span<const Lifetime> lifetimes, size_t alignment = 64);

struct MemoryValue {
  size_t bytes = 0;
  std::optional<size_t> alias_of{};  // the value whose memory, or part of whose memory, this value views; nullopt: none
  bool outside = false;  // whether the value's memory is not planned here, so that it gets no place in the arena
  bool kept = false;     // whether the caller reads the value after the last step
};

struct MemoryStep {
  std::vector<size_t> uses;  // the values that the step reads or writes
  // The first value that the step writes. It may reuse the memory of one of `overwrites` whose lifetime ends here.
  std::optional<size_t> first_write{};
  std::vector<size_t> overwrites = {};
};

struct MemoryPlan {
  static constexpr size_t kNone = static_cast<size_t>(-1);
  // For each value: its offset in the arena; kNone if it is outside the arena. An alias has the offset of its root.
  std::vector<size_t> offset;
  size_t arena_bytes = 0;
};

// `share`: whether values may reuse each other's memory once it is free. Otherwise every value has its own memory.
MemoryPlan plan_memory(std::span<const MemoryValue> values, std::span<const MemoryStep> steps, bool share,
                       size_t alignment = 64);

}  // namespace dtrain::exec
