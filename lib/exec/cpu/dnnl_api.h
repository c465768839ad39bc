// The primitives of oneDNN that this backend uses, each created by one function. Only this file depends on the version
// of oneDNN: it is written for version 3 (Debian 13), and adapts version 2 (Debian 12). All primitives use a scratchpad
// that the caller provides, so one arena serves all of them. If oneDNN does not implement a convolution algorithm
// (version 3 has no Winograd on x86), the primitive descriptor is empty. All other functions throw dnnl::error.
#pragma once

#include <oneapi/dnnl/dnnl.hpp>
#include <string>
#include <type_traits>
#include <vector>

#include "graph/graph.h"

namespace dtrain::exec::cpu {

using Md = dnnl::memory::desc;
using Dims = dnnl::memory::dims;

struct ConvolutionSpec {
  dnnl::algorithm algorithm = dnnl::algorithm::convolution_direct;
  Md src, weights, bias, dst;  // bias: empty if there is none
  Dims strides, pad_left, pad_right;
  Dims dilations = {0, 0};  // number of skipped cells between two cells that the kernel reads
  // Whether a forward pass also applies a ReLU: y = max(x (*) w + b, 0), where (*) is the convolution.
  bool relu = false;
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

// Whether oneDNN may lack the primitive. Its descriptor is then empty.
template <class Primitive>
constexpr bool kMayBeMissing = std::is_same_v<Primitive, dnnl::convolution_forward> ||
                               std::is_same_v<Primitive, dnnl::convolution_backward_data> ||
                               std::is_same_v<Primitive, dnnl::convolution_backward_weights>;

#if DNNL_VERSION_MAJOR >= 3

// Whether the backward pass of a batch normalization with a shift requires the argument DNNL_ARG_SHIFT. If the value is
// false, the backward pass fails if it gets that argument.
constexpr bool kBatchNormBackwardTakesShift = false;

inline Dims dims_of(const Md& md) {
  return md.get_dims();
}

inline void append_relu(dnnl::post_ops& after) {
  after.append_eltwise(dnnl::algorithm::eltwise_relu, 0, 0);
}

// Describes a primitive of the forward pass with the arguments of version 3.
template <class Primitive, class... Arguments>
auto describe(const dnnl::engine& engine, const dnnl::primitive_attr& attributes, const Arguments&... arguments) {
  return typename Primitive::primitive_desc(engine, arguments..., attributes, kMayBeMissing<Primitive>);
}
// Describes a primitive of the backward pass of `forward`.
template <class Primitive, class Forward, class... Arguments>
auto describe_backward(const dnnl::engine& engine, const Forward& forward, const Arguments&... arguments) {
  return typename Primitive::primitive_desc(engine, arguments..., forward, user_scratchpad(), kMayBeMissing<Primitive>);
}

inline auto sum_of(const dnnl::engine& engine, const Md& dst, const std::vector<Md>& sources) {
  return dnnl::sum::primitive_desc(engine, dst, std::vector<float>(sources.size(), 1.0f), sources, user_scratchpad());
}
inline auto concat_of(const dnnl::engine& engine, const Md& dst, int axis, const std::vector<Md>& sources) {
  return dnnl::concat::primitive_desc(engine, dst, axis, sources, user_scratchpad());
}

#else

constexpr bool kBatchNormBackwardTakesShift = true;

inline Dims dims_of(const Md& md) {
  return md.dims();
}

inline void append_relu(dnnl::post_ops& after) {
  after.append_eltwise(1, dnnl::algorithm::eltwise_relu, 0, 0);
}

// In version 2, the operation is described first. Most operations have the same arguments as in version 3. The others
// take a single layout for input and output, and pooling takes no dilation.
template <class Primitive>
struct Operation {
  template <class... Arguments>
  static auto of(const Arguments&... arguments) {
    return typename Primitive::desc(arguments...);
  }
};
template <>
struct Operation<dnnl::pooling_forward> {
  static auto of(dnnl::prop_kind kind, dnnl::algorithm algorithm, const Md& src, const Md& dst, const Dims& strides,
                 const Dims& kernel, const Dims& /*dilation*/, const Dims& pad_left, const Dims& pad_right) {
    return dnnl::pooling_forward::desc(kind, algorithm, src, dst, strides, kernel, pad_left, pad_right);
  }
};
template <>
struct Operation<dnnl::pooling_backward> {
  static auto of(dnnl::algorithm algorithm, const Md& src, const Md& dst, const Dims& strides, const Dims& kernel,
                 const Dims& /*dilation*/, const Dims& pad_left, const Dims& pad_right) {
    return dnnl::pooling_backward::desc(algorithm, src, dst, strides, kernel, pad_left, pad_right);
  }
};
template <>
struct Operation<dnnl::batch_normalization_forward> {
  static auto of(dnnl::prop_kind kind, const Md& src, const Md& /*dst*/, float epsilon,
                 dnnl::normalization_flags flags) {
    return dnnl::batch_normalization_forward::desc(kind, src, epsilon, flags);
  }
};
template <>
struct Operation<dnnl::batch_normalization_backward> {
  static auto of(dnnl::prop_kind kind, const Md& diff_src, const Md& /*diff_dst*/, const Md& src, float epsilon,
                 dnnl::normalization_flags flags) {
    return dnnl::batch_normalization_backward::desc(kind, diff_src, src, epsilon, flags);
  }
};
template <>
struct Operation<dnnl::eltwise_forward> {
  static auto of(dnnl::prop_kind kind, dnnl::algorithm algorithm, const Md& src, const Md& /*dst*/, float alpha) {
    return dnnl::eltwise_forward::desc(kind, algorithm, src, alpha);
  }
};
template <>
struct Operation<dnnl::eltwise_backward> {
  static auto of(dnnl::algorithm algorithm, const Md& diff_src, const Md& /*diff_dst*/, const Md& src, float alpha) {
    return dnnl::eltwise_backward::desc(algorithm, diff_src, src, alpha);
  }
};
template <>
struct Operation<dnnl::lrn_forward> {
  static auto of(dnnl::prop_kind kind, dnnl::algorithm algorithm, const Md& src, const Md& /*dst*/, int64_t size,
                 float alpha, float beta, float k) {
    return dnnl::lrn_forward::desc(kind, algorithm, src, size, alpha, beta, k);
  }
};
template <>
struct Operation<dnnl::lrn_backward> {
  static auto of(dnnl::algorithm algorithm, const Md& diff_src, const Md& /*diff_dst*/, const Md& src, int64_t size,
                 float alpha, float beta, float k) {
    return dnnl::lrn_backward::desc(algorithm, src, diff_src, size, alpha, beta, k);
  }
};

template <class Primitive, class... Arguments>
auto describe(const dnnl::engine& engine, const dnnl::primitive_attr& attributes, const Arguments&... arguments) {
  return typename Primitive::primitive_desc(Operation<Primitive>::of(arguments...), attributes, engine,
                                            kMayBeMissing<Primitive>);
}
template <class Primitive, class Forward, class... Arguments>
auto describe_backward(const dnnl::engine& engine, const Forward& forward, const Arguments&... arguments) {
  return typename Primitive::primitive_desc(Operation<Primitive>::of(arguments...), user_scratchpad(), engine, forward,
                                            kMayBeMissing<Primitive>);
}

inline auto sum_of(const dnnl::engine& engine, const Md& dst, const std::vector<Md>& sources) {
  return dnnl::sum::primitive_desc(dst, std::vector<float>(sources.size(), 1.0f), sources, engine, user_scratchpad());
}
inline auto concat_of(const dnnl::engine& engine, const Md& dst, int axis, const std::vector<Md>& sources) {
  return dnnl::concat::primitive_desc(dst, axis, sources, engine, user_scratchpad());
}

#endif

inline auto convolution_forward(const dnnl::engine& engine, const ConvolutionSpec& s) {
  dnnl::primitive_attr attributes = user_scratchpad();
  if (s.relu) {
    dnnl::post_ops after;
    append_relu(after);
    attributes.set_post_ops(after);
  }
  return describe<dnnl::convolution_forward>(engine, attributes, dnnl::prop_kind::forward_training, s.algorithm, s.src,
                                             s.weights, s.bias, s.dst, s.strides, s.dilations, s.pad_left, s.pad_right);
}
inline auto convolution_backward_data(const dnnl::engine& engine, const ConvolutionSpec& s,
                                      const dnnl::convolution_forward::primitive_desc& forward) {
  return describe_backward<dnnl::convolution_backward_data>(engine, forward, s.algorithm, s.src, s.weights, s.dst,
                                                            s.strides, s.dilations, s.pad_left, s.pad_right);
}
inline auto convolution_backward_weights(const dnnl::engine& engine, const ConvolutionSpec& s,
                                         const dnnl::convolution_forward::primitive_desc& forward) {
  return describe_backward<dnnl::convolution_backward_weights>(engine, forward, s.algorithm, s.src, s.weights, s.bias,
                                                               s.dst, s.strides, s.dilations, s.pad_left, s.pad_right);
}
inline auto pooling_forward(const dnnl::engine& engine, const PoolingSpec& s) {
  return describe<dnnl::pooling_forward>(engine, user_scratchpad(), dnnl::prop_kind::forward_training, s.algorithm,
                                         s.src, s.dst, s.strides, s.kernel, Dims{0, 0}, s.pad_left, s.pad_right);
}
inline auto pooling_backward(const dnnl::engine& engine, const PoolingSpec& s,
                             const dnnl::pooling_forward::primitive_desc& forward) {
  return describe_backward<dnnl::pooling_backward>(engine, forward, s.algorithm, s.src, s.dst, s.strides, s.kernel,
                                                   Dims{0, 0}, s.pad_left, s.pad_right);
}
inline auto batch_norm_forward(const dnnl::engine& engine, dnnl::prop_kind kind, const Md& data, float epsilon,
                               dnnl::normalization_flags flags) {
  return describe<dnnl::batch_normalization_forward>(engine, user_scratchpad(), kind, data, data, epsilon, flags);
}
inline auto batch_norm_backward(const dnnl::engine& engine, const Md& data, float epsilon,
                                dnnl::normalization_flags flags,
                                const dnnl::batch_normalization_forward::primitive_desc& forward) {
  return describe_backward<dnnl::batch_normalization_backward>(engine, forward, dnnl::prop_kind::backward, data, data,
                                                               data, epsilon, flags);
}

// The parameter alpha of an element-wise function. In version 3, softrelu has one: ln(1 + exp(alpha x)) / alpha.
inline float alpha_of(dnnl::algorithm algorithm) {
  return algorithm == dnnl::algorithm::eltwise_soft_relu ? 1.0f : 0.0f;
}
inline auto eltwise_forward(const dnnl::engine& engine, dnnl::algorithm algorithm, const Md& data) {
  return describe<dnnl::eltwise_forward>(engine, user_scratchpad(), dnnl::prop_kind::forward_training, algorithm, data,
                                         data, alpha_of(algorithm));
}
inline auto eltwise_backward(const dnnl::engine& engine, dnnl::algorithm algorithm, const Md& data,
                             const dnnl::eltwise_forward::primitive_desc& forward) {
  return describe_backward<dnnl::eltwise_backward>(engine, forward, algorithm, data, data, data, alpha_of(algorithm));
}
inline auto inner_product_forward(const dnnl::engine& engine, const Md& src, const Md& weights, const Md& bias,
                                  const Md& dst) {
  return describe<dnnl::inner_product_forward>(engine, user_scratchpad(), dnnl::prop_kind::forward_training, src,
                                               weights, bias, dst);
}
inline auto inner_product_backward_data(const dnnl::engine& engine, const Md& src, const Md& weights, const Md& dst,
                                        const dnnl::inner_product_forward::primitive_desc& forward) {
  return describe_backward<dnnl::inner_product_backward_data>(engine, forward, src, weights, dst);
}
inline auto inner_product_backward_weights(const dnnl::engine& engine, const Md& src, const Md& weights, const Md& bias,
                                           const Md& dst, const dnnl::inner_product_forward::primitive_desc& forward) {
  return describe_backward<dnnl::inner_product_backward_weights>(engine, forward, src, weights, bias, dst);
}
inline auto response_norm_forward(const dnnl::engine& engine, bool training, const Md& data,
                                  const graph::LocalResponseNorm& op) {
  const auto kind = training ? dnnl::prop_kind::forward_training : dnnl::prop_kind::forward_inference;
  return describe<dnnl::lrn_forward>(engine, user_scratchpad(), kind, dnnl::algorithm::lrn_across_channels, data, data,
                                     op.size, static_cast<float>(op.alpha), static_cast<float>(op.beta),
                                     static_cast<float>(op.k));
}
inline auto response_norm_backward(const dnnl::engine& engine, const Md& data, const graph::LocalResponseNorm& op,
                                   const dnnl::lrn_forward::primitive_desc& forward) {
  return describe_backward<dnnl::lrn_backward>(engine, forward, dnnl::algorithm::lrn_across_channels, data, data, data,
                                               op.size, static_cast<float>(op.alpha), static_cast<float>(op.beta),
                                               static_cast<float>(op.k));
}

// oneDNN's name of the implementation that a primitive uses: "jit_wino_4x3:avx512_core".
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
