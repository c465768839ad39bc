// How a convolution is described to oneDNN, and which algorithm it gets.
#pragma once

#include <string>

#include "exec/cpu/dnnl_api.h"
#include "graph/graph.h"

namespace dtrain::exec::cpu {

// Whether to use Winograd, F(4x4, 3x3): for 3x3 kernels with stride 1, no groups and at least 32 channels on both
// sides. In 93 measured cases of this kind it was never slower than direct convolution, and up to 2.5 times faster. The
// error grows from 1e-6 to 1e-5 of the output's rms.
bool winograd_fits(const graph::Convolution& op, int64_t channels);

// The dimensions of the weights: [filters, channels/groups, kernel_h, kernel_w]. With several groups, the groups are an
// additional first dimension.
Dims weight_dims(const graph::Convolution& op, int64_t channels);

// The description of a direct convolution in which oneDNN may choose all layouts.
ConvolutionSpec open_convolution(const graph::Convolution& op, const Dims& x, const Dims& y);

struct ConvolutionChoice {
  bool winograd = false;
  bool channels_last = false;
};

// Whether the channels-last layout is better. Layouts with blocks of 16 channels also compute with the padding: 20
// channels to 50 cost as much as 32 to 64. The channels-last layout has no padding and is faster where padding would be
// at least a third of the work: LeNet's second layer takes 7.9 ms instead of 11.3 ms over all directions. It is not
// needed for the few channels of a first layer, which oneDNN does not pad.
bool channels_last_fits(const graph::Convolution& op, int64_t channels);
ConvolutionSpec with_channels_last(ConvolutionSpec spec);

// Whether the implementation is oneDNN's own reference, which is correct but far too slow.
bool is_plain_loop(const std::string& implementation);

// Returns make(spec) for the first algorithm of `choice` that oneDNN supports for these shapes on this processor.
// Direct convolution always exists.
template <class Make>
auto with_algorithm(ConvolutionSpec spec, const ConvolutionChoice& choice, const Make& make) {
  if (choice.channels_last) {
    auto pd = make(with_channels_last(spec));
    if (pd && !is_plain_loop(pd.impl_info_str())) return pd;
  }
  if (choice.winograd) {
    spec.algorithm = dnnl::algorithm::convolution_winograd;
    auto pd = make(spec);
    if (pd) return pd;
  }
  spec.algorithm = dnnl::algorithm::convolution_direct;
  return make(spec);
}

}  // namespace dtrain::exec::cpu
