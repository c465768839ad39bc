// Where the values of a program lie: one arena, in which values whose lives do not overlap share addresses.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "exec/cpu/program.h"

namespace dtrain::exec::cpu {

// A piece of memory that is needed from step `first` to step `last`, both included.
struct Lifetime {
  size_t first = 0, last = 0, bytes = 0;
};

struct Placement {
  std::vector<size_t> offset;  // by lifetime, multiples of 64
  size_t bytes = 0;            // of the whole arena
};

// Largest first, each at the lowest address that is free during its whole life. Never more than the sum of the bytes;
// within a few percent of the largest sum alive at once on our networks.
Placement place(std::span<const Lifetime> lifetimes);

struct MemoryPlan {
  static constexpr size_t kNone = static_cast<size_t>(-1);
  std::vector<size_t> offset;  // by value; kNone for fixed and scratchpad values, aliases have their root's
  size_t arena_bytes = 0;
  size_t scratchpad_bytes = 0;  // the largest that a step wants
};

// share: values may use each other's memory when it is free again. Without it every value keeps its own for ever.
MemoryPlan plan_memory(const Program& program, bool share);

}  // namespace dtrain::exec::cpu
