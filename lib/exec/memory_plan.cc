#include "exec/memory_plan.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <set>
#include <utility>

namespace dtrain::exec {

namespace {

size_t rounded(size_t bytes, size_t alignment) {
  return (bytes + alignment - 1) / alignment * alignment;
}

bool overlap(const Lifetime& a, const Lifetime& b) {
  return a.first <= b.last && b.first <= a.last;
}

// The lifetimes of values, indexed by root. Roots whose memory is taken over by another root share one lifetime.
class Lives {
 public:
  Lives(std::span<const MemoryValue> values, std::span<const MemoryStep> steps, size_t alignment)
      : values_(values), steps_(steps), root_(roots(values)), owner_(values.size()), life_(values.size()) {
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

  // Lets the first value that a step writes take over the memory of an old value. The step must list the old value in
  // `overwrites`, and must be the last one that uses it.
  void join_in_place() {
    for (size_t s = 0; s < steps_.size(); s++) {
      for (const size_t old : steps_[s].overwrites) {
        if (steps_[s].first_write && join(old, *steps_[s].first_write, s)) break;
      }
    }
  }

  [[nodiscard]] size_t root(size_t value) const { return root_[value]; }
  // The root whose memory the value uses: the value's own root, or the root whose memory join() let that one take over.
  // A root takes over memory only in the first step that uses it, and steps are processed in order, so an owner never
  // gets an owner itself.
  [[nodiscard]] size_t owner(size_t value) const { return owner_[root(value)]; }
  [[nodiscard]] const Lifetime& life(size_t owner) const { return life_[owner]; }
  [[nodiscard]] bool in_arena(size_t root) const {
    return !values_[root].outside && life_[root].first != static_cast<size_t>(-1);
  }

 private:
  // For each value, the value whose memory it finally refers to. A chain of views is followed only once, even if many
  // values share it.
  static std::vector<size_t> roots(std::span<const MemoryValue> values) {
    constexpr size_t kUnknown = MemoryPlan::kNone;
    std::vector<size_t> roots(values.size(), kUnknown), chain;
    for (size_t v = 0; v < values.size(); v++) {
      size_t end = v;
      for (; roots[end] == kUnknown && values[end].alias_of; end = *values[end].alias_of) chain.push_back(end);
      if (roots[end] == kUnknown) roots[end] = end;
      for (const size_t view : chain) roots[view] = roots[end];
      chain.clear();
    }
    return roots;
  }

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
  // root_: the value whose memory a value views; owner_: the root whose memory it uses; indexed by value.
  std::vector<size_t> root_, owner_;
  std::vector<Lifetime> life_;
};

size_t lowest_free(const Lifetime& life, const std::vector<std::pair<size_t, Lifetime>>& placed) {
  size_t offset = 0;
  for (const auto& [begin, other] : placed) {  // the pairs are sorted by address
    if (!overlap(life, other)) continue;
    if (begin >= offset + life.bytes) break;
    offset = std::max(offset, begin + other.bytes);
  }
  return offset;
}

// The gaps of an arena. The arena grows when no gap is large enough.
class Gaps {
 public:
  // Returns the beginning of the smallest gap that is large enough, and takes the space.
  size_t take(size_t bytes) {
    const auto found = by_size_.lower_bound({bytes, 0});
    if (found == by_size_.end()) return std::exchange(end_, end_ + bytes);
    const auto [size, offset] = *found;
    remove(offset, size);
    if (size > bytes) add(offset + bytes, size - bytes);
    return offset;
  }

  void give(size_t offset, size_t bytes) {
    const auto next = by_offset_.lower_bound(offset);
    if (next != by_offset_.end() && next->first == offset + bytes) {
      const size_t more = next->second;
      remove(offset + bytes, more);
      bytes += more;
    }
    const auto after = by_offset_.lower_bound(offset);
    if (after != by_offset_.begin()) {
      const auto [begin, size] = *std::prev(after);
      if (begin + size == offset) {
        remove(begin, size);
        offset = begin;
        bytes += size;
      }
    }
    add(offset, bytes);
  }

  [[nodiscard]] size_t end() const { return end_; }

 private:
  void add(size_t offset, size_t bytes) {
    by_offset_.emplace(offset, bytes);
    by_size_.emplace(bytes, offset);
  }
  void remove(size_t offset, size_t bytes) {
    by_offset_.erase(offset);
    by_size_.erase({bytes, offset});
  }

  std::map<size_t, size_t> by_offset_;
  std::set<std::pair<size_t, size_t>> by_size_;
  size_t end_ = 0;
};

// Places values in the order in which they begin, each in the smallest gap that is large enough. Used if there are too
// many values to compare them with each other.
ArenaLayout place_by_birth(std::span<const Lifetime> lifetimes, size_t alignment) {
  std::vector<size_t> births(lifetimes.size());
  std::iota(births.begin(), births.end(), size_t{0});
  std::vector<size_t> deaths = births;
  std::ranges::stable_sort(births, {}, [&](size_t i) { return lifetimes[i].first; });
  std::ranges::stable_sort(deaths, {}, [&](size_t i) { return lifetimes[i].last; });

  ArenaLayout result{.offset = std::vector<size_t>(lifetimes.size())};
  Gaps gaps;
  auto dead = deaths.begin();
  for (const size_t i : births) {
    for (; lifetimes[*dead].last < lifetimes[i].first; ++dead) {
      const size_t bytes = rounded(lifetimes[*dead].bytes, alignment);
      if (bytes > 0) gaps.give(result.offset[*dead], bytes);
    }
    const size_t bytes = rounded(lifetimes[i].bytes, alignment);
    if (bytes > 0) result.offset[i] = gaps.take(bytes);
  }
  result.bytes = gaps.end();
  return result;
}

}  // namespace

ArenaLayout place(std::span<const Lifetime> lifetimes, size_t alignment) {
  if (lifetimes.size() > kComparedMax) return place_by_birth(lifetimes, alignment);
  std::vector<size_t> order(lifetimes.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::stable_sort(order.begin(), order.end(),
                   [&](size_t a, size_t b) { return lifetimes[a].bytes > lifetimes[b].bytes; });

  ArenaLayout result{.offset = std::vector<size_t>(lifetimes.size())};
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
  const ArenaLayout layout = place(lifetimes, alignment);

  MemoryPlan plan{.offset = std::vector<size_t>(values.size(), MemoryPlan::kNone), .arena_bytes = layout.bytes};
  for (size_t v = 0; v < values.size(); v++) {
    const size_t i = index[lives.owner(v)];
    if (i != MemoryPlan::kNone) plan.offset[v] = layout.offset[i];
  }
  return plan;
}

}  // namespace dtrain::exec
