// Where the values of a program lie: one arena, in which values whose lives do not overlap share addresses. Programs of
// any backend: here a value is a number of bytes, and a step what it reads and writes.
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <vector>

namespace dtrain::exec {

// A piece of memory that is needed from step `first` to step `last`, both included.
struct Lifetime {
  size_t first = 0, last = 0, bytes = 0;
};

struct Placement {
  std::vector<size_t> offset;  // by lifetime, multiples of the alignment
  size_t bytes = 0;            // of the whole arena
};

// Largest first, each at the lowest address that is free during its whole life. Never more than the sum of the bytes;
// within a few percent of the largest sum alive at once on our networks.
Placement place(std::span<const Lifetime> lifetimes, size_t alignment = 64);

struct MemoryValue {
  size_t bytes = 0;
  std::optional<size_t> alias_of{};  // another description of that value's memory, or of a part of it
  bool outside = false;              // of memory that is not planned here: no place in the arena
  bool kept = false;                 // read by the caller after the last step
};

struct MemoryStep {
  std::vector<size_t> uses;             // the values that it reads or writes
  std::optional<size_t> first_write{};  // may take the memory of one of these, if its life ends here:
  std::vector<size_t> overwrites = {};
};

struct MemoryPlan {
  static constexpr size_t kNone = static_cast<size_t>(-1);
  std::vector<size_t> offset;  // by value; kNone for those outside, aliases have their root's
  size_t arena_bytes = 0;
};

// share: values may use each other's memory when it is free again. Without it every value keeps its own for ever.
MemoryPlan plan_memory(std::span<const MemoryValue> values, std::span<const MemoryStep> steps, bool share,
                       size_t alignment = 64);

}  // namespace dtrain::exec
