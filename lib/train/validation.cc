#include "train/validation.h"

namespace dtrain::train {

Result<> validate(int64_t epoch, exec::DeviceGroup& inference, data::Loader& loader, job::Coordinator& coordinator,
                  Metrics& metrics, const std::function<void(int64_t batches, const data::LoadedBatch&)>& seen) {
  metrics.start_epoch();
  loader.start(epoch);
  for (int64_t batches = 1;; batches++) {
    DT_TRY(const data::LoadedBatch* batch, loader.next(), "validating epoch {}", epoch + 1);
    if (batch == nullptr) break;
    DT_TRY_VOID(inference.forward(*batch, exec::no_device_wait));
    DT_TRY_VOID(metrics.add(inference, batch->labels, batch->count));
    seen(batches, *batch);
  }
  DT_TRY(const std::vector<double> sums,
         coordinator.sum(fmt::format("validation of epoch {}", epoch + 1), metrics.sums()));
  return metrics.set_sums(sums);
}

}  // namespace dtrain::train
