#include "bench/kv_devices.h"

#include <algorithm>
#include <memory>
#include <vector>

#include "base/waits.h"
#include "bench/timing.h"
#include "comm/shared_memory.h"
#include "kvstore/worker/device_store.h"
#include "role/worker/stores.h"

namespace dtrain::bench {
namespace {

constexpr double kWaitLimitSeconds = 60;

class DeviceBench {
 public:
  DeviceBench(const BenchKvOptions& options, const KvPlan& plan, const std::function<void(std::string_view)>& line)
      : options_(options), plan_(plan), line_(line) {
    result_.options = options;
    result_.bytes = plan.bytes();
    result_.arrays = plan.arrays();
    for (uint32_t device = 0; device < options.devices; device++) {
      arrays_.push_back(std::make_unique<KvArrays>(plan, device));
      const std::span<const float> gradients = arrays_.back()->view().all_gradients;
      gradients_.emplace_back(gradients.begin(), gradients.end());
    }
  }

  Result<BenchKvResult> run() {
    DT_TRY_VOID(make_store());
    if (options_.test_results) reference_ = std::make_unique<KvReference>(plan_, options_.devices);
    std::vector<double> batches;
    std::vector<double> small;
    for (int64_t batch = 0; batch <= options_.num_batches; batch++) {
      DT_TRY(const double seconds, measure(batch));
      if (batch > 0) batches.push_back(seconds);  // batch 0 is only for warm-up, so its time does not count
    }
    for (uint64_t step = 0; step < kSmallRounds; step++) {
      DT_TRY(const double seconds,
             timed([&] { return exchange(plan_.small_bucket(), plan_.small_bucket() + 1, step); }));
      small.push_back(seconds);
    }
    result_.set_times(batches, small);
    return result_;
  }

 private:
  Result<> make_store() {
    DT_TRY(store_,
           kvstore::DeviceStore::create(
               {.update_at = role::update_place(job::store_by_name(options_.store), 1),
                .rule = plan_.rule,
                .bucket_begin = plan_.bucket_begin},
               comm::make_shared_memory_group(options_.devices, {.wait_limit_s = kWaitLimitSeconds}), nullptr, waits_));
    std::vector<ParameterView> views;
    for (const auto& arrays : arrays_) views.push_back(arrays->view());
    return store_->initialize(views, {});
  }

  Result<double> measure(int64_t batch) {
    // Restores the gradients, which the store has overwritten with their sums.
    for (size_t d = 0; d < arrays_.size(); d++) {
      std::ranges::copy(gradients_[d], arrays_[d]->view().all_gradients.begin());
    }
    DT_TRY(const double seconds,
           timed([&] { return exchange(0, plan_.small_bucket(), static_cast<uint64_t>(batch)); }));
    double error = 0;
    if (reference_) {
      reference_->update();
      for (const auto& arrays : arrays_) error = std::max(error, reference_->error(arrays->view()));
      result_.error = std::max(result_.error, error);
    }
    if (batch > 0 && batch % options_.disp_batches == 0) line_(result_.line(batch, seconds, error));
    return seconds;
  }

  // Exchanges the buckets [begin, end): sends the gradients of all devices, beginning with the last bucket, then waits
  // for the new weights.
  Result<> exchange(size_t begin, size_t end, uint64_t step) {
    for (size_t bucket = end; bucket-- > begin;) {
      for (size_t d = 0; d < arrays_.size(); d++) {
        DT_TRY_VOID(store_->gradient_ready({bucket, d}, step, options_.devices));
      }
    }
    for (size_t bucket = begin; bucket < end; bucket++) {
      for (size_t d = 0; d < arrays_.size(); d++) DT_TRY_VOID(store_->wait_for_weights({bucket, d}));
    }
    return {};
  }

  const BenchKvOptions& options_;
  const KvPlan& plan_;
  const std::function<void(std::string_view)>& line_;
  BenchKvResult result_;
  std::vector<std::unique_ptr<KvArrays>> arrays_;  // the arrays of each device, indexed by device
  std::vector<std::vector<float>> gradients_;      // the original gradients, indexed by device
  std::unique_ptr<KvReference> reference_;
  Waits waits_;
  std::unique_ptr<kvstore::DeviceStore> store_;  // must be destroyed before the other members, which its threads use
};

}  // namespace

Result<BenchKvResult> bench_devices(const BenchKvOptions& options, const KvPlan& plan,
                                    const std::function<void(std::string_view)>& line) {
  return DeviceBench(options, plan, line).run();
}

}  // namespace dtrain::bench
