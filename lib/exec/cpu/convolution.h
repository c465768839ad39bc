// How a convolution node is described to oneDNN, and which algorithm it gets.
#pragma once

#include <string>

#include "exec/cpu/dnnl_api.h"
#include "graph/graph.h"

namespace dtrain::exec::cpu {

// Winograd, F(4x4, 3x3), is taken for 3x3 kernels, stride 1, no groups, at least 32 channels on both sides: never
// slower than direct there in 93 of 93 cases measured, up to 2.5 times faster. Errors grow from 1e-6 to 1e-5 of the
// output's rms.
bool winograd_fits(const graph::Convolution& op, int64_t channels);

// [filters, channels/groups, kernel_h, kernel_w], with the groups as a dimension of their own in front where there are
// any.
Dims weight_dims(const graph::Convolution& op, int64_t channels);

// The descriptor with every layout open, direct.
ConvolutionSpec open_convolution(const graph::Convolution& op, const Dims& x, const Dims& y);

struct ConvolutionChoice {
  bool winograd = false;
  bool channels_last = false;
};

// Blocks of 16 channels compute with the padding too: 20 channels to 50 cost as much as 32 to 64. Channels last have no
// padding, and win where it would be half of the work: LeNet's second layer takes 7.9 ms instead of 11.3 that way, all
// directions. The first layer's few channels are not padded by oneDNN anyway.
bool channels_last_fits(const graph::Convolution& op, int64_t channels);
ConvolutionSpec with_channels_last(ConvolutionSpec spec);

// Whether that implementation is oneDNN's reference: correct and far too slow.
bool is_plain_loop(const std::string& implementation);

// make(spec) with the first of what was chosen that oneDNN has for these shapes on this processor; direct is always
// there.
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
