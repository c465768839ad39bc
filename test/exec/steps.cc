#include "steps.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "base/random.h"
#include "exec/norm.h"
#include "graph/models/models.h"

namespace dtrain::exec::test {

Result<Step> run_step(Executor& executor, const Batch& batch) {
  DT_TRY_VOID(executor.forward(batch, no_wait));
  Step step;
  const auto keep = [&](const std::string& name, std::span<const float> values) {
    step.tensors.push_back({name, {values.begin(), values.end()}});
  };
  for (size_t head = 0; head < executor.heads(); head++) keep("probabilities", executor.result(head));
  DT_TRY_VOID(executor.backward(no_wait));
  for (const ParameterSpan& p : executor.parameters().parameters) {
    keep("gradient of " + p.name, p.gradient);
    step.gradient_norm = std::hypot(step.gradient_norm, norm(p.gradient));
  }
  for (const ParameterSpan& s : executor.parameters().statistics) keep(s.name, s.weight);
  return step;
}

Difference largest_difference(const Step& truth, const Step& tested, double floor) {
  DT_CHECK(truth.tensors.size() == tested.tensors.size(), "steps of different networks");
  Difference largest;
  for (size_t i = 0; i < truth.tensors.size(); i++) {
    const std::vector<float>& expected = truth.tensors[i].values;
    const double error =
        normalised_error(tested.tensors[i].values, std::vector<double>(expected.begin(), expected.end()), floor);
    if (i == 0 || !(error <= largest.error)) largest = {truth.tensors[i].name, error};
    if (std::isnan(error)) break;
  }
  return largest;
}

bool equal_bits(const Step& a, const Step& b) {
  return std::ranges::equal(a.tensors, b.tensors, [](const Step::Tensor& x, const Step::Tensor& y) {
    return x.values.size() == y.values.size() &&
           std::memcmp(x.values.data(), y.values.data(), x.values.size() * sizeof(float)) == 0;
  });
}

double fusion_tolerance(Type type) {
  switch (type) {
    case Type::kFloat32: return 1e-4;
    case Type::kFloat16: return 2e-2;
    case Type::kBfloat16: return 0.15;
  }
  return 0;
}

graph::Graph model(const Network& network) {
  return graph::build_model({.network = network.name, .num_classes = kNetworkClasses, .image = network.image}).value();
}

HostBatch random_batch(const Network& network, uint64_t seed) {
  RandomStream random(seed, Use::kTest);
  HostBatch batch;
  batch.keys = make_keys(network.batch, seed);
  batch.data.resize(static_cast<size_t>(network.batch * element_count(network.image)));
  for (float& x : batch.data) x = static_cast<float>(random.normal());
  for (int64_t i = 0; i < network.batch; i++) {
    batch.labels.push_back(static_cast<float>(random.below(kNetworkClasses)));
  }
  return batch;
}

std::vector<size_t> three_buckets(const graph::Graph& graph, const Shape& image) {
  const size_t count = graph::infer_shapes(graph, image)->parameters.size();
  return {0, count / 3, 2 * count / 3};
}

void copy_weights(const ParameterView& from, const ParameterView& to) {
  for (size_t p = 0; p < from.parameters.size(); p++)
    std::ranges::copy(from.parameters[p].weight, to.parameters[p].weight.begin());
  for (size_t s = 0; s < from.statistics.size(); s++)
    std::ranges::copy(from.statistics[s].weight, to.statistics[s].weight.begin());
}

void descend(const ParameterView& view, float rate) {
  for (const ParameterSpan& p : view.parameters) {
    for (size_t i = 0; i < p.weight.size(); i++) p.weight[i] -= rate * p.gradient[i];
  }
}

float sum_of_terms(Backend& backend, const std::vector<double>& factors) {
  graph::Graph g;
  const graph::NodeId data = g.add("data", graph::Input{}, {});
  std::vector<graph::TensorId> given = {g.tensor(graph::Edge{data})};
  std::vector<graph::NodeId> scaled;
  for (const double factor : factors) {
    const std::string i = std::to_string(scaled.size());
    const graph::NodeId reader = g.add_reader("reader" + i, graph::FullyConnected{.outputs = 1, .bias = false}, given);
    given = g.node(reader).inputs;
    scaled.push_back(g.add("scale" + i, graph::Scale{factor}, {reader}));
  }
  const graph::NodeId sum = g.add("sum", graph::Add{}, scaled);
  g.add("softmax", graph::SoftmaxOutput{}, {g.add("head", graph::FullyConnected{.outputs = 2}, {sum})});
  const auto executor = backend.compile(g, {.batch_size = 1, .inputs = {{.shape = {1, 1, 1}}}}).value();
  const std::vector<ParameterSpan>& parameters = executor->parameters().parameters;
  parameters[1].weight[1] = 1;
  parameters[2].weight[1] = 262144;  // so all the probability is class 1's, and the gradient by `sum` is 1
  const std::vector<float> image = {1}, labels = {0};
  DT_CHECK(executor->forward(Batch::of(image, labels), no_wait), "forward failed");
  DT_CHECK(executor->backward(no_wait), "backward failed");
  return parameters[0].gradient[0];
}

}  // namespace dtrain::exec::test
