// An executor whose learned tensors are in the host's memory, for stores that sum and update there.
//
// forward copies the weights of each bucket to the device as soon as the store has them. Meanwhile the device runs the
// calls that need only earlier buckets. backward copies the gradients of each bucket to the host and announces the
// bucket, while the device computes the gradients of the next ones. If a worker has several devices, a group sums their
// gradients before they are copied. The moving statistics stay on the device until parameters() is called.
#pragma once

#include <memory>
#include <vector>

#include "comm/collective.h"
#include "cuda/executor/executor.h"

namespace dtrain::cuda {

class HostExecutor final : public CudaExecutor {
 public:
  explicit HostExecutor(Setting setting) : CudaExecutor(std::move(setting)) {}
  ~HostExecutor() override { drain(); }

  Result<> forward(const exec::Batch& batch, const exec::WeightsWait& wait) override;
  Result<> backward(const exec::GradientReady& ready) override;
  const ParameterView& parameters() override;
  bool keep_statistics() override;
  void undo_statistics() override;
  // Implements DeviceModule::sum_gradients for this rank of the group. The group works in store_stream().
  void sum_gradients_over(std::unique_ptr<comm::Collective> group);

 private:
  void prepare() override;
  void begin_forward(const exec::Batch& batch);
  Result<> queue_forward(const exec::WeightsWait& wait);
  void upload_bucket(size_t bucket);
  void download_results();
  void copy_statistics(const DeviceMemory& from, const DeviceMemory& to);
  Result<> queue_backward();
  Result<> sum_gradients(std::span<const size_t> buckets);
  Result<> backward_to_host(const exec::GradientReady& ready);

  ParameterView view_;
  CudaEvent uploaded_;                       // occurs when weights and statistics are on the device
  DeviceMemory kept_statistics_;             // the statistics before the last pass, if keep_statistics() was called
  std::vector<CudaEvent> downloaded_;        // indexed by bucket: occurs when its gradients are on the host
  std::unique_ptr<comm::Collective> group_;  // sums gradients over its ranks before they are copied to the host
};

}  // namespace dtrain::cuda
