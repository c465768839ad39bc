#include "comm/hierarchy.h"

#include <algorithm>
#include <utility>

#include "comm/shared_memory.h"
#include "tensor/buffer.h"

namespace dtrain::comm {
namespace {

// The state that the ends of this process share.
struct Process {
  std::unique_ptr<Collective> group;  // used only by the first device's thread, except for cancel
  Buffer<float> scratch;              // allocated by the first device; the others use it between two barriers
};

class HierarchyEnd final : public Collective {
 public:
  HierarchyEnd(std::shared_ptr<Process> process, std::unique_ptr<Collective> devices)
      : process_(std::move(process)), devices_(std::move(devices)) {}

  [[nodiscard]] uint32_t rank() const override { return process_->group->rank() * devices_->size() + devices_->rank(); }
  [[nodiscard]] uint32_t size() const override { return process_->group->size() * devices_->size(); }
  Result<> all_reduce(std::span<float> values) override;
  Result<> reduce_scatter(std::span<float> values) override;
  Result<> all_gather(std::span<float> values) override;
  Result<> reduce(std::span<float> values, uint32_t root) override;
  Result<> broadcast(std::span<float> values, uint32_t root) override;
  void cancel(Error error) override {
    devices_->cancel(error);
    process_->group->cancel(std::move(error));
  }

 private:
  [[nodiscard]] bool is_first() const { return devices_->rank() == 0; }
  [[nodiscard]] bool is_in_process(uint32_t rank) const { return rank / devices_->size() == process_->group->rank(); }
  [[nodiscard]] size_t padded(size_t elements) const { return part_of(elements, 0, size()).count * size(); }

  // Returns the outcome of a step, and passes an Error on to all other ends.
  Result<> all_hear(Result<> outcome);
  Result<> barrier() { return devices_->broadcast({}, 0); }
  Result<> make_scratch(size_t elements);
  // Sets the first device's scratch to the sum of this process's arrays, which do not change.
  Result<> sum_into_scratch(std::span<float> values);

  std::shared_ptr<Process> process_;
  std::unique_ptr<Collective> devices_;
};

Result<> HierarchyEnd::all_hear(Result<> outcome) {
  if (!outcome) cancel(outcome.error());
  return outcome;
}

// Allocates the scratch. It is padded, so that the parts of a process's devices together are exactly that process's
// part in the group of processes.
Result<> HierarchyEnd::make_scratch(size_t elements) {
  if (is_first() && process_->scratch.size() < padded(elements)) process_->scratch = Buffer<float>(padded(elements));
  DT_TRY_VOID(barrier());
  DT_CHECK(process_->scratch.size() >= padded(elements), "device {} passed {} elements, but device 0 passed fewer",
           devices_->rank(), elements);
  return {};
}

Result<> HierarchyEnd::sum_into_scratch(std::span<float> values) {
  DT_TRY_VOID(make_scratch(values.size()));
  if (!is_first()) return devices_->reduce(values, 0);
  const std::span<float> scratch = process_->scratch.part(0, padded(values.size()));
  std::fill(std::copy(values.begin(), values.end(), scratch.begin()), scratch.end(), 0.0F);
  return devices_->reduce(scratch.first(values.size()), 0);
}

Result<> HierarchyEnd::all_reduce(std::span<float> values) {
  return all_hear([&]() -> Result<> {
    DT_TRY_VOID(devices_->reduce(values, 0));
    if (is_first()) DT_TRY_VOID(process_->group->all_reduce(values));
    return devices_->broadcast(values, 0);
  }());
}

Result<> HierarchyEnd::reduce_scatter(std::span<float> values) {
  return all_hear([&]() -> Result<> {
    DT_TRY_VOID(sum_into_scratch(values));
    if (is_first()) DT_TRY_VOID(process_->group->reduce_scatter(process_->scratch.part(0, padded(values.size()))));
    DT_TRY_VOID(barrier());
    const Part part = part_of(values.size(), rank(), size());
    std::copy_n(process_->scratch.data() + part.begin, part.count, values.data() + part.begin);
    // Waits for the other devices, because the next operation may reallocate the scratch, which they still read.
    return barrier();
  }());
}

Result<> HierarchyEnd::all_gather(std::span<float> values) {
  return all_hear([&]() -> Result<> {
    DT_TRY_VOID(make_scratch(values.size()));
    const Part part = part_of(values.size(), rank(), size());
    std::copy_n(values.data() + part.begin, part.count, process_->scratch.data() + part.begin);
    DT_TRY_VOID(barrier());
    if (is_first()) DT_TRY_VOID(process_->group->all_gather(process_->scratch.part(0, padded(values.size()))));
    DT_TRY_VOID(barrier());
    std::copy_n(process_->scratch.data(), values.size(), values.data());
    return barrier();
  }());
}

Result<> HierarchyEnd::reduce(std::span<float> values, uint32_t root) {
  DT_CHECK(root < size(), "root {} of {}", root, size());
  return all_hear([&]() -> Result<> {
    DT_TRY_VOID(sum_into_scratch(values));
    if (is_first()) {
      DT_TRY_VOID(process_->group->reduce(process_->scratch.part(0, values.size()), root / devices_->size()));
    }
    DT_TRY_VOID(barrier());
    if (rank() == root) std::copy_n(process_->scratch.data(), values.size(), values.data());
    return barrier();
  }());
}

Result<> HierarchyEnd::broadcast(std::span<float> values, uint32_t root) {
  DT_CHECK(root < size(), "root {} of {}", root, size());
  return all_hear([&]() -> Result<> {
    if (is_in_process(root)) DT_TRY_VOID(devices_->broadcast(values, root % devices_->size()));
    if (is_first()) DT_TRY_VOID(process_->group->broadcast(values, root / devices_->size()));
    return is_in_process(root) ? barrier() : devices_->broadcast(values, 0);
  }());
}

}  // namespace

std::vector<std::unique_ptr<Collective>> make_hierarchy(HierarchyOptions options,
                                                        std::unique_ptr<Collective> processes) {
  const auto process = std::make_shared<Process>(Process{std::move(processes), {}});
  std::vector<std::unique_ptr<Collective>> ends;
  for (auto& end : make_shared_memory_group(options.devices, {.wait_limit_s = options.wait_limit_s})) {
    ends.push_back(std::make_unique<HierarchyEnd>(process, std::move(end)));
  }
  return ends;
}

}  // namespace dtrain::comm
