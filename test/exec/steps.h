// Compares whole training steps. Where nodes are fused and share memory, a comparison node by node (exec/check.h) is
// impossible. Used by the tests of every backend and by test/gpu.
#pragma once

#include <string>
#include <vector>

#include "cases.h"
#include "exec/executor.h"
#include "graph/graph.h"

namespace dtrain::exec::test {

// The results of one step: "probabilities", the gradients under their parameters' names, and the statistics.
struct Step {
  struct Tensor {
    std::string name;
    std::vector<float> values;
  };
  std::vector<Tensor> tensors;
  double gradient_norm = 0;  // of all gradients together
};

// Runs forward and backward. Returns their errors.
Result<Step> run_step(Executor& executor, const Batch& batch);

// The tensor that differs most from the true one, by normalized error (exec/norm.h). A norm below `floor` counts as
// `floor`.
struct Difference {
  std::string tensor;
  double error = 0;  // NaN if one of the two contains a NaN
};
Difference largest_difference(const Step& truth, const Step& tested, double floor);
bool equal_bits(const Step& a, const Step& b);

// Tolerance when an operator case (cases.h), trained with fused nodes and shared memory, is compared with the same case
// run node by node. The fused one rounds at other places, about once more or less for each node that a number passes.
double fusion_tolerance(Type type);

// A network and the size of its images, for tests that need only a few images.
struct Network {
  std::string name;  // as for graph::build_model
  Shape image;
  int64_t batch = 2;
};
inline constexpr int64_t kNetworkClasses = 10;
graph::Graph model(const Network& network);
// Images from a normal distribution, with random labels.
HostBatch random_batch(const Network& network, uint64_t seed);

// Divides the parameters into three buckets: returns the index of each bucket's first parameter.
std::vector<size_t> three_buckets(const graph::Graph& graph, const Shape& image);

// Copies parameters and statistics.
void copy_weights(const ParameterView& from, const ParameterView& to);
// w <- w - rate dw, for all parameters.
void descend(const ParameterView& view, float rate);

// The gradient of a weight that several layers share, where these factors are its terms, in the order of the layers.
float sum_of_terms(Backend& backend, const std::vector<double>& factors);

// A floor for largest_difference. A gradient that remains of a sum that cancels, such as that of a bias before a batch
// norm, is negligible compared with the step's other gradients.
inline double gradient_floor(const Step& truth) {
  return 1e-2 * truth.gradient_norm;
}

}  // namespace dtrain::exec::test
