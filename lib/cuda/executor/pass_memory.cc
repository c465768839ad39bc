#include "cuda/executor/pass_memory.h"

#include <cuda_runtime_api.h>

#include <algorithm>
#include <new>

namespace dtrain::cuda {

namespace {

constexpr size_t kFloatsPerLine = 64;  // 256 bytes, which is what device memory is aligned to

}  // namespace

BatchMemory::BatchMemory(size_t images, size_t labels)
    : labels_at_((images + kFloatsPerLine - 1) / kFloatsPerLine * kFloatsPerLine),
      device_((labels_at_ + labels) * sizeof(float)) {
  for (Slot& slot : slots_) {
    slot.memory = PinnedMemory(device_.bytes());
    slot.copied = make_event();
    std::fill_n(static_cast<float*>(slot.memory.data()), labels_at_ + labels, 0.0F);
  }
}

void BatchMemory::stage(const exec::Batch& batch, cudaStream_t stream) {
  Slot& slot = slots_[next_++ % slots_.size()];
  DT_CUDA(cudaEventSynchronize(slot.copied.get()));
  auto* host = static_cast<float*>(slot.memory.data());
  std::copy(batch.data.begin(), batch.data.end(), host);
  std::copy(batch.labels.begin(), batch.labels.end(), host + labels_at_);
  DT_CUDA(cudaMemcpyAsync(device_.at(0), host, device_.bytes(), cudaMemcpyHostToDevice, stream));
  DT_CUDA(cudaEventRecord(slot.copied.get(), stream));
}

LossScaleMemory::LossScaleMemory() : host_(3 * sizeof(LossScale)), device_(2 * sizeof(LossScale)) {
  new (host_.data()) LossScale[3];
  const CudaStream stream = make_stream();
  DT_CUDA(cudaMemcpyAsync(device(), &host()[1], device_.bytes(), cudaMemcpyHostToDevice, stream.get()));
  DT_CUDA(cudaStreamSynchronize(stream.get()));
}

void LossScaleMemory::upload(cudaStream_t stream) {
  host()[0] = {.scale = static_cast<float>(scale_), .inverse = static_cast<float>(1 / scale_)};
  DT_CUDA(cudaMemcpyAsync(device(), &host()[0], sizeof(LossScale), cudaMemcpyHostToDevice, stream));
}

void LossScaleMemory::download(cudaStream_t stream) {
  DT_CUDA(cudaMemcpyAsync(&host()[1], device(), device_.bytes(), cudaMemcpyDeviceToHost, stream));
}

}  // namespace dtrain::cuda
