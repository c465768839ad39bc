#include "cuda/executor/lower_batch_norm.h"

#include "cuda/kernels/batch_norm.h"

namespace dtrain::cuda {

using graph::BatchNorm;
using graph::NodeId;

namespace {

ValueId workspace(Lowering& l, const Map& x) {
  return l.program().scratch(static_cast<size_t>(batch_norm_workspace_bytes(x.type, x.rows(), x.channels)));
}

ValueId counters(Lowering& l, const Map& x) {
  return l.program().counters(batch_norm_counters(x.channels));
}

void emit_statistics(Lowering& l, const Norm& norm, const graph::BatchNorm& op) {
  const Map x = norm.x;
  const ValueId mean = norm.mean, inv_std = norm.inv_std, scratch = workspace(l, x), counts = counters(l, x);
  const ValueId moving_mean = l.statistic(norm.id, BatchNorm::kMean);
  const ValueId moving_var = l.statistic(norm.id, BatchNorm::kVariance);
  l.program().kernel(norm.id, batch_norm_statistics, {{x.value}, {mean, inv_std, moving_mean, moving_var}},
                     [=](const Addresses& at) {
                       return BatchNormStatistics{.type = x.type,
                                                  .rows = x.rows(),
                                                  .channels = x.channels,
                                                  .x = at.in(x),
                                                  .epsilon = op.epsilon,
                                                  .momentum = op.momentum,
                                                  .mean = at.at<float>(mean),
                                                  .inv_std = at.at<float>(inv_std),
                                                  .moving_mean = at.at<float>(moving_mean),
                                                  .moving_var = at.at<float>(moving_var),
                                                  .workspace = at.at(scratch),
                                                  .counters = at.at<uint32_t>(counts)};
                     });
}

void emit_inverse(Lowering& l, const Norm& norm) {
  l.program().kernel(norm.id, batch_norm_inverse, {{norm.variance}, {norm.inv_std}}, [=](const Addresses& at) {
    return BatchNormInverse{.channels = norm.x.channels,
                            .variance = at.at<float>(norm.variance),
                            .epsilon = norm.epsilon,
                            .inv_std = at.at<float>(norm.inv_std)};
  });
}

// The values of a batch normalization. In training, also emits the steps that compute the statistics. A batch
// normalization that does not depend on training gets no such steps, because it computes as in inference.
Norm begin_norm(Lowering& l, NodeId id, const graph::BatchNorm& op) {
  Norm norm{.id = id,
            .epsilon = op.epsilon,
            .x = l.plain_input(id),
            .gamma = op.fix_gamma ? kNoValue : l.weight(id, BatchNorm::kGamma),
            .beta = l.weight(id, BatchNorm::kBeta)};
  if (!l.training() || !l.depends_on_training(id)) {
    norm.mean = l.statistic(id, BatchNorm::kMean);
    norm.variance = l.statistic(id, BatchNorm::kVariance);
    return norm;
  }
  norm.inv_std = l.program().floats(norm.x.channels);
  if (op.global_statistics) {
    norm.global = true;
    norm.mean = l.statistic(id, BatchNorm::kMean);
    norm.variance = l.statistic(id, BatchNorm::kVariance);
    emit_inverse(l, norm);
    norm.variance = kNoValue;  // not used, because inv_std takes its place
    return norm;
  }
  norm.mean = l.program().floats(norm.x.channels);
  emit_statistics(l, norm, op);
  return norm;
}

}  // namespace

void emit_apply(Lowering& l, const Norm& norm, const Map& skip, bool relu, const Map& y, ValueId passed) {
  Uses uses{{norm.x.value, skip.value, norm.mean, norm.inv_std, norm.variance, norm.gamma, norm.beta},
            {y.value, passed}};
  uses.overwrites = {in_place(norm.x, y), in_place(skip, y)};
  l.program().kernel(norm.id, batch_norm_apply, uses, [=](const Addresses& at) {
    return BatchNormApply{.type = norm.x.type,
                          .rows = norm.x.rows(),
                          .channels = norm.x.channels,
                          .x = at.in(norm.x),
                          .skip = at.in(skip),
                          .mean = at.at<float>(norm.mean),
                          .inv_std = at.at<float>(norm.inv_std),
                          .variance = at.at<float>(norm.variance),
                          .epsilon = norm.epsilon,
                          .gamma = at.at<float>(norm.gamma),
                          .beta = at.at<float>(norm.beta),
                          .relu = relu,
                          .y = at.out(y),
                          .zeros = y.zeros,
                          .passed = at.at<uint8_t>(passed)};
  });
}

void emit_norm_backward(Lowering& l, const Norm& norm, const NormGradient& gradient) {
  const ValueId dbeta = l.gradient_of(norm.id, BatchNorm::kBeta);
  // In this case dy has a single image, and gamma is fixed. The gradient of gamma is 0, and its memory is 0 from the
  // beginning.
  if (l.wants_sum(norm.id)) return l.emit_row_sum(norm.id, gradient.dy, dbeta);
  const ValueId dgamma = l.gradient_of(norm.id, BatchNorm::kGamma);
  const NormGradient g = gradient;
  const NodeId input = l.input_node(norm.id);
  const bool wanted = l.wants_gradient(input);
  // Terms of the input's gradient are stored in the form of the input, which may differ from the form of norm.x.
  const Map add = wanted && l.input(norm.id).same_form(norm.x) ? l.take_term(input) : Map{};
  const Map dx = wanted ? l.program().like(norm.x) : Map{};
  const ValueId scratch = workspace(l, norm.x), counts = counters(l, norm.x);
  Uses uses{{norm.x.value, g.y.value, g.passed, g.dy.value, norm.mean, norm.inv_std, norm.gamma, norm.beta, add.value},
            {dx.value, g.dskip.value, dgamma, dbeta}};
  if (wanted) uses.overwrites = {in_place(add, dx), in_place(g.dy, dx)};
  l.program().kernel(norm.id, batch_norm_backward, uses, [=](const Addresses& at) {
    return BatchNormBackward{.type = norm.x.type,
                             .rows = norm.x.rows(),
                             .channels = norm.x.channels,
                             .x = at.in(norm.x),
                             .y = at.in(g.y),
                             .dy = at.in(g.dy),
                             .passed = at.at<uint8_t>(g.passed),
                             .relu = g.relu,
                             .global = norm.global,
                             .mean = at.at<float>(norm.mean),
                             .inv_std = at.at<float>(norm.inv_std),
                             .gamma = at.at<float>(norm.gamma),
                             .beta = at.at<float>(norm.beta),
                             .dgamma = at.at<float>(dgamma),
                             .dbeta = at.at<float>(dbeta),
                             .dskip = at.out(g.dskip),
                             .add = at.in(add),
                             .dx = at.out(dx),
                             .workspace = at.at(scratch),
                             .counters = at.at<uint32_t>(counts)};
  });
  if (wanted) l.contribute(input, dx, true);
}

Lowering::EmitBackward lower_node(Lowering& l, NodeId id, const graph::BatchNorm& op) {
  const Norm norm = begin_norm(l, id, op);
  if (l.fusions().added_by[id] != Fusions::kNone) {
    l.keep_for_sum(norm);
    return [] {};
  }
  const NodeId relu = l.fusions().relu_after[id];
  const bool fused = relu != Fusions::kNone;
  const NodeId reader = fused ? relu : id;
  const Map y = l.make_output(reader);
  emit_apply(l, norm, {}, fused, y);
  l.set_output(id, y);
  return [&l, norm, reader, fused] {
    const Map dy = l.gradient(reader);
    if (dy.exists()) emit_norm_backward(l, norm, {.dy = dy, .relu = fused});
  };
}

}  // namespace dtrain::cuda
