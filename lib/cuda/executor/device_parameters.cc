#include "cuda/executor/device_parameters.h"

namespace dtrain::cuda {

namespace {

constexpr size_t kAlignment = 256;

void copy(std::span<float> host, void* device, cudaMemcpyKind kind, cudaStream_t stream) {
  if (host.empty()) return;
  const bool up = kind == cudaMemcpyHostToDevice;
  DT_CUDA(cudaMemcpyAsync(up ? device : host.data(), up ? host.data() : device, host.size_bytes(), kind, stream));
}

}  // namespace

DeviceParameters::DeviceParameters(const graph::Shapes& shapes, exec::Options::Purpose purpose,
                                   std::vector<WeightForm> forms, Memory memory)
    : host_(shapes, purpose, memory == Memory::kReal ? FloatAllocator(pinned_floats) : allocate_floats),
      forms_(std::move(forms)) {
  const auto make = [&](size_t bytes) {
    return memory == Memory::kReal ? DeviceMemory(bytes) : DeviceMemory::imagined(bytes);
  };
  weights_ = make(host_.view().all_weights.size_bytes());
  gradients_ = make(host_.view().all_gradients.size_bytes());
  statistics_ = make(host_.view().all_statistics.size_bytes());
  if (memory == Memory::kReal) used_ = make_event();
  size_t bytes = 0;
  for (const WeightForm& form : forms_) {
    stored_offset_.push_back(bytes);
    if (!form.is_canonical()) bytes += (form.stored_bytes() + kAlignment - 1) / kAlignment * kAlignment;
  }
  stored_ = make(bytes);
}

size_t DeviceParameters::place_of(size_t parameter) const {
  return flat_interval(host_.view(), parameter, parameter + 1).begin;
}

float* DeviceParameters::gradient(size_t parameter) const {
  return gradients_.bytes() == 0 ? nullptr : static_cast<float*>(gradients_.at(0)) + place_of(parameter);
}

float* DeviceParameters::statistic(size_t index) const {
  const ParameterView& view = host_.view();
  return static_cast<float*>(statistics_.at(0)) + (view.statistics[index].weight.data() - view.all_statistics.data());
}

void* DeviceParameters::stored(size_t parameter) const {
  return forms_[parameter].is_canonical() ? weight(parameter) : stored_.at(stored_offset_[parameter]);
}

ParameterView DeviceParameters::device_view(DeviceArrays* arrays) const {
  const ParameterView& host = host_.view();
  const auto there = [](std::span<float> all, std::span<float> part, const DeviceMemory& memory) -> std::span<float> {
    if (part.empty()) return {};
    return {static_cast<float*>(memory.at(0)) + (part.data() - all.data()), part.size()};
  };
  ParameterView view = host;
  for (ParameterSpan& parameter : view.parameters) {
    parameter.weight = there(host.all_weights, parameter.weight, weights_);
    parameter.gradient = there(host.all_gradients, parameter.gradient, gradients_);
  }
  for (ParameterSpan& s : view.statistics) s.weight = there(host.all_statistics, s.weight, statistics_);
  view.all_weights = there(host.all_weights, host.all_weights, weights_);
  view.all_gradients = there(host.all_gradients, host.all_gradients, gradients_);
  view.all_statistics = there(host.all_statistics, host.all_statistics, statistics_);
  view.device = arrays;
  return view;
}

DeviceParameters::Piece DeviceParameters::gradients(size_t first, size_t end) const {
  const FlatInterval interval = flat_interval(host_.view(), first, end);
  return {static_cast<float*>(gradients_.at(0)) + interval.begin, static_cast<int64_t>(interval.count)};
}

DeviceTable<WeightTensor> DeviceParameters::store_table(size_t first, size_t end) const {
  std::vector<WeightTensor> tensors;
  std::vector<int64_t> counts;
  for (size_t p = first; p < end; p++) {
    const WeightForm& form = forms_[p];
    if (form.is_canonical()) continue;
    tensors.push_back(weight_tensor(form, weight(p), stored(p)));
    counts.push_back(stored_count(tensors.back()));
  }
  return {tensors, counts, conversion_bytes(tensors)};
}

void DeviceParameters::begin_use(cudaStream_t stream) const {
  DT_CUDA(cudaStreamWaitEvent(stream, used_.get(), 0));
}

void DeviceParameters::end_use(cudaStream_t stream) const {
  DT_CUDA(cudaEventRecord(used_.get(), stream));
}

void DeviceParameters::upload_weights(size_t first, size_t end, cudaStream_t stream) const {
  const auto [begin, count] = flat_interval(host_.view(), first, end);
  copy(host_.view().all_weights.subspan(begin, count), weights_at(begin), cudaMemcpyHostToDevice, stream);
}

void DeviceParameters::download_gradients(size_t first, size_t end, cudaStream_t stream) const {
  const auto [begin, count] = flat_interval(host_.view(), first, end);
  copy(host_.view().all_gradients.subspan(begin, count), static_cast<float*>(gradients_.at(0)) + begin,
       cudaMemcpyDeviceToHost, stream);
}

void DeviceParameters::upload_statistics(cudaStream_t stream) const {
  copy(host_.view().all_statistics, statistics_.at(0), cudaMemcpyHostToDevice, stream);
}

void DeviceParameters::download_statistics(cudaStream_t stream) const {
  copy(host_.view().all_statistics, statistics_.at(0), cudaMemcpyDeviceToHost, stream);
}

WeightTensor weight_tensor(const WeightForm& form, float* canonical, void* stored) {
  return {.canonical = canonical,
          .stored = stored,
          .type = form.type,
          .filters = static_cast<int32_t>(form.filters),
          .channels = static_cast<int32_t>(form.channels),
          .taps = static_cast<int32_t>(form.taps),
          .stored_channels = static_cast<int32_t>(form.stored_channels)};
}

}  // namespace dtrain::cuda
