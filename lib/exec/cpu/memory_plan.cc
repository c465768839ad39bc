#include "exec/cpu/memory_plan.h"

#include <algorithm>
#include <numeric>

namespace dtrain::exec::cpu {

namespace {

constexpr size_t kAlignment = 64;  // a cache line, and an AVX-512 register

size_t rounded(size_t bytes) {
  return (bytes + kAlignment - 1) / kAlignment * kAlignment;
}

bool overlap(const Lifetime& a, const Lifetime& b) {
  return a.first <= b.last && b.first <= a.last;
}

// Lives of values by root, and which roots were joined because one may take the other's memory.
class Lives {
 public:
  explicit Lives(const Program& program) : program_(program), owner_(program.values().size()), life_(owner_.size()) {
    std::iota(owner_.begin(), owner_.end(), size_t{0});
    for (Lifetime& life : life_) life.first = static_cast<size_t>(-1);
    for (size_t s = 0; s < program.steps().size(); s++) {
      for (const Arg& arg : program.steps()[s].args) use(program.root(arg.value), s);
    }
    for (ValueId v = 0; v < owner_.size(); v++) {
      if (program.values()[v].kept) life_[v].last = program.steps().size();
      life_[program.root(v)].bytes = std::max(life_[program.root(v)].bytes, rounded(program.md(v).get_size()));
    }
  }

  // Joins what the steps allow: the value that dies in a step and the one that is born there.
  void join_in_place() {
    for (size_t s = 0; s < program_.steps().size(); s++) {
      const Step& step = program_.steps()[s];
      for (const ValueId old : step.overwrites) {
        if (join(old, first_write(step), s)) break;
      }
    }
  }

  [[nodiscard]] ValueId owner(ValueId value) const {
    value = program_.root(value);
    while (owner_[value] != value) value = owner_[value];
    return value;
  }
  [[nodiscard]] const Lifetime& life(ValueId owner) const { return life_[owner]; }
  [[nodiscard]] bool in_arena(ValueId value) const {
    const Value& v = program_.values()[value];
    return v.fixed == nullptr && !v.scratchpad && life_[value].first != static_cast<size_t>(-1);
  }

 private:
  void use(ValueId root, size_t step) {
    life_[root].first = std::min(life_[root].first, step);
    life_[root].last = std::max(life_[root].last, step);
  }

  static ValueId first_write(const Step& step) {
    for (const Arg& arg : step.args) {
      if (arg.write) return arg.value;
    }
    return kNoValue;
  }

  bool join(ValueId old, ValueId born, size_t step) {
    const ValueId a = owner(old), b = owner(born);
    if (a == b || !in_arena(a) || !in_arena(b)) return false;
    if (life_[a].last != step || life_[b].first != step || life_[a].bytes != life_[b].bytes) return false;
    owner_[b] = a;
    life_[a].last = life_[b].last;
    return true;
  }

  const Program& program_;
  std::vector<ValueId> owner_;
  std::vector<Lifetime> life_;
};

size_t lowest_free(const Lifetime& life, const std::vector<std::pair<size_t, Lifetime>>& placed) {
  size_t offset = 0;
  for (const auto& [begin, other] : placed) {  // by address
    if (!overlap(life, other)) continue;
    if (begin >= offset + life.bytes) break;
    offset = std::max(offset, begin + other.bytes);
  }
  return offset;
}

}  // namespace

Placement place(std::span<const Lifetime> lifetimes) {
  std::vector<size_t> order(lifetimes.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::stable_sort(order.begin(), order.end(),
                   [&](size_t a, size_t b) { return lifetimes[a].bytes > lifetimes[b].bytes; });

  Placement result{.offset = std::vector<size_t>(lifetimes.size())};
  std::vector<std::pair<size_t, Lifetime>> placed;
  for (const size_t i : order) {
    const size_t offset = lowest_free(lifetimes[i], placed);
    result.offset[i] = offset;
    result.bytes = std::max(result.bytes, offset + rounded(lifetimes[i].bytes));
    const auto at =
        std::upper_bound(placed.begin(), placed.end(), offset, [](size_t o, const auto& p) { return o < p.first; });
    placed.insert(at, {offset, Lifetime{lifetimes[i].first, lifetimes[i].last, rounded(lifetimes[i].bytes)}});
  }
  return result;
}

MemoryPlan plan_memory(const Program& program, bool share) {
  Lives lives(program);
  if (share) lives.join_in_place();

  const size_t count = program.values().size();
  std::vector<size_t> index(count, MemoryPlan::kNone);
  std::vector<Lifetime> lifetimes;
  for (ValueId v = 0; v < count; v++) {
    if (program.root(v) != v || lives.owner(v) != v || !lives.in_arena(v)) continue;
    index[v] = lifetimes.size();
    lifetimes.push_back(lives.life(v));
    if (!share) lifetimes.back().first = 0, lifetimes.back().last = program.steps().size();
  }
  const Placement placement = place(lifetimes);

  MemoryPlan plan{.offset = std::vector<size_t>(count, MemoryPlan::kNone), .arena_bytes = placement.bytes};
  for (ValueId v = 0; v < count; v++) {
    const Value& value = program.values()[v];
    if (value.scratchpad) plan.scratchpad_bytes = std::max(plan.scratchpad_bytes, value.md.get_size());
    const size_t i = index[lives.owner(v)];
    if (i != MemoryPlan::kNone) plan.offset[v] = placement.offset[i];
  }
  return plan;
}

}  // namespace dtrain::exec::cpu
