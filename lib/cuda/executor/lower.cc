#include "cuda/executor/lower.h"

#include <cuda_runtime_api.h>

#include "cuda/kernels/bias.h"
#include "cuda/kernels/elementwise.h"
#include "cuda/runtime/error.h"
#include "tensor/buckets.h"

namespace dtrain::cuda {

using graph::NodeId;

Lowering::Lowering(const LowerRequest& request)
    : LoweringBase(request.graph, request.shapes, request.options, {}, {}),
      layout_(request.layout),
      plans_(request.plans),
      parameters_(request.parameters),
      input_(request.input),
      fusions_(find_fusions(request.graph, request.options.keep_all)),
      has_bias_gradient_(request.graph.nodes().size()),
      readers_(graph::readers(request.graph)),
      buckets_left_(request.options.bucket_begin.size()) {
  begin_range(forward_);
}

Map Lowering::reordered(NodeId id, const Map& map, const MapForm& form) {
  const Map result = program_.map(map.type, map.n, form.h, form.w, form.channels);
  const bool to_vector = form.h * form.w == 1;
  const Map& pixels = to_vector ? map : result;
  const Planar planar{map.type, map.type, map.n, pixels.channels, pixels.positions()};
  program_.step(id, {{map.value}, {result.value}}, [=](const Addresses& at) -> Call {
    if (to_vector) {
      return [planar, from = at.in(map), to = at.at(result.value)](cudaStream_t s) { to_planar(planar, from, to, s); };
    }
    return [planar, from = at.at(map.value), to = at.out(result)](cudaStream_t s) { from_planar(planar, from, to, s); };
  });
  return result;
}

Map Lowering::plain_input(NodeId id, size_t i) {
  const Map& map = input(id, i);
  if (shapes_.output[input_node(id, i)].size() == 3 || map.positions() == 1) return map;
  return reordered(id, map, {1, 1, map.positions() * map.channels});
}

Map Lowering::dense_input(NodeId id) {
  const Map& map = input(id);
  const int64_t taps = parameters_.form(parameter(id, graph::FullyConnected::kWeight).value()).taps;
  if (taps == map.positions()) return packed(id, map);
  return reordered(id, map, {1, 1, map.positions() * map.channels});
}

Map Lowering::packed(NodeId id, const Map& map) {
  if (map.packed()) return map;
  const Map copy = program_.like(map);
  emit_sum(id, {map}, copy, false);
  return copy;
}

Map Lowering::make_output(NodeId id) {
  if (const auto& slice = layout_.slices[id]) {
    Map& whole = outputs_[slice->concat];
    if (!whole.exists()) whole = make_output(slice->concat);
    return program_.slice(whole, slice->channel, layout_.maps[id].channels);
  }
  const MapForm& form = layout_.maps[id];
  return program_.map(type(), options_.batch_size, form.h, form.w, form.channels, form.zeros);
}

std::optional<size_t> Lowering::parameter(NodeId id, size_t argument) const {
  const auto found = parameters_.host().find(id, argument);
  return found ? std::optional(found->index) : std::nullopt;
}

ValueId Lowering::weight(NodeId id, size_t argument) {
  const auto p = parameter(id, argument);
  return p ? program_.fixed(parameters_.weight(*p), parameters_.weight_bytes(*p)) : kNoValue;
}

ValueId Lowering::stored_weight(NodeId id, size_t argument) {
  const auto p = parameter(id, argument);
  return p ? program_.fixed(parameters_.stored(*p), parameters_.form(*p).stored_bytes()) : kNoValue;
}

ValueId Lowering::statistic(NodeId id, size_t argument) {
  const auto s = parameter(id, argument);
  return s ? program_.fixed(parameters_.statistic(*s), parameters_.statistic_bytes(*s)) : kNoValue;
}

namespace {

// The form in which a kernel produces a gradient: filters keep their own type, all other parameters are float32.
WeightForm gradient_form(const graph::ParameterInfo& parameter, WeightForm form) {
  if (parameter.kind != ParameterKind::kWeight) form.type = Type::kFloat32;
  return form;
}

}  // namespace

ValueId Lowering::gradient_of(NodeId id, size_t argument) {
  const auto p = parameter(id, argument);
  if (!p) return kNoValue;
  const WeightForm form = gradient_form(shapes_.parameters[*p], parameters_.form(*p));
  if (form.is_canonical() && input_.loss_scale == nullptr && !is_shared(*p))
    return program_.fixed(parameters_.gradient(*p), parameters_.weight_bytes(*p));
  return parameter_terms_[*p].emplace_back(program_.bytes(form.stored_bytes()));
}

ValueId Lowering::take_bias_gradient(NodeId layer) {
  const graph::Op& op = node(layer).op;
  const bool is_layer =
      std::holds_alternative<graph::Convolution>(op) || std::holds_alternative<graph::FullyConnected>(op);
  if (!is_layer || readers_[layer].size() != 1) return kNoValue;
  const ValueId gradient = gradient_of(layer, graph::Convolution::kBias);
  has_bias_gradient_[layer] = gradient == kNoValue ? 0 : 1;
  return gradient;
}

bool Lowering::is_centered(NodeId id) const {
  const std::vector<NodeId>& readers = readers_[id];
  if (readers.size() != 1 || !depends_on_training(readers[0])) return false;
  const auto* norm = std::get_if<graph::BatchNorm>(&node(readers[0]).op);
  return norm != nullptr && !norm->global_statistics;
}

void Lowering::contribute(NodeId id, const Map& term, bool own) {
  if (!wants_gradient(id)) return;
  const MapForm& form = layout_.maps[id];
  const bool fits = term.h == form.h && term.w == form.w;
  LoweringBase::contribute(id, fits ? term : reordered(id, packed(id, term), form), own || !fits);
}

Map Lowering::take_term(NodeId id) {
  if (terms_[id].empty()) return {};
  const Map term = terms_[id].back().value;
  terms_[id].pop_back();
  return term;
}

Map Lowering::take_own_term(NodeId id) {
  const MapForm& form = layout_.maps[id];
  const auto usable = [&](const Term& term) {
    return term.own && term.value.packed() && term.value.channels == form.channels && term.value.zeros == 0;
  };
  const auto found = std::ranges::find_if(terms_[id], usable);
  if (found == terms_[id].end()) return {};
  const Map term = found->value;
  terms_[id].erase(found);
  return term;
}

Map Lowering::gradient(NodeId id) {
  const Map first = terms_[id][0].value;
  if (terms_[id].size() == 1) return first;
  const Map sum = program_.like(first);
  emit_sum(id, terms_of(id), sum, false);
  return set_gradient(id, sum);
}

void Lowering::emit_row_sum(NodeId id, const Map& map, ValueId sum) {
  const ValueId workspace =
      program_.scratch(static_cast<size_t>(bias_workspace_bytes(map.type, map.rows(), map.channels)));
  const ValueId counters = program_.counters(bias_counters(map.channels));
  program_.kernel(id, bias_gradient, {{map.value}, {sum}}, [=](const Addresses& at) {
    return BiasGradient{.type = map.type,
                        .rows = map.rows(),
                        .channels = map.channels,
                        .dy = at.in(map),
                        .dbias = at.at<float>(sum),
                        .workspace = at.at(workspace),
                        .counters = at.at<uint32_t>(counters)};
  });
}

void Lowering::emit_zeros(NodeId id, ValueId value, size_t bytes) {
  program_.step(id, {{}, {value}}, [=](const Addresses& at) -> Call {
    return [memory = at.at(value), bytes](cudaStream_t s) { DT_CUDA(cudaMemsetAsync(memory, 0, bytes, s)); };
  });
}

void Lowering::emit_sum(NodeId id, std::vector<Map> terms, const Map& y, bool relu, double factor) {
  exec::sum_first_terms(terms, kSourcesMax, kSourcesMax, [&](std::vector<Map> first) {
    const Map part = program_.like(first[0]);
    emit_sum(id, std::move(first), part, false);
    return part;
  });
  Uses uses{{}, {y.value}};
  for (const Map& term : terms) {
    uses.reads.push_back(term.value);
    uses.overwrites.push_back(in_place(term, y));
  }
  program_.step(id, std::move(uses), [terms, y, relu, by = static_cast<float>(factor)](const Addresses& at) -> Call {
    std::vector<In> sources;
    sources.reserve(terms.size());
    for (const Map& term : terms) sources.push_back(at.in(term));
    return [sources, to = at.out(y), y, relu, by](cudaStream_t stream) {
      sum({.type = y.type,
           .rows = y.rows(),
           .channels = y.channels,
           .sources = sources,
           .y = to,
           .relu = relu,
           .factor = by},
          stream);
    };
  });
}

size_t Lowering::bucket_end(size_t bucket) const {
  return dtrain::bucket_end(options_.bucket_begin, bucket, shapes_.parameters.size());
}

void Lowering::begin_range(std::vector<StepRange>& ranges) const {
  const size_t here = program_.steps().size();
  if (!ranges.empty()) ranges.back().end = here;
  ranges.push_back({.begin = here, .end = here});
}

// Lets the steps from here on wait for the buckets that contain the node's weights. A node needs all buckets up to that
// of its last parameter.
void Lowering::await_weights(NodeId id) {
  const auto [front, end] = first_read(id);
  if (front == end) return;
  const size_t first = buckets_awaited_;
  const auto& begin = options_.bucket_begin;
  while (buckets_awaited_ < begin.size() && begin[buckets_awaited_] < end) buckets_awaited_++;
  if (first == buckets_awaited_) return;
  begin_range(forward_);
  for (size_t b = first; b < buckets_awaited_; b++) forward_.back().buckets.push_back(b);
}

void Lowering::begin_backward() {
  begin_range(forward_);
  begin_range(backward_);
}

// Ends the buckets that are complete after a node's backward steps: those that contain only gradients of the node's
// first parameter and of parameters after it.
void Lowering::finish_gradients(NodeId id) {
  const size_t first = first_read(id).first, left = buckets_left_;
  while (buckets_left_ > 0 && options_.bucket_begin[buckets_left_ - 1] >= first) finish_bucket(--buckets_left_);
  if (left != buckets_left_) begin_range(backward_);
}

namespace {

// A gradient, or a term of one, that is converted to canonical form at the end of its bucket.
struct Conversion {
  size_t parameter;
  WeightForm form;
  ValueId from;
  ValueId to;  // kNoValue: the memory of the gradient itself
};

Call read_call(const DeviceParameters& parameters, const std::vector<Conversion>& conversions, const Addresses& at,
               const float* factor) {
  std::vector<WeightTensor> tensors;
  std::vector<int64_t> counts;
  for (const Conversion& c : conversions) {
    float* to = c.to == kNoValue ? parameters.gradient(c.parameter) : at.at<float>(c.to);
    tensors.push_back(weight_tensor(c.form, to, at.at(c.from)));
    counts.push_back(canonical_count(tensors.back()));
  }
  const auto table = std::make_shared<DeviceTable<WeightTensor>>(tensors, counts, conversion_bytes(tensors));
  return [table, factor](cudaStream_t stream) { read_weights(table->table(), factor, stream); };
}

}  // namespace

// Converts the terms of gradients to canonical form. The first term is converted into the gradient's memory, and the
// other terms are added to it.
void Lowering::convert_gradients(NodeId node, size_t first, size_t end) {
  std::vector<Conversion> conversions;
  std::vector<std::vector<ValueId>> added(end - first);  // terms to be added, indexed by parameter - first
  Uses uses;
  for (size_t p = first; p < end; p++) {
    const WeightForm form = gradient_form(shapes_.parameters[p], parameters_.form(p));
    for (const ValueId term : parameter_terms_[p]) {
      const bool is_first = term == parameter_terms_[p].front();
      const ValueId to = is_first ? kNoValue : program_.bytes(parameters_.weight_bytes(p));
      conversions.push_back({p, form, term, to});
      uses.reads.push_back(term);
      uses.writes.push_back(to);
      if (!is_first) added[p - first].push_back(to);
    }
  }
  if (conversions.empty()) return;
  const float* factor = input_.loss_scale == nullptr ? nullptr : &input_.loss_scale->inverse;
  program_.step(node, std::move(uses), [&parameters = parameters_, conversions, factor](const Addresses& at) {
    return read_call(parameters, conversions, at, factor);
  });
  for (size_t p = first; p < end; p++) {
    if (!added[p - first].empty()) add_gradients(node, p, added[p - first]);
  }
}

void Lowering::add_gradients(NodeId node, size_t parameter, const std::vector<ValueId>& terms) {
  const size_t bytes = parameters_.weight_bytes(parameter);
  const auto count = static_cast<int64_t>(bytes / sizeof(float));
  const auto row = [&](ValueId value) { return Map{.value = value, .channels = count, .pitch = count}; };
  const Map gradient = row(program_.fixed(parameters_.gradient(parameter), bytes));
  std::vector<Map> all = {gradient};
  for (const ValueId term : terms) all.push_back(row(term));
  emit_sum(node, std::move(all), gradient, false);
}

void Lowering::finish_bucket(size_t bucket) {
  const size_t first = options_.bucket_begin[bucket], end = bucket_end(bucket);
  const NodeId node = shapes_.parameters[first].uses[0].node;
  convert_gradients(node, first, end);
  backward_.back().buckets.push_back(bucket);
}

// A result as floats. Losses write floats already. Other results have the type of the network, and may be maps.
ValueId Lowering::result_of(NodeId id) {
  const Map& map = outputs_[id];
  if (map.type == Type::kFloat32 && map.packed() && map.positions() == 1) return map.value;
  const ValueId floats = program_.floats(map.rows() * map.channels);
  const Planar planar{map.type, Type::kFloat32, map.n, map.channels, map.positions()};
  program_.step(id, {{map.value}, {floats}}, [=](const Addresses& at) -> Call {
    return [planar, from = at.in(map), to = at.at(floats)](cudaStream_t s) { to_planar(planar, from, to, s); };
  });
  return floats;
}

namespace {

// Removes the ranges that have neither steps nor buckets, such as one before the first bucket or after the last one.
void drop_empty(std::vector<StepRange>& ranges) {
  std::erase_if(ranges, [](const StepRange& range) { return range.begin == range.end && range.buckets.empty(); });
}

}  // namespace

Lowered lower(const LowerRequest& request) {
  Lowering l(request);
  Lowered lowered{l.lower_all(), {}, {}};
  l.backward_.back().end = lowered.program.steps().size();
  drop_empty(l.forward_);
  drop_empty(l.backward_);
  lowered.forward = std::move(l.forward_);
  lowered.backward = std::move(l.backward_);
  return lowered;
}

}  // namespace dtrain::cuda
