#include "tensor/parameter_memory.h"

#include <algorithm>

#include "tensor/buffer.h"

namespace dtrain {
namespace {

constexpr size_t kFloatsPerLine = 16;

size_t stride_of(const TensorName& tensor) {
  const auto count = static_cast<size_t>(element_count(tensor.shape));
  return (count + kFloatsPerLine - 1) / kFloatsPerLine * kFloatsPerLine;
}

size_t total(const std::vector<TensorName>& tensors) {
  size_t sum = 0;
  for (const TensorName& tensor : tensors) sum += stride_of(tensor);
  return sum;
}

std::span<float> zeros(const std::shared_ptr<float>& memory, size_t count) {
  std::fill_n(memory.get(), count, 0.0F);
  return {memory.get(), count};
}

std::vector<ParameterSpan> spans_of(const std::vector<TensorName>& tensors, std::span<float> values,
                                    std::span<float> gradients) {
  std::vector<ParameterSpan> spans;
  size_t begin = 0;
  for (const TensorName& tensor : tensors) {
    const auto count = static_cast<size_t>(element_count(tensor.shape));
    spans.push_back({tensor.name, tensor.kind, tensor.shape, values.subspan(begin, count),
                     gradients.empty() ? std::span<float>{} : gradients.subspan(begin, count), tensor.rule});
    begin += stride_of(tensor);
  }
  return spans;
}

}  // namespace

std::shared_ptr<float> allocate_floats(size_t count) {
  auto buffer = std::make_shared<Buffer<float>>(count);
  return {buffer, buffer->data()};
}

ParameterMemory::ParameterMemory(const std::vector<TensorName>& parameters, const std::vector<TensorName>& statistics,
                                 bool gradients, const FloatAllocator& allocate)
    : weights_(allocate(total(parameters))),
      gradients_(allocate(gradients ? total(parameters) : 0)),
      statistics_(allocate(total(statistics))) {
  view_.all_weights = zeros(weights_, total(parameters));
  view_.all_gradients = zeros(gradients_, gradients ? total(parameters) : 0);
  view_.all_statistics = zeros(statistics_, total(statistics));
  view_.parameters = spans_of(parameters, view_.all_weights, view_.all_gradients);
  view_.statistics = spans_of(statistics, view_.all_statistics, {});
}

ParameterView without_gradients(ParameterView view) {
  for (ParameterSpan& parameter : view.parameters) parameter.gradient = {};
  view.all_gradients = {};
  return view;
}

}  // namespace dtrain
