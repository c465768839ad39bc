#include "tensor/parameters.h"

#include <algorithm>

namespace dtrain {

FlatInterval flat_interval(const ParameterView& view, size_t first, size_t end) {
  DT_CHECK(first < end && end <= view.parameters.size(),
           "the range from parameter {} to {} is not within the {} parameters", first, end, view.parameters.size());
  DT_CHECK(!view.all_weights.empty(), "the parameters are not contiguous in memory");
  const auto place = [&](size_t index) {
    return index == view.parameters.size()
               ? view.all_weights.size()
               : static_cast<size_t>(view.parameters[index].weight.data() - view.all_weights.data());
  };
  return {place(first), place(end) - place(first)};
}

Result<> read_array(DeviceArrays* device, std::span<const float> from, std::span<float> on_host) {
  if (device != nullptr) return device->read(from, on_host);
  std::copy(from.begin(), from.end(), on_host.begin());
  return {};
}

Result<> write_array(DeviceArrays* device, std::span<const float> on_host, std::span<float> to) {
  if (device != nullptr) return device->write(on_host, to);
  std::copy(on_host.begin(), on_host.end(), to.begin());
  return {};
}

Result<> copy_to_device(const ParameterView& host, const ParameterView& device) {
  if (device.device == nullptr) return {};
  DT_TRY_VOID(device.device->write(host.all_weights, device.all_weights));
  return device.device->write(host.all_statistics, device.all_statistics);
}

Result<> copy_to_host(const ParameterView& device, const ParameterView& host) {
  if (device.device == nullptr) return {};
  DT_TRY_VOID(device.device->read(device.all_weights, host.all_weights));
  return device.device->read(device.all_statistics, host.all_statistics);
}

}  // namespace dtrain
