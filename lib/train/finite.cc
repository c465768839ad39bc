#include "train/finite.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>

#include "base/simd.h"
#include "graph/graph.h"

namespace dtrain::train {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();

DT_MULTI_ISA uint32_t any_from(const float* values, size_t n, int32_t exponent) {
  constexpr uint32_t kExponent = 0x7f800000;
  uint32_t found = 0;
  for (size_t i = 0; i < n; i++) {
    found |= static_cast<int32_t>(std::bit_cast<uint32_t>(values[i]) & kExponent) >= exponent ? 1U : 0U;
  }
  return found;
}

// Whether all absolute values are below `limit`, a power of 2 or infinity. False if there is a NaN, because it has the
// exponent of infinity.
bool all_below(std::span<const float> values, float limit) {
  return any_from(values.data(), values.size(), std::bit_cast<int32_t>(limit)) == 0;
}

void copy_weights(const std::vector<ParameterSpan>& from, const std::vector<ParameterSpan>& to) {
  for (size_t i = 0; i < from.size(); i++)
    std::copy(from[i].weight.begin(), from[i].weight.end(), to[i].weight.begin());
}

// Returns how many rows to compute again: 8, because batch normalization needs more than one image for its statistics;
// but fewer for large networks, because the reference loops need 1 s for 1e9 products.
int64_t rows_to_repeat(const graph::Graph& graph, const exec::Options& options) {
  std::vector<Shape> inputs;
  for (const InputForm& input : options.inputs) inputs.push_back(input.shape);
  const auto shapes = graph::infer_shapes(graph, inputs);
  const int64_t products = shapes ? graph::multiply_accumulates(graph, *shapes) : 0;
  return std::min<int64_t>(
      {options.batch_size, 8, std::max<int64_t>(1, 4'000'000'000 / std::max<int64_t>(1, products))});
}

}  // namespace

bool all_finite(std::span<const float> values) {
  return all_below(values, kInfinity);
}

// The sum of N values below 2^127 / N is below 2^127, and rounding on the way can at most double it.
float summand_limit(uint32_t terms) {
  if (terms <= 1) return kInfinity;
  return std::ldexp(1.0F, 127 - static_cast<int>(std::bit_width(terms - 1)));
}

std::string bad_gradient(const ParameterView& view, size_t begin, size_t end, float limit) {
  for (size_t i = end; i > begin; i--) {
    if (!all_below(view.parameters[i - 1].gradient, limit)) return view.parameters[i - 1].name;
  }
  return "";
}

std::string bad_layer(const graph::Graph& graph, const exec::Options& options, const ParameterView& view,
                      const exec::Batch& batch, const BadResult& result) {
  std::string output = graph.node(graph.heads()[result.head]).name;
  for (const ParameterSpan& parameter : view.parameters) {
    if (!all_finite(parameter.weight)) return parameter.name;
  }
  const int64_t images = options.batch_size;
  const size_t each = result.values.size() / static_cast<size_t>(images);
  size_t row = 0;
  while (row + 1 < static_cast<size_t>(images) && all_finite(result.values.subspan(row * each, each))) row++;

  const int64_t rows = rows_to_repeat(graph, options);
  const int64_t first = std::min(static_cast<int64_t>(row), images - rows);
  const auto executor =
      exec::make_reference_backend()->compile(graph, {.batch_size = rows, .inputs = options.inputs, .keep_all = true});
  if (!executor) return output;
  copy_weights(view.parameters, (*executor)->parameters().parameters);
  copy_weights(view.statistics, (*executor)->parameters().statistics);
  if (!(*executor)->forward(batch.part(images, first, rows), exec::no_wait)) return output;
  for (const graph::NodeId node : graph.canonical_order()) {
    if (!all_finite((*executor)->node_output(node))) return graph.node(node).name;
  }
  return output;
}

}  // namespace dtrain::train
