#include "cuda/executor/pass_memory.h"

#include <cuda_runtime_api.h>

#include <cstddef>
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

BatchMemory::Place BatchMemory::place_for(const exec::Options& options, size_t labels, bool with_keys) {
  const auto examples = static_cast<size_t>(options.batch_size);
  Place place{.inputs = {},
              .labels = DeviceMemory(examples * labels * sizeof(float)),
              .keys = DeviceMemory(with_keys ? examples * sizeof(uint64_t) : 0)};
  for (const InputForm& form : options.inputs) {
    const size_t elements = examples * static_cast<size_t>(element_count(form.shape));
    const bool pixels = form.normalisation != nullptr;
    place.inputs.push_back({.values = DeviceMemory(elements * (pixels ? 1 : sizeof(float))),
                            .mirrored = DeviceMemory(pixels ? examples : 0)});
  }
  return place;
}

BatchMemory::BatchMemory(const exec::Options& options, size_t labels, bool ahead, bool with_keys)
    : ahead_(ahead),
      same_batch_(options.same_batch),
      current_(place_for(options, labels, with_keys)),
      copied_(make_event()) {
  if (ahead_) next_ = place_for(options, labels, with_keys);
  for (const InputForm& form : options.inputs) {
    InputTables& tables = tables_.emplace_back();
    if (form.normalisation == nullptr) continue;
    const Normalisation& normalisation = *form.normalisation;
    tables.of_pixels = true;
    tables.factor = device_copy(normalisation.factor());
    if (normalisation.mean_image() != nullptr) {
      tables.mean_image = device_copy(*normalisation.mean_image());
    } else {
      tables.mean = device_copy(normalisation.mean());
    }
  }
}

void BatchMemory::stage(const Batch& batch, cudaStream_t stream) {
  const Place& to = ahead_ ? next_ : current_;
  for (size_t i = 0; i < to.inputs.size() && !is_there_; i++) {
    upload(batch.inputs[i].floats, to.inputs[i].values, stream);
    upload(batch.inputs[i].pixels, to.inputs[i].values, stream);
    upload(batch.inputs[i].mirrored, to.inputs[i].mirrored, stream);
  }
  if (!is_there_) upload(batch.labels, to.labels, stream);
  is_there_ = same_batch_;
  if (to.keys.bytes() != 0) upload(batch.keys, to.keys, stream);
  DT_CUDA(cudaEventRecord(copied_.get(), stream));
}

void BatchMemory::take(cudaStream_t stream) {
  if (!ahead_) return;
  const auto copy = [&](const DeviceMemory& from, const DeviceMemory& to) {
    if (from.bytes() == 0) return;
    DT_CUDA(cudaMemcpyAsync(to.at(0), from.at(0), from.bytes(), cudaMemcpyDeviceToDevice, stream));
  };
  for (size_t i = 0; i < next_.inputs.size(); i++) {
    copy(next_.inputs[i].values, current_.inputs[i].values);
    copy(next_.inputs[i].mirrored, current_.inputs[i].mirrored);
  }
  copy(next_.labels, current_.labels);
  copy(next_.keys, current_.keys);
}

std::vector<DeviceInput> BatchMemory::inputs() const {
  std::vector<DeviceInput> inputs;
  for (size_t i = 0; i < tables_.size(); i++) {
    const InputPlace& place = current_.inputs[i];
    const InputTables& tables = tables_[i];
    inputs.push_back(tables.of_pixels ? DeviceInput{.pixels = pointer<uint8_t>(place.values),
                                                    .mirrored = pointer<uint8_t>(place.mirrored),
                                                    .mean = pointer<float>(tables.mean),
                                                    .mean_image = pointer<float>(tables.mean_image),
                                                    .factor = pointer<float>(tables.factor)}
                                      : DeviceInput{.floats = pointer<float>(place.values)});
  }
  return inputs;
}

const uint64_t* BatchMemory::keys() const {
  return pointer<uint64_t>(current_.keys);
}

size_t BatchMemory::bytes() const {
  size_t bytes = 0;
  for (const Place* place : {&current_, &next_}) {
    bytes += place->labels.bytes() + place->keys.bytes();
    for (const InputPlace& input : place->inputs) bytes += input.values.bytes() + input.mirrored.bytes();
  }
  for (const InputTables& tables : tables_) {
    bytes += tables.mean.bytes() + tables.mean_image.bytes() + tables.factor.bytes();
  }
  return bytes;
}

LossScaleMemory::LossScaleMemory() : host_((1 + StoreStream::kTurns) * sizeof(LossScale)), device_(sizeof(LossScale)) {
  new (host_.data()) LossScale[1 + StoreStream::kTurns];
  const CudaStream stream = make_stream();
  DT_CUDA(cudaMemcpyAsync(device(), host(), sizeof(LossScale), cudaMemcpyHostToDevice, stream.get()));
  DT_CUDA(cudaStreamSynchronize(stream.get()));
}

// Copies the scale and the number of good steps, but not the number of skipped steps, which the device counts.
void LossScaleMemory::upload(cudaStream_t stream) {
  if (requested_ == on_device_) return;
  on_device_ = requested_;
  host()[0] = {.scale = static_cast<float>(requested_.scale),
               .inverse = static_cast<float>(1 / requested_.scale),
               .good_steps = static_cast<uint32_t>(requested_.good_steps)};
  static_assert(offsetof(LossScale, scale) == 0 && offsetof(LossScale, good_steps) < offsetof(LossScale, nonfinite));
  DT_CUDA(cudaMemcpyAsync(device(), host(), offsetof(LossScale, nonfinite), cudaMemcpyHostToDevice, stream));
}

void LossScaleMemory::download(size_t turn, cudaStream_t stream) {
  DT_CUDA(cudaMemcpyAsync(&host()[1 + turn], device(), sizeof(LossScale), cudaMemcpyDeviceToHost, stream));
}

void LossScaleMemory::take_download(size_t turn) {
  taken_ = turn;
  on_device_ = {downloaded().scale, int64_t{downloaded().good_steps}};
  requested_ = on_device_;
}

}  // namespace dtrain::cuda
