// The primitives of oneDNN v2 (the version in Debian 12) that this backend uses, each created by one function. All of
// them use a scratchpad that we provide, so one arena serves all of them. If oneDNN has no implementation of a
// convolution algorithm, the primitive descriptor is empty; all other functions throw dnnl::error.
#pragma once

#include <oneapi/dnnl/dnnl.hpp>
#include <string>
#include <vector>

#include "graph/graph.h"

namespace dtrain::exec::cpu {

using Md = dnnl::memory::desc;
using Dims = dnnl::memory::dims;

struct ConvolutionSpec {
  dnnl::algorithm algorithm = dnnl::algorithm::convolution_direct;
  Md src, weights, bias, dst;  // bias: the empty descriptor if there is none
  Dims strides, pad_left, pad_right;
  Dims dilations = {0, 0};  // the cells between two that the kernel reads
  bool relu = false;        // forward: y = max(x (*) w + b, 0)
};

struct PoolingSpec {
  dnnl::algorithm algorithm = dnnl::algorithm::pooling_max;
  Md src, dst;
  Dims strides, kernel, pad_left, pad_right;
};

inline dnnl::primitive_attr user_scratchpad() {
  dnnl::primitive_attr attr;
  attr.set_scratchpad_mode(dnnl::scratchpad_mode::user);
  return attr;
}

inline Dims dims_of(const Md& md) {
  return md.dims();
}

inline auto convolution_forward(const dnnl::engine& engine, const ConvolutionSpec& s) {
  const dnnl::convolution_forward::desc desc(dnnl::prop_kind::forward_training, s.algorithm, s.src, s.weights, s.bias,
                                             s.dst, s.strides, s.dilations, s.pad_left, s.pad_right);
  dnnl::primitive_attr attributes = user_scratchpad();
  if (s.relu) {
    dnnl::post_ops after;
    after.append_eltwise(1, dnnl::algorithm::eltwise_relu, 0, 0);
    attributes.set_post_ops(after);
  }
  return dnnl::convolution_forward::primitive_desc(desc, attributes, engine, true);
}
inline auto convolution_backward_data(const dnnl::engine& engine, const ConvolutionSpec& s,
                                      const dnnl::convolution_forward::primitive_desc& forward) {
  const dnnl::convolution_backward_data::desc desc(s.algorithm, s.src, s.weights, s.dst, s.strides, s.dilations,
                                                   s.pad_left, s.pad_right);
  return dnnl::convolution_backward_data::primitive_desc(desc, user_scratchpad(), engine, forward, true);
}
inline auto convolution_backward_weights(const dnnl::engine& engine, const ConvolutionSpec& s,
                                         const dnnl::convolution_forward::primitive_desc& forward) {
  const dnnl::convolution_backward_weights::desc desc(s.algorithm, s.src, s.weights, s.bias, s.dst, s.strides,
                                                      s.dilations, s.pad_left, s.pad_right);
  return dnnl::convolution_backward_weights::primitive_desc(desc, user_scratchpad(), engine, forward, true);
}
inline auto pooling_forward(const dnnl::engine& engine, const PoolingSpec& s) {
  const dnnl::pooling_forward::desc desc(dnnl::prop_kind::forward_training, s.algorithm, s.src, s.dst, s.strides,
                                         s.kernel, s.pad_left, s.pad_right);
  return dnnl::pooling_forward::primitive_desc(desc, user_scratchpad(), engine);
}
inline auto pooling_backward(const dnnl::engine& engine, const PoolingSpec& s,
                             const dnnl::pooling_forward::primitive_desc& forward) {
  const dnnl::pooling_backward::desc desc(s.algorithm, s.src, s.dst, s.strides, s.kernel, s.pad_left, s.pad_right);
  return dnnl::pooling_backward::primitive_desc(desc, user_scratchpad(), engine, forward);
}
inline auto batch_norm_forward(const dnnl::engine& engine, dnnl::prop_kind kind, const Md& data, float epsilon,
                               dnnl::normalization_flags flags) {
  const dnnl::batch_normalization_forward::desc desc(kind, data, epsilon, flags);
  return dnnl::batch_normalization_forward::primitive_desc(desc, user_scratchpad(), engine);
}
inline auto batch_norm_backward(const dnnl::engine& engine, const Md& data, float epsilon,
                                dnnl::normalization_flags flags,
                                const dnnl::batch_normalization_forward::primitive_desc& forward) {
  const dnnl::batch_normalization_backward::desc desc(dnnl::prop_kind::backward, data, data, epsilon, flags);
  return dnnl::batch_normalization_backward::primitive_desc(desc, user_scratchpad(), engine, forward);
}
inline auto eltwise_forward(const dnnl::engine& engine, dnnl::algorithm algorithm, const Md& data) {
  const dnnl::eltwise_forward::desc desc(dnnl::prop_kind::forward_training, algorithm, data);
  return dnnl::eltwise_forward::primitive_desc(desc, user_scratchpad(), engine);
}
inline auto eltwise_backward(const dnnl::engine& engine, dnnl::algorithm algorithm, const Md& data,
                             const dnnl::eltwise_forward::primitive_desc& forward) {
  const dnnl::eltwise_backward::desc desc(algorithm, data, data);
  return dnnl::eltwise_backward::primitive_desc(desc, user_scratchpad(), engine, forward);
}
inline auto inner_product_forward(const dnnl::engine& engine, const Md& src, const Md& weights, const Md& bias,
                                  const Md& dst) {
  const dnnl::inner_product_forward::desc desc(dnnl::prop_kind::forward_training, src, weights, bias, dst);
  return dnnl::inner_product_forward::primitive_desc(desc, user_scratchpad(), engine);
}
inline auto inner_product_backward_data(const dnnl::engine& engine, const Md& src, const Md& weights, const Md& dst,
                                        const dnnl::inner_product_forward::primitive_desc& forward) {
  const dnnl::inner_product_backward_data::desc desc(src, weights, dst);
  return dnnl::inner_product_backward_data::primitive_desc(desc, user_scratchpad(), engine, forward);
}
inline auto inner_product_backward_weights(const dnnl::engine& engine, const Md& src, const Md& weights, const Md& bias,
                                           const Md& dst, const dnnl::inner_product_forward::primitive_desc& forward) {
  const dnnl::inner_product_backward_weights::desc desc(src, weights, bias, dst);
  return dnnl::inner_product_backward_weights::primitive_desc(desc, user_scratchpad(), engine, forward);
}
inline auto response_norm_forward(const dnnl::engine& engine, bool training, const Md& data,
                                  const graph::LocalResponseNorm& op) {
  const auto kind = training ? dnnl::prop_kind::forward_training : dnnl::prop_kind::forward_inference;
  const dnnl::lrn_forward::desc desc(kind, dnnl::algorithm::lrn_across_channels, data, op.size,
                                     static_cast<float>(op.alpha), static_cast<float>(op.beta),
                                     static_cast<float>(op.k));
  return dnnl::lrn_forward::primitive_desc(desc, user_scratchpad(), engine);
}
inline auto response_norm_backward(const dnnl::engine& engine, const Md& data, const graph::LocalResponseNorm& op,
                                   const dnnl::lrn_forward::primitive_desc& forward) {
  const dnnl::lrn_backward::desc desc(dnnl::algorithm::lrn_across_channels, data, data, op.size,
                                      static_cast<float>(op.alpha), static_cast<float>(op.beta),
                                      static_cast<float>(op.k));
  return dnnl::lrn_backward::primitive_desc(desc, user_scratchpad(), engine, forward);
}
inline auto sum_of(const dnnl::engine& engine, const Md& dst, const std::vector<Md>& sources) {
  return dnnl::sum::primitive_desc(dst, std::vector<float>(sources.size(), 1.0f), sources, engine, user_scratchpad());
}
inline auto concat_of(const dnnl::engine& engine, const Md& dst, int axis, const std::vector<Md>& sources) {
  return dnnl::concat::primitive_desc(dst, axis, sources, engine, user_scratchpad());
}

// oneDNN's name of the implementation that a primitive runs: "jit_wino_4x3:avx512_core".
inline std::string implementation_of(const dnnl::primitive& primitive) {
  const char* name = nullptr;
  const dnnl_status_t status =
      dnnl_primitive_desc_query(primitive.get_primitive_desc(), dnnl_query_impl_info_str, 0, static_cast<void*>(&name));
  return status == dnnl_success && name != nullptr ? name : "";
}

// Like primitive::execute, without the vector that it allocates on each call.
inline void execute(const dnnl::primitive& primitive, const dnnl::stream& stream,
                    const std::vector<dnnl_exec_arg_t>& args) {
  const dnnl_status_t status =
      dnnl_primitive_execute(primitive.get(), stream.get(), static_cast<int>(args.size()), args.data());
  dnnl::error::wrap_c_api(status, "a oneDNN primitive failed");
}

}  // namespace dtrain::exec::cpu
