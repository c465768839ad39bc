// Helps the functions that build networks: adds nodes with given names or with the names that MXNet would generate.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "graph/graph.h"

namespace dtrain::graph {

class Builder {
 public:
  // The graph's Input, called "data".
  NodeId data() { return add("data", Input{}, {}); }
  NodeId add(const std::string& name, Op op, const std::vector<NodeId>& inputs);
  // Names the node as MXNet does: the operator in lower case and a number. Each operator has its own counter, which
  // starts at 0 and does not count nodes with given names.
  NodeId add(Op op, const std::vector<NodeId>& inputs);
  // For the variable that the node reads as this argument, for example Convolution::kBias.
  void set_rule(NodeId node, size_t argument, const ParameterRule& rule) { graph_.set_rule(node, argument, rule); }
  Graph take() { return std::move(graph_); }

 private:
  Graph graph_;
  std::map<std::string, int64_t> counts_;
};

// For square windows, which nearly all layers have.
Convolution convolution(int64_t filters, int64_t kernel, int64_t stride = 1, int64_t pad = 0);
Convolution convolution_no_bias(int64_t filters, int64_t kernel, int64_t stride = 1, int64_t pad = 0);
Pooling pooling(Pooling::Kind kind, int64_t kernel, int64_t stride = 1, int64_t pad = 0);

}  // namespace dtrain::graph
