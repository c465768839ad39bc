#include "exec/cpu/kernels/elementwise.h"
#include "exec/cpu/layout.h"
#include "exec/cpu/lower.h"

namespace dtrain::exec::cpu {

using graph::BatchNorm;
using graph::NodeId;
using Flags = dnnl::normalization_flags;

namespace {

// The values of a BatchNorm, and of the ReLU after it if both are computed together.
struct Norm {
  NodeId id, reader;  // reader: the node whose output is y, either the BatchNorm itself or the ReLU
  float epsilon;
  Flags flags;
  Dims channels;
  ValueId x, y, gamma, beta, mean, variance;  // gamma: kNoValue if it counts as 1
  ValueId mask = kNoValue;                    // where the ReLU was active; used only in training with a fused ReLU
};

void move_statistics(Lowering& l, const Norm& norm, float momentum) {
  const auto n = norm.channels[0];
  l.program().kernel(norm.id, "moving statistics",
                     [n, momentum](void* const* p) {
                       for (int i = 0; i < 2; i++) {
                         const auto* batch = static_cast<const float*>(p[i]);
                         auto* moving = static_cast<float*>(p[i + 2]);
                         for (int64_t c = 0; c < n; c++) moving[c] = momentum * moving[c] + (1 - momentum) * batch[c];
                       }
                     },
                     {in(norm.mean), in(norm.variance), out(l.weight(norm.id, BatchNorm::kMean, norm.channels)),
                      out(l.weight(norm.id, BatchNorm::kVariance, norm.channels))});
}

void emit_inference(Lowering& l, Norm norm) {
  norm.mean = l.weight(norm.id, BatchNorm::kMean, norm.channels);
  norm.variance = l.weight(norm.id, BatchNorm::kVariance, norm.channels);
  const auto pd = batch_norm_forward(l.engine(), dnnl::prop_kind::forward_inference, l.md(norm.x), norm.epsilon,
                                     norm.flags | Flags::use_global_stats);
  std::vector<Arg> args{in(DNNL_ARG_SRC, norm.x),
                        in(DNNL_ARG_MEAN, norm.mean),
                        in(DNNL_ARG_VARIANCE, norm.variance),
                        in(DNNL_ARG_SHIFT, norm.beta),
                        out(DNNL_ARG_DST, norm.y),
                        out(DNNL_ARG_SCRATCHPAD, l.program().scratchpad(pd.scratchpad_desc()))};
  if (norm.gamma != kNoValue) args.push_back(in(DNNL_ARG_SCALE, norm.gamma));
  l.program().primitive(norm.id, "batch norm", dnnl::batch_normalization_forward(pd), std::move(args), {norm.x});
}

dnnl::batch_normalization_forward::primitive_desc emit_training(Lowering& l, Norm& norm, bool global) {
  auto pd = batch_norm_forward(l.engine(), dnnl::prop_kind::forward_training, l.md(norm.x), norm.epsilon, norm.flags);
  const auto statistic = [&](size_t argument) {
    return global ? l.weight(norm.id, argument, norm.channels) : l.program().tensor(plain_md(norm.channels));
  };
  norm.mean = statistic(BatchNorm::kMean);
  norm.variance = statistic(BatchNorm::kVariance);
  std::vector<Arg> args{in(DNNL_ARG_SRC, norm.x), out(DNNL_ARG_DST, norm.y), in(DNNL_ARG_SHIFT, norm.beta),
                        out(DNNL_ARG_SCRATCHPAD, l.program().scratchpad(pd.scratchpad_desc()))};
  args.push_back(global ? in(DNNL_ARG_MEAN, norm.mean) : out(DNNL_ARG_MEAN, norm.mean));
  args.push_back(global ? in(DNNL_ARG_VARIANCE, norm.variance) : out(DNNL_ARG_VARIANCE, norm.variance));
  if (norm.gamma != kNoValue) args.push_back(in(DNNL_ARG_SCALE, norm.gamma));
  if (norm.reader != norm.id) {
    norm.mask = l.program().tensor(pd.workspace_desc());
    args.push_back(out(DNNL_ARG_WORKSPACE, norm.mask));
  }
  l.program().primitive(norm.id, "batch norm", dnnl::batch_normalization_forward(pd), std::move(args));
  return pd;
}

void emit_backward(Lowering& l, const Norm& norm, const dnnl::batch_normalization_forward::primitive_desc& forward) {
  const Md layout = l.md(norm.x);
  const ValueId dy = l.gradient(norm.reader, layout);
  auto pd = batch_norm_backward(l.engine(), layout, norm.epsilon, norm.flags, forward);
  const ValueId dx = l.program().tensor(layout);
  const ValueId dgamma = l.gradient_of_weight(norm.id, BatchNorm::kGamma, norm.channels);
  std::vector<Arg> args{out(DNNL_ARG_DIFF_SRC, dx),
                        in(DNNL_ARG_SRC, norm.x),
                        in(DNNL_ARG_DIFF_DST, dy),
                        in(DNNL_ARG_MEAN, norm.mean),
                        in(DNNL_ARG_VARIANCE, norm.variance),
                        out(DNNL_ARG_DIFF_SHIFT, l.gradient_of_weight(norm.id, BatchNorm::kBeta, norm.channels)),
                        out(DNNL_ARG_SCRATCHPAD, l.program().scratchpad(pd.scratchpad_desc()))};
  if (kBatchNormBackwardTakesShift) args.push_back(in(DNNL_ARG_SHIFT, norm.beta));
  if (norm.mask != kNoValue) args.push_back(in(DNNL_ARG_WORKSPACE, norm.mask));
  if (norm.gamma != kNoValue) {
    args.push_back(in(DNNL_ARG_SCALE, norm.gamma));
    args.push_back(out(DNNL_ARG_DIFF_SCALE, dgamma));
  }
  l.program().primitive(norm.id, "batch norm backward", dnnl::batch_normalization_backward(pd), std::move(args), {dy});
  if (norm.gamma == kNoValue) {
    l.program().kernel(norm.id, "zero gradient",
                       [n = norm.channels[0]](void* const* p) { fill_zero(static_cast<float*>(p[0]), n); },
                       {out(dgamma)});
  }
  l.contribute(l.input_node(norm.id), dx);
}

}  // namespace

Lowering::EmitBackward lower_node(Lowering& l, NodeId id, const graph::BatchNorm& op) {
  const NodeId reader = l.computed_node(id);
  Flags flags = Flags::use_shift;
  if (!op.fix_gamma) flags = flags | Flags::use_scale;
  if (reader != id) flags = flags | Flags::fuse_norm_relu;
  if (op.global_statistics) flags = flags | Flags::use_global_stats;

  const ValueId x = l.input(id);
  const Dims channels{dims_of(l.md(x))[1]};
  Norm norm{.id = id,
            .reader = reader,
            .epsilon = static_cast<float>(op.epsilon),
            .flags = flags,
            .channels = channels,
            .x = x,
            .y = l.program().tensor(l.md(x)),
            .gamma = op.fix_gamma ? kNoValue : l.weight(id, BatchNorm::kGamma, channels),
            .beta = l.weight(id, BatchNorm::kBeta, channels),
            .mean = kNoValue,
            .variance = kNoValue};
  l.set_output(id, norm.y);
  if (!l.training() || !l.depends_on_training(id)) {
    emit_inference(l, norm);
    return [] {};
  }
  const auto pd = emit_training(l, norm, op.global_statistics);
  if (!op.global_statistics) move_statistics(l, norm, static_cast<float>(op.momentum));
  return [&l, norm, pd] { emit_backward(l, norm, pd); };
}

}  // namespace dtrain::exec::cpu
