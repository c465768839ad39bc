#include "cuda/executor/pass_memory.h"

#include <cuda_runtime_api.h>

#include <new>

#include "cuda/executor/device_table.h"

namespace dtrain::cuda {

namespace {

template <class T>
const T* pointer(const DeviceMemory& memory) {
  return memory.bytes() == 0 ? nullptr : static_cast<const T*>(memory.at(0));
}

template <class T>
void upload(std::span<const T> values, const DeviceMemory& to, cudaStream_t stream) {
  if (values.empty()) return;
  DT_CUDA(cudaMemcpyAsync(to.at(0), values.data(), values.size_bytes(), cudaMemcpyHostToDevice, stream));
}

}  // namespace

BatchMemory::BatchMemory(const exec::Options& options)
    : of_pixels_(options.normalisation != nullptr),
      labels_(static_cast<size_t>(options.batch_size) * sizeof(float)),
      copied_(make_event()) {
  const auto images = static_cast<size_t>(options.batch_size);
  const size_t elements = images * static_cast<size_t>(element_count(options.image));
  images_ = DeviceMemory(elements * (of_pixels_ ? 1 : sizeof(float)));
  if (!of_pixels_) return;
  mirrored_ = DeviceMemory(images);
  const Normalisation& normalisation = *options.normalisation;
  factor_ = device_copy(normalisation.factor());
  if (normalisation.mean_image() != nullptr) {
    mean_image_ = device_copy(*normalisation.mean_image());
  } else {
    mean_ = device_copy(normalisation.mean());
  }
}

void BatchMemory::stage(const Batch& batch, cudaStream_t stream) {
  upload(batch.data, images_, stream);
  upload(batch.pixels, images_, stream);
  upload(batch.mirrored, mirrored_, stream);
  upload(batch.labels, labels_, stream);
  DT_CUDA(cudaEventRecord(copied_.get(), stream));
}

void BatchMemory::await() const {
  DT_CUDA(cudaEventSynchronize(copied_.get()));
}

DeviceImages BatchMemory::images() const {
  if (!of_pixels_) return {.numbers = pointer<float>(images_)};
  return {.pixels = pointer<uint8_t>(images_),
          .mirrored = pointer<uint8_t>(mirrored_),
          .mean = pointer<float>(mean_),
          .mean_image = pointer<float>(mean_image_),
          .factor = pointer<float>(factor_)};
}

size_t BatchMemory::bytes() const {
  size_t bytes = 0;
  for (const DeviceMemory* memory : {&images_, &mirrored_, &labels_, &mean_, &mean_image_, &factor_}) {
    bytes += memory->bytes();
  }
  return bytes;
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
