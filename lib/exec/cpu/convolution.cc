#include "exec/cpu/convolution.h"

#include "exec/cpu/layout.h"

namespace dtrain::exec::cpu {

bool winograd_fits(const graph::Convolution& op, int64_t channels) {
  constexpr int64_t kChannelsMin = 32;
  return op.kernel_h == 3 && op.kernel_w == 3 && op.stride_h == 1 && op.stride_w == 1 && op.groups == 1 &&
         op.dilation_h == 1 && op.dilation_w == 1 && channels >= kChannelsMin && op.filters >= kChannelsMin;
}

bool channels_last_fits(const graph::Convolution& op, int64_t channels) {
  // Layouts with padded channels are kept while the ratio of executed to needed multiplications is below this.
  constexpr double kWasteMin = 1.5;
  constexpr int64_t kFewChannels = 4;
  const auto padded = [](int64_t c) { return (c + 15) / 16 * 16; };
  const auto computed = static_cast<double>(padded(channels) * padded(op.filters));
  const double waste = computed / static_cast<double>(channels * op.filters);
  return op.groups == 1 && channels >= kFewChannels && waste >= kWasteMin;
}

ConvolutionSpec with_channels_last(ConvolutionSpec spec) {
  spec.src = md_in(Order::kChannelsLast, dims_of(spec.src));
  spec.dst = md_in(Order::kChannelsLast, dims_of(spec.dst));
  return spec;
}

bool is_plain_loop(const std::string& implementation) {
  return implementation.rfind("ref", 0) == 0;
}

Dims weight_dims(const graph::Convolution& op, int64_t channels) {
  if (op.groups == 1) return {op.filters, channels, op.kernel_h, op.kernel_w};
  return {op.groups, op.filters / op.groups, channels / op.groups, op.kernel_h, op.kernel_w};
}

ConvolutionSpec open_convolution(const graph::Convolution& op, const Dims& x, const Dims& y) {
  // Sizes are rounded down, so there may be rows and columns at the bottom and right that no window reaches. They are
  // described as negative padding.
  const int64_t over_h = (y[2] - 1) * op.stride_h + op.extent_h() - x[2] - op.pad_h;
  const int64_t over_w = (y[3] - 1) * op.stride_w + op.extent_w() - x[3] - op.pad_w;
  return {.src = any_md(x),
          .weights = any_md(weight_dims(op, x[1])),
          .bias = op.bias ? plain_md({op.filters}) : Md(),
          .dst = any_md(y),
          .strides = {op.stride_h, op.stride_w},
          .pad_left = {op.pad_h, op.pad_w},
          .pad_right = {over_h, over_w},
          .dilations = {op.dilation_h - 1, op.dilation_w - 1}};
}

}  // namespace dtrain::exec::cpu
