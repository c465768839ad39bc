// What the table of operator cases (cases.h) is made of.
#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "cases.h"
#include "graph/models/builder.h"

namespace dtrain::exec::test {

inline constexpr int64_t kClasses = 4;

inline graph::Convolution conv3x3(int64_t filters, int64_t stride = 1) {
  return graph::convolution_no_bias(filters, 3, stride, 1);
}
inline graph::Convolution conv1x1(int64_t filters, int64_t stride = 1) {
  return graph::convolution_no_bias(filters, 1, stride);
}
inline constexpr auto kMax = graph::Pooling::Kind::kMax;
inline constexpr auto kAverage = graph::Pooling::Kind::kAverage;
inline constexpr auto kSum = graph::Pooling::Kind::kSum;
inline constexpr auto kFull = graph::Pooling::Rounding::kFull;
inline constexpr auto kV07 = graph::Pooling::Rounding::kV07;
inline constexpr auto kValid = graph::Pooling::Rounding::kValid;
inline constexpr auto kKernel = graph::Pooling::Divisor::kKernel, kReal = graph::Pooling::Divisor::kReal;

// A node that reads the same variables as `like`, for the same operator or another one.
inline graph::NodeId add_like(graph::Graph& graph, const std::string& name, graph::NodeId like, graph::NodeId x,
                              std::optional<graph::Op> op = std::nullopt) {
  const graph::Node& model = graph.node(like);
  std::vector<graph::TensorId> given = model.inputs;
  given[0] = graph.tensor(graph::Edge{x});
  return graph.add_reader(name, op.value_or(model.op), std::move(given));
}

// Builds the network around the operators of one case.
class Net {
 public:
  explicit Net(const Shape& image, bool first = false) {
    x_ = graph_.add("data", graph::Input{}, {});
    if (!first) x_ = graph_.add("before", conv1x1(image[0]), {x_});
  }
  graph::NodeId x() const { return x_; }
  graph::NodeId add(const std::string& name, graph::Op op, const std::vector<graph::NodeId>& inputs) {
    return graph_.add(name, op, inputs);
  }
  // A node like `like` that also reads the same variables.
  graph::NodeId share(const std::string& name, graph::NodeId like, graph::NodeId x,
                      std::optional<graph::Op> op = std::nullopt) {
    return add_like(graph_, name, like, x, std::move(op));
  }
  graph::Graph finish(graph::NodeId y, int64_t classes = kClasses, graph::SoftmaxOutput softmax = {}) {
    const graph::NodeId flat = graph_.add("flatten", graph::Flatten{}, {y});
    const graph::NodeId head = graph_.add("head", graph::FullyConnected{.outputs = classes}, {flat});
    graph_.add("softmax", softmax, {head});
    return std::move(graph_);
  }

 private:
  graph::Graph graph_;
  graph::NodeId x_;
};

class Table {
 public:
  std::vector<Case> take() { return std::move(cases_); }
  Case& last(size_t back) { return cases_.at(cases_.size() - back); }
  Case& put(std::string name, const Shape& image, graph::Graph graph) {
    return cases_.emplace_back(Case{.name = std::move(name), .graph = std::move(graph), .image = image});
  }
  // One operator between "before" and "head".
  Case& one(std::string name, const Shape& image, graph::Op op) {
    Net net(image);
    return put(std::move(name), image, net.finish(net.add("op", op, {net.x()})));
  }
  Case& first(std::string name, const Shape& image, graph::Op op) {
    Net net(image, true);
    return put(std::move(name), image, net.finish(net.add("op", op, {net.x()})));
  }

 private:
  std::vector<Case> cases_;
};

void add_layer_cases(Table& table);  // one operator each, and the joins of several
void add_graph_cases(Table& table);  // chains, shared and frozen variables, several inputs or results

}  // namespace dtrain::exec::test
