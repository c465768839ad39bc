#include "exec/memory_plan.h"

#include <algorithm>
#include <numeric>

namespace dtrain::exec {

namespace {

size_t rounded(size_t bytes, size_t alignment) {
  return (bytes + alignment - 1) / alignment * alignment;
}

bool overlap(const Lifetime& a, const Lifetime& b) {
  return a.first <= b.last && b.first <= a.last;
}

// The lifetimes of values by root, and which roots were joined because one takes over the other's memory.
class Lives {
 public:
  Lives(std::span<const MemoryValue> values, std::span<const MemoryStep> steps, size_t alignment)
      : values_(values), steps_(steps), owner_(values.size()), life_(values.size()) {
    std::iota(owner_.begin(), owner_.end(), size_t{0});
    for (Lifetime& life : life_) life.first = static_cast<size_t>(-1);
    for (size_t s = 0; s < steps.size(); s++) {
      for (const size_t value : steps[s].uses) use(root(value), s);
    }
    for (size_t v = 0; v < owner_.size(); v++) {
      if (values[v].kept) life_[root(v)].last = steps.size();
      life_[root(v)].bytes = std::max(life_[root(v)].bytes, rounded(values[v].bytes, alignment));
    }
  }

  // Joins a value that dies in a step with one that is born there, where the step allows it.
  void join_in_place() {
    for (size_t s = 0; s < steps_.size(); s++) {
      for (const size_t old : steps_[s].overwrites) {
        if (steps_[s].first_write && join(old, *steps_[s].first_write, s)) break;
      }
    }
  }

  [[nodiscard]] size_t root(size_t value) const {
    while (values_[value].alias_of) value = *values_[value].alias_of;
    return value;
  }
  [[nodiscard]] size_t owner(size_t value) const {
    value = root(value);
    while (owner_[value] != value) value = owner_[value];
    return value;
  }
  [[nodiscard]] const Lifetime& life(size_t owner) const { return life_[owner]; }
  [[nodiscard]] bool in_arena(size_t root) const {
    return !values_[root].outside && life_[root].first != static_cast<size_t>(-1);
  }

 private:
  void use(size_t root, size_t step) {
    life_[root].first = std::min(life_[root].first, step);
    life_[root].last = std::max(life_[root].last, step);
  }

  bool join(size_t old, size_t born, size_t step) {
    const size_t a = owner(old), b = owner(born);
    if (a == b || !in_arena(a) || !in_arena(b)) return false;
    if (life_[a].last != step || life_[b].first != step || life_[a].bytes != life_[b].bytes) return false;
    owner_[b] = a;
    life_[a].last = life_[b].last;
    return true;
  }

  std::span<const MemoryValue> values_;
  std::span<const MemoryStep> steps_;
  std::vector<size_t> owner_;
  std::vector<Lifetime> life_;
};

size_t lowest_free(const Lifetime& life, const std::vector<std::pair<size_t, Lifetime>>& placed) {
  size_t offset = 0;
  for (const auto& [begin, other] : placed) {  // sorted by address
    if (!overlap(life, other)) continue;
    if (begin >= offset + life.bytes) break;
    offset = std::max(offset, begin + other.bytes);
  }
  return offset;
}

}  // namespace

Placement place(std::span<const Lifetime> lifetimes, size_t alignment) {
  std::vector<size_t> order(lifetimes.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::stable_sort(order.begin(), order.end(),
                   [&](size_t a, size_t b) { return lifetimes[a].bytes > lifetimes[b].bytes; });

  Placement result{.offset = std::vector<size_t>(lifetimes.size())};
  std::vector<std::pair<size_t, Lifetime>> placed;
  for (const size_t i : order) {
    const size_t offset = lowest_free(lifetimes[i], placed);
    result.offset[i] = offset;
    result.bytes = std::max(result.bytes, offset + rounded(lifetimes[i].bytes, alignment));
    const auto at =
        std::upper_bound(placed.begin(), placed.end(), offset, [](size_t o, const auto& p) { return o < p.first; });
    placed.insert(at,
                  {offset, Lifetime{lifetimes[i].first, lifetimes[i].last, rounded(lifetimes[i].bytes, alignment)}});
  }
  return result;
}

MemoryPlan plan_memory(std::span<const MemoryValue> values, std::span<const MemoryStep> steps, bool share,
                       size_t alignment) {
  Lives lives(values, steps, alignment);
  if (share) lives.join_in_place();

  std::vector<size_t> index(values.size(), MemoryPlan::kNone);
  std::vector<Lifetime> lifetimes;
  for (size_t v = 0; v < values.size(); v++) {
    if (lives.root(v) != v || lives.owner(v) != v || !lives.in_arena(v)) continue;
    index[v] = lifetimes.size();
    lifetimes.push_back(lives.life(v));
    if (!share) lifetimes.back().first = 0, lifetimes.back().last = steps.size();
  }
  const Placement placement = place(lifetimes, alignment);

  MemoryPlan plan{.offset = std::vector<size_t>(values.size(), MemoryPlan::kNone), .arena_bytes = placement.bytes};
  for (size_t v = 0; v < values.size(); v++) {
    const size_t i = index[lives.owner(v)];
    if (i != MemoryPlan::kNone) plan.offset[v] = placement.offset[i];
  }
  return plan;
}

}  // namespace dtrain::exec
