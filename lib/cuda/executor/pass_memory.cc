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

BatchMemory::BatchMemory(const exec::Options& options, bool ahead, bool with_keys)
    : of_pixels_(options.normalisation != nullptr), ahead_(ahead), copied_(make_event()) {
  const auto images = static_cast<size_t>(options.batch_size);
  const size_t elements = images * static_cast<size_t>(element_count(options.image));
  const auto place = [&] {
    return Place{.images = DeviceMemory(elements * (of_pixels_ ? 1 : sizeof(float))),
                 .mirrored = DeviceMemory(of_pixels_ ? images : 0),
                 .labels = DeviceMemory(images * sizeof(float)),
                 .keys = DeviceMemory(with_keys ? images * sizeof(uint64_t) : 0)};
  };
  current_ = place();
  if (ahead_) next_ = place();
  if (!of_pixels_) return;
  const Normalisation& normalisation = *options.normalisation;
  factor_ = device_copy(normalisation.factor());
  if (normalisation.mean_image() != nullptr) {
    mean_image_ = device_copy(*normalisation.mean_image());
  } else {
    mean_ = device_copy(normalisation.mean());
  }
}

void BatchMemory::stage(const Batch& batch, cudaStream_t stream) {
  const Place& to = ahead_ ? next_ : current_;
  upload(batch.data, to.images, stream);
  upload(batch.pixels, to.images, stream);
  upload(batch.mirrored, to.mirrored, stream);
  upload(batch.labels, to.labels, stream);
  if (to.keys.bytes() != 0) upload(batch.keys, to.keys, stream);
  DT_CUDA(cudaEventRecord(copied_.get(), stream));
}

void BatchMemory::take(cudaStream_t stream) {
  if (!ahead_) return;
  const auto copy = [&](const DeviceMemory& from, const DeviceMemory& to) {
    if (from.bytes() == 0) return;
    DT_CUDA(cudaMemcpyAsync(to.at(0), from.at(0), from.bytes(), cudaMemcpyDeviceToDevice, stream));
  };
  copy(next_.images, current_.images);
  copy(next_.mirrored, current_.mirrored);
  copy(next_.labels, current_.labels);
  copy(next_.keys, current_.keys);
}

void BatchMemory::await() const {
  DT_CUDA(cudaEventSynchronize(copied_.get()));
}

DeviceImages BatchMemory::images() const {
  if (!of_pixels_) return {.numbers = pointer<float>(current_.images)};
  return {.pixels = pointer<uint8_t>(current_.images),
          .mirrored = pointer<uint8_t>(current_.mirrored),
          .mean = pointer<float>(mean_),
          .mean_image = pointer<float>(mean_image_),
          .factor = pointer<float>(factor_)};
}

const uint64_t* BatchMemory::keys() const {
  return pointer<uint64_t>(current_.keys);
}

size_t BatchMemory::bytes() const {
  size_t bytes = 0;
  for (const Place* place : {&current_, &next_}) {
    bytes += place->images.bytes() + place->mirrored.bytes() + place->labels.bytes() + place->keys.bytes();
  }
  return bytes + mean_.bytes() + mean_image_.bytes() + factor_.bytes();
}

LossScaleMemory::LossScaleMemory() : host_(3 * sizeof(LossScale)), device_(2 * sizeof(LossScale)) {
  new (host_.data()) LossScale[3];
  const CudaStream stream = make_stream();
  DT_CUDA(cudaMemcpyAsync(device(), &host()[1], device_.bytes(), cudaMemcpyHostToDevice, stream.get()));
  DT_CUDA(cudaStreamSynchronize(stream.get()));
}

LossScale LossScaleMemory::wished() const {
  return {.scale = static_cast<float>(scale_),
          .inverse = static_cast<float>(1 / scale_),
          .good_steps = good_steps_,
          .skipped = host()[1].skipped};
}

void LossScaleMemory::mark_sums(cudaStream_t stream) {
  DT_CUDA(
      cudaMemcpyAsync(&of_sums()->nonfinite, &device()->nonfinite, sizeof(uint32_t), cudaMemcpyDeviceToDevice, stream));
}

void LossScaleMemory::clear_sums(cudaStream_t stream) {
  DT_CUDA(cudaMemsetAsync(&of_sums()->nonfinite, 0, sizeof(uint32_t), stream));
}

void LossScaleMemory::upload(cudaStream_t stream) {
  host()[0] = wished();
  DT_CUDA(cudaMemcpyAsync(device(), &host()[0], sizeof(LossScale), cudaMemcpyHostToDevice, stream));
}

void LossScaleMemory::download(cudaStream_t stream) {
  DT_CUDA(cudaMemcpyAsync(&host()[1], device(), device_.bytes(), cudaMemcpyDeviceToHost, stream));
}

}  // namespace dtrain::cuda
