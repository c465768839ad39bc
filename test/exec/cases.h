// The one table of operator cases, which the tests of every backend run.
//
// A case is a small network around the operators that it is about: data -> "before" -> operators -> "head" -> softmax.
// "before" is a 1 x 1 convolution with the identity as its weights, which makes the operator's input a computed tensor
// (so that its gradient is needed, in the layout that a backend likes), of exactly the numbers of the data. Cases named
// "first..." are without it: their operator reads the images.
//
// Two kinds of numbers. Integers: small whole ones, for which sums are exact in any order, so that backends are
// compared bit by bit; "head" then makes the softmax exactly 1 for class 0 and 0 for the others, which makes all
// gradients whole numbers too (or quarters and the like, behind an average). Floats: no two data of an image are near
// each other or near 0, so that no rounding decides a maximum or the sign that a relu sees.
#pragma once

#include <string>
#include <vector>

#include "exec/executor.h"
#include "graph/graph.h"

namespace dtrain::exec::test {

struct Case {
  std::string name;
  graph::Graph graph;
  Shape image;  // [c, h, w]
  int64_t batch = 2;
  bool exact = true;   // integers give the same bits in any order of summation
  bool smooth = true;  // with floats, no kink is near: central differences hold
};

std::vector<Case> operator_cases();

// Training options for a case: one thread, one bucket, all nodes kept. Winograd off, as integers need it to be.
Options case_options(const Case& c);

enum class Values { kIntegers, kFloats };

// Weights and statistics for a case. The same seed gives the same numbers in every backend.
void fill_parameters(const ParameterView& view, Values values, uint64_t seed);

struct HostBatch {
  std::vector<float> data, labels;
  [[nodiscard]] Batch view() const { return {data, labels}; }
};
HostBatch make_batch(const Case& c, Values values, uint64_t seed);

// Pixels drawn at random, half of the images mirrored, and a normalisation with another mean, or mean image, and factor
// for each channel.
struct PixelBatch {
  std::shared_ptr<const Normalisation> normalisation;
  std::vector<uint8_t> pixels = {}, mirrored = {};
  std::vector<float> labels = {};
  [[nodiscard]] Batch view() const { return {{}, labels, pixels, mirrored}; }
  [[nodiscard]] HostBatch numbers() const;
};
PixelBatch make_pixels(const Shape& image, int64_t batch, int64_t classes, bool mean_image, uint64_t seed);

// Trains three steps on pixels, and on the numbers that they become, and runs an executor for inference on both: what
// first differs, in probabilities, gradients or statistics, by a bit; "" if nothing does. `options`: without a
// normalisation.
std::string compare_pixels(Backend& backend, const graph::Graph& graph, const Options& options, bool mean_image);

}  // namespace dtrain::exec::test
