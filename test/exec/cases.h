// The table of operator cases, which the tests of every backend run.
//
// A case is a small network around the operators under test: data -> "before" -> operators -> "head" -> softmax.
// "before" is a 1 x 1 convolution with identity weights. It makes the operator's input a computed tensor with exactly
// the numbers of the data, so that its gradient is needed and a backend may choose its layout. Cases named "first..."
// lack it: their operator reads the images.
//
// Cases are run with two kinds of numbers. Integers: small whole numbers, whose sums are exact in any order, so
// backends are compared bit for bit. "head" then makes the softmax exactly 1 for class 0 and 0 for the others, so all
// gradients are whole numbers too (or multiples of 1/4 and the like, behind an average). Floats: no two numbers of an
// image are close to each other or to 0, so that no rounding decides a maximum or the sign that a ReLU sees.
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
  bool exact = true;                     // integers give the same bits in any order of summation
  bool smooth = true;                    // with floats, no kink is near, so central differences are valid
  std::vector<Shape> other_inputs = {};  // after the image
};

std::vector<Case> operator_cases();

// Training options for a case: one thread, one bucket, all nodes kept. Winograd is off, which integers require.
Options case_options(const Case& c);

enum class Values { kIntegers, kFloats };

// Sets weights and statistics. The same seed gives the same numbers in every backend.
void fill_parameters(const ParameterView& view, Values values, uint64_t seed);

struct HostBatch {
  std::vector<float> data, labels;
  std::vector<uint64_t> keys = {};
  std::vector<std::vector<float>> others = {};  // the inputs after `data`
  [[nodiscard]] Batch view() const {
    Batch batch = Batch::of(data, labels);
    batch.keys = keys;
    for (size_t i = 0; i < others.size(); i++) batch.inputs[i + 1].floats = others[i];
    return batch;
  }
};
// Keys for the images of a batch.
std::vector<uint64_t> make_keys(int64_t images, uint64_t seed);
HostBatch make_batch(const Case& c, Values values, uint64_t seed);

}  // namespace dtrain::exec::test
