#include "exec/rounding.h"

#include <algorithm>
#include <cmath>

#include "base/overloaded.h"
#include "exec/norm.h"

namespace dtrain::exec {

namespace {

using graph::NodeId;

double count(std::span<const double> x) {
  return static_cast<double>(std::max<size_t>(x.size(), 1));
}
double rms(std::span<const double> x) {
  return norm(x) / std::sqrt(count(x));
}

// The tensors and sizes of one node that the formulas use.
struct Tensors {
  std::span<const double> x, w, y, dy;
  double images, channels;
};

// The argument that every operator with parameters multiplies with its input.
constexpr size_t kWeight = graph::Convolution::kWeight;
static_assert(kWeight == graph::FullyConnected::kWeight && kWeight == graph::BatchNorm::kGamma);

Tensors tensors_of(const graph::Graph& graph, Reference& reference, NodeId node) {
  const std::vector<NodeId>& inputs = graph.node(node).data_inputs;
  const Shape& shape = reference.shapes().output[node];
  return {inputs.empty() ? std::span<const double>{} : reference.output(inputs[0]),
          reference.parameter(node, kWeight),
          reference.output(node),
          reference.gradient(node),
          static_cast<double>(reference.batch_size()),
          static_cast<double>(shape[0])};
}

// The number of terms in the sum for one output of a layer with weights [outputs, ...].
double fan_in(const Tensors& t) {
  return count(t.w) / t.channels;
}
// The number of positions, over all images, at which a layer uses each of its weights.
double positions(const Tensors& t) {
  return count(t.y) / t.channels;
}

double window(const graph::Pooling& op, const Tensors& t) {
  return op.global ? count(t.x) / count(t.y) : static_cast<double>(op.kernel_h * op.kernel_w);
}

// How many times larger the result of a pooling is than an average: the window's area for a sum, otherwise 1.
double sum_factor(const graph::Pooling& op, const Tensors& t) {
  return op.kind == graph::Pooling::Kind::kSum ? window(op, t) : 1;
}

// The norm of x after each channel is multiplied by the factor of the batch normalization.
double normalised_norm(const graph::BatchNorm& op, const Tensors& t, Reference& reference, NodeId node,
                       std::span<const double> x) {
  const std::span<const double> inv_std = reference.statistics(node).inv_std;
  const size_t channels = inv_std.size(), map = t.y.size() / channels / static_cast<size_t>(t.images);
  double sum = 0;
  for (size_t i = 0; i < x.size(); i++) {
    const size_t c = i / map % channels;
    const double scaled = x[i] * inv_std[c] * (op.fix_gamma ? 1.0 : t.w[c]);
    sum += scaled * scaled;
  }
  return std::sqrt(sum);
}

// The number of terms of a sum that the error of an activation counts as. exp and log1p of vector libraries are
// accurate to a few units in the last place, not to half a unit.
double activation_terms(const graph::Activation& op) {
  return op.kind == graph::Activation::Kind::kRelu ? 1 : 16;
}

// Like activation_terms, for local response normalization: powers are accurate to a few units in the last place, and
// the errors of their arguments add up.
double response_terms(const graph::LocalResponseNorm& op) {
  return 16 + static_cast<double>(op.size);
}

// The factor by which rounding errors of a sampled position grow: a position is measured in cells of the map, so its
// error grows with the map's size.
double reach(const graph::Graph& graph, Reference& reference, NodeId node) {
  const Shape& map = reference.shapes().output[graph.node(node).data_inputs[0]];
  return static_cast<double>(std::max(map[1], map[2]));
}

}  // namespace

void Rounding::add(const Rounding& summand) {
  scale = std::hypot(scale, summand.scale);
  length += summand.length;
}

Rounding output_rounding(const graph::Graph& graph, Reference& reference, NodeId node) {
  const Tensors t = tensors_of(graph, reference, node);
  const auto linear = [&] {
    return Rounding{rms(t.x) * norm(t.w) / std::sqrt(t.channels) * std::sqrt(count(t.y)), fan_in(t)};
  };
  return std::visit(
      Overloaded{[&](const graph::Input&) { return Rounding{}; }, [&](const graph::Convolution&) { return linear(); },
                 [&](const graph::FullyConnected&) { return linear(); },
                 [&](const graph::BatchNorm& op) {
                   return Rounding{normalised_norm(op, t, reference, node, t.x), positions(t)};
                 },
                 [&](const graph::Activation& op) {
                   return Rounding{0, activation_terms(op)};
                 },
                 [&](const graph::Pooling& op) {
                   if (op.kind == graph::Pooling::Kind::kMax) return Rounding{};
                   return Rounding{rms(t.x) * std::sqrt(count(t.y) / window(op, t)) * sum_factor(op, t), window(op, t)};
                 },
                 [&](const graph::Concat&) { return Rounding{}; },
                 [&](const graph::Add&) {
                   double squares = 0;
                   for (const NodeId x : graph.node(node).data_inputs)
                     squares += std::pow(norm(reference.output(x)), 2);
                   return Rounding{std::sqrt(squares), static_cast<double>(graph.node(node).data_inputs.size())};
                 },
                 [&](const graph::Flatten&) { return Rounding{}; }, [&](const graph::Identity&) { return Rounding{}; },
                 [&](const graph::Scale&) { return Rounding{}; }, [&](const graph::Dropout&) { return Rounding{}; },
                 [&](const graph::LocalResponseNorm& op) {
                   return Rounding{0, response_terms(op)};
                 },
                 [&](const graph::SpatialTransformer&) {
                   return Rounding{rms(t.x) * std::sqrt(count(t.y)) * reach(graph, reference, node), 16};
                 },
                 [&](const graph::SoftmaxOutput&) {
                   return Rounding{0, t.channels};
                 }},
      graph.node(node).op);
}

Rounding input_gradient_rounding(const graph::Graph& graph, Reference& reference, NodeId node) {
  const Tensors t = tensors_of(graph, reference, node);
  const auto linear = [&] {
    // The number of products in which each element of x takes part: the number of products in all of y, divided by the
    // number of elements of x.
    return Rounding{norm(t.dy) * norm(t.w) / std::sqrt(t.channels), fan_in(t) * count(t.y) / count(t.x)};
  };
  const auto same = [&] { return Rounding{norm(t.dy), 1}; };
  return std::visit(
      Overloaded{[&](const graph::Convolution&) { return linear(); },
                 [&](const graph::FullyConnected&) { return linear(); },
                 [&](const graph::BatchNorm& op) {
                   return Rounding{normalised_norm(op, t, reference, node, t.dy), positions(t)};
                 },
                 [&](const graph::Activation& op) {
                   return Rounding{norm(t.dy), activation_terms(op)};
                 },
                 [&](const graph::Pooling& op) {
                   if (op.kind == graph::Pooling::Kind::kMax) return Rounding{norm(t.dy), window(op, t)};
                   return Rounding{norm(t.dy) / std::sqrt(window(op, t)) * sum_factor(op, t), window(op, t)};
                 },
                 [&](const graph::Scale& op) {
                   return Rounding{std::abs(op.factor) * norm(t.dy), 1};
                 },
                 [&](const graph::Dropout& op) {
                   return Rounding{norm(t.dy) / (1 - op.rate), 1};
                 },
                 [&](const graph::LocalResponseNorm& op) {
                   return Rounding{norm(t.dy) * std::pow(op.k, -op.beta), response_terms(op)};
                 },
                 // The larger of the errors of the map's gradient and of the transformation's gradient, which sums over
                 // all outputs.
                 [&](const graph::SpatialTransformer&) {
                   const double size = reach(graph, reference, node) * std::max(1.0, 2 * rms(t.x));
                   return Rounding{norm(t.dy) * size, count(t.y) / t.images};
                 },
                 [&](const graph::SoftmaxOutput& op) {
                   return Rounding{std::abs(op.factor(t.images)) * norm(t.y), t.channels};
                 },
                 [&](const graph::Input&) { return same(); }, [&](const graph::Concat&) { return same(); },
                 [&](const graph::Add&) { return same(); }, [&](const graph::Flatten&) { return same(); },
                 [&](const graph::Identity&) { return same(); }},
      graph.node(node).op);
}

Rounding parameter_gradient_rounding(const graph::Graph& graph, Reference& reference, const graph::TensorUse& use) {
  const Tensors t = tensors_of(graph, reference, use.node);
  const bool normalisation = std::holds_alternative<graph::BatchNorm>(graph.node(use.node).op);
  // The gradients of biases, gammas and betas sum dy, multiplied by factors of a size of at most about 1.
  if (normalisation || use.argument > kWeight) return {norm(t.dy), positions(t)};
  return {norm(t.dy) * rms(t.x) * std::sqrt(fan_in(t)), positions(t)};
}

double tolerance(const Rounding& rounding, Type type, bool tf32) {
  constexpr double kUnitRoundoff = 0x1p-24;
  // Twice the error that independent roundings give, because partial sums are rounded too, plus some units in the last
  // place for the operations before and after the sum.
  const double sums = kUnitRoundoff * (8 + 2 * std::sqrt(rounding.length));
  // In a shorter type, weights, terms of gradients and results are rounded once each. These errors do not add up along
  // a sum, because they are independent and small compared with its terms. TF32 rounds factors to as many mantissa bits
  // as float16.
  constexpr double kFloat16 = 0x1p-11, kBfloat16 = 0x1p-8, kRoundings = 3;
  if (type == Type::kFloat32 && !tf32) return sums;
  return sums + kRoundings * (type == Type::kBfloat16 ? kBfloat16 : kFloat16);
}

}  // namespace dtrain::exec
