// Whole training steps, compared: where nodes are fused and memory is shared, node by node (exec/check.h) cannot look.
// Used by the tests of every backend, and by test/gpu.
#pragma once

#include <string>
#include <vector>

#include "cases.h"
#include "exec/executor.h"
#include "graph/graph.h"

namespace dtrain::exec::test {

// What one step leaves behind: "probabilities", the gradients by their parameters' names, the statistics.
struct Step {
  struct Tensor {
    std::string name;
    std::vector<float> values;
  };
  std::vector<Tensor> tensors;
  double gradient_norm = 0;  // of all gradients together
};

// Forward and backward. Fails as they do.
Result<Step> run_step(Executor& executor, const Batch& batch);

// The tensor that differs most from the truth's, by its normalised error (exec/norm.h). A norm below `floor` counts as
// `floor`.
struct Difference {
  std::string tensor;
  double error = 0;  // NaN where one of the two holds a NaN
};
Difference largest_difference(const Step& truth, const Step& tested, double floor);
bool equal_bits(const Step& a, const Step& b);

// An operator case (cases.h) as it is trained, fused and in shared memory, against the same kept apart, node by node:
// it rounds at other places, once less or more for each node that a number comes through.
double fusion_tolerance(Type type);

// A network with images of its size, for what is shown with a few of them.
struct Network {
  std::string name;  // graph::build_model's
  Shape image;
  int64_t batch = 2;
};
inline constexpr int64_t kNetworkClasses = 10;
graph::Graph model(const Network& network);
// Images from a normal distribution, any labels.
HostBatch random_batch(const Network& network, uint64_t seed);

// The first bucket's parameters and the begins of three: what travels while the rest computes.
std::vector<size_t> three_buckets(const graph::Graph& graph, const Shape& image);

// Of parameters and statistics alike.
void copy_weights(const ParameterView& from, const ParameterView& to);
// w <- w - rate dw, all of it.
void descend(const ParameterView& view, float rate);

// Beside the step's other gradients, what is left of a sum that cancels, as of a bias before a batch norm, is nothing.
inline double gradient_floor(const Step& truth) {
  return 1e-2 * truth.gradient_norm;
}

}  // namespace dtrain::exec::test
