// Convolutions, and fully connected layers as convolutions of one pixel.
#include "cuda/executor/lower.h"
#include "cuda/kernels/bias.h"

namespace dtrain::cuda {

using graph::Convolution;
using graph::FullyConnected;
using graph::NodeId;

namespace {

// A fully connected layer is lowered by the same functions as a convolution, which use the argument numbers of a
// convolution.
static_assert(Convolution::kWeight == FullyConnected::kWeight && Convolution::kBias == FullyConnected::kBias);

struct Layer {
  NodeId id;
  const LayerPlans* plans;
  Map x, y;  // x as the plans read it: packed, with padding channels counted as channels
  ValueId w, bias;
};

// The tensors that a plan of a layer reads and writes.
struct Tensors {
  ValueId x, w, y, bias = kNoValue, z = kNoValue;
};

void emit(Lowering& l, NodeId id, const std::shared_ptr<const ConvolutionPlan>& plan, Uses uses, const Tensors& t) {
  const ValueId workspace = l.program().scratch(plan->workspace_bytes());
  l.program().step(id, std::move(uses), [=](const Addresses& at) {
    return plan->bind({at.at(t.x), at.at(t.w), at.at(t.y), at.at(t.bias), at.at(t.z), at.at(workspace)});
  });
}

void emit_forward(Lowering& l, const Layer& layer) {
  const auto& [id, plans, x, y, w, bias] = layer;
  emit(l, id, plans->forward, {{x.value, w, bias}, {y.value}}, {x.value, w, y.value, bias});
}

// Computes layer + z, where z is the other input of the Add that follows. The layer's own output is never stored.
void emit_forward_adding(Lowering& l, const Layer& layer, NodeId add) {
  const auto& [id, plans, x, y, w, own_bias] = layer;
  const size_t other = l.input_node(add, 0) == id ? 1 : 0;
  const Map z = l.packed(add, l.plain_input(add, other));
  const size_t bias_bytes = static_cast<size_t>(plans->shape.op.filters * bytes_of(y.type));
  const ValueId bias = own_bias != kNoValue ? own_bias : l.program().zeros(bias_bytes);
  emit(l, id, plans->forward_adding, {{x.value, w, bias, z.value}, {y.value}}, {x.value, w, y.value, bias, z.value});
}

// Emits the gradient of the layer's bias, unless the activation after it computes it. Nothing is emitted for a bias
// whose effect a batch normalization takes away: its gradient is 0, and the memory of the gradient is 0 from the
// beginning.
void emit_bias_gradient(Lowering& l, const Layer& layer, const Map& dy) {
  if (l.is_centered(layer.id) || l.has_bias_gradient(layer.id)) return;
  const ValueId dbias = l.gradient_of(layer.id, Convolution::kBias);
  if (dbias == kNoValue) return;
  l.emit_row_sum(layer.id, dy, dbias);
}

// Returns the sum of a packed map over its images.
Map sum_of_images(Lowering& l, NodeId id, const Map& map) {
  const Map sum = l.program().map(map.type, 1, map.h, map.w, map.channels, 0);
  l.program().kernel(id, image_sum, {{map.value}, {sum.value}}, [=](const Addresses& at) {
    return ImageSum{.type = map.type,
                    .images = map.n,
                    .elements = map.positions() * map.channels,
                    .x = at.at(map.value),
                    .y = at.at(sum.value)};
  });
  return sum;
}

// Emits the backward pass. make_dx() makes a map in the form of the layer's input, or with a single image if only the
// sum over the images is needed. If another reader of the input has already contributed a gradient of the input, the
// gradient of this layer is added to it.
template <class MakeDx>
void emit_backward(Lowering& l, const Layer& layer, const MakeDx& make_dx) {
  Map dy = l.packed(layer.id, l.gradient(layer.id));
  emit_bias_gradient(l, layer, dy);
  const ValueId dw = l.gradient_of(layer.id, Convolution::kWeight), x = layer.x.value;
  emit(l, layer.id, layer.plans->backward_filter, {{x, dy.value}, {dw}}, {x, dw, dy.value});
  const NodeId input = l.input_node(layer.id);
  if (!l.wants_gradient(input)) return;
  if (l.wants_sum(input)) dy = sum_of_images(l, layer.id, dy);
  const Map term = layer.plans->backward_data_adding == nullptr ? Map{} : l.take_own_term(input);
  const Map dx = term.exists() ? term : make_dx();
  emit(l, layer.id, term.exists() ? layer.plans->backward_data_adding : layer.plans->backward_data,
       {{layer.w, dy.value, term.value}, {dx.value}}, {dx.value, layer.w, dy.value});
  l.contribute(input, dx, true);
}

// Returns x packed and with the number of channels that the convolution reads; additional channels are zero.
Map readable(Lowering& l, NodeId id, const Map& x, int64_t channels) {
  Map wide = x;
  if (x.channels == channels) return l.packed(id, x);
  wide.zeros = channels - x.channels;
  if (x.pitch != channels || x.zeros == 0) {
    wide = l.program().map(x.type, x.n, x.h, x.w, x.channels, wide.zeros);
    const auto bytes = static_cast<size_t>(wide.rows() * wide.pitch * bytes_of(wide.type));
    l.emit_zeros(id, wide.value, bytes);
    l.emit_sum(id, {x}, wide, false);
  }
  wide.channels = channels;
  wide.zeros = 0;
  return wide;
}

}  // namespace

Lowering::EmitBackward lower_node(Lowering& l, NodeId id, const Convolution&) {
  const LayerPlans& plans = l.plans(id);
  const Map x = l.input(id);
  const NodeId output = plans.forward_adding != nullptr ? l.fusions().summed_by[id] : id;
  const Layer layer{id,
                    &plans,
                    readable(l, id, x, plans.shape.c),
                    l.make_output(output),
                    l.stored_weight(id, Convolution::kWeight),
                    l.stored_weight(id, Convolution::kBias)};
  if (output == id) {
    emit_forward(l, layer);
  } else {
    emit_forward_adding(l, layer, output);
  }
  l.set_output(output, layer.y);
  return [&l, layer, x] {
    emit_backward(l, layer, [&] {
      const int64_t images = l.wants_sum(l.input_node(layer.id)) ? 1 : x.n;
      return l.program().map(x.type, images, x.h, x.w, x.channels, layer.x.channels - x.channels);
    });
  };
}

Lowering::EmitBackward lower_node(Lowering& l, NodeId id, const FullyConnected&) {
  const Map x = l.dense_input(id);
  const Layer layer{id,
                    &l.plans(id),
                    x,
                    l.make_output(id),
                    l.stored_weight(id, FullyConnected::kWeight),
                    l.stored_weight(id, FullyConnected::kBias)};
  emit_forward(l, layer);
  l.set_output(id, layer.y);
  return [&l, layer] { emit_backward(l, layer, [&] { return l.program().like(layer.x); }); };
}

}  // namespace dtrain::cuda
