#include "tensor/parameter_memory.h"

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

std::vector<ParameterSpan> spans_of(const std::vector<TensorName>& tensors, Buffer<float>& values,
                                    Buffer<float>& gradients) {
  std::vector<ParameterSpan> spans;
  size_t begin = 0;
  for (const TensorName& tensor : tensors) {
    const auto count = static_cast<size_t>(element_count(tensor.shape));
    spans.push_back({tensor.name, tensor.shape, values.part(begin, count),
                     gradients.size() > 0 ? gradients.part(begin, count) : std::span<float>{}});
    begin += stride_of(tensor);
  }
  return spans;
}

}  // namespace

ParameterMemory::ParameterMemory(const std::vector<TensorName>& parameters, const std::vector<TensorName>& statistics,
                                 bool gradients)
    : weights_(total(parameters)), gradients_(gradients ? total(parameters) : 0), statistics_(total(statistics)) {
  Buffer<float> none;
  view_.parameters = spans_of(parameters, weights_, gradients_);
  view_.statistics = spans_of(statistics, statistics_, none);
  view_.all_weights = weights_.span();
  view_.all_gradients = gradients_.span();
  view_.all_statistics = statistics_.span();
}

ParameterView without_gradients(ParameterView view) {
  for (ParameterSpan& parameter : view.parameters) parameter.gradient = {};
  view.all_gradients = {};
  return view;
}

}  // namespace dtrain
