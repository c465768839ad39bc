// How the functions of the networks write them down: nodes with given names, or with those that MXNet gives.
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
  NodeId add(const std::string& name, Op op, std::vector<NodeId> inputs);
  // With MXNet's own name: the operator in lower case and a number, one count an operator, from 0, in the order of
  // construction and not counting nodes with given names (models.md 1.1).
  NodeId add(Op op, std::vector<NodeId> inputs);
  void set_rule(NodeId node, ParameterInfo::Role role, const ParameterRule& rule) { graph_.set_rule(node, role, rule); }
  Graph take() { return std::move(graph_); }

 private:
  Graph graph_;
  std::map<std::string, int64_t> counts_;
};

// Square windows, which is what nearly all layers have.
Convolution convolution(int64_t filters, int64_t kernel, int64_t stride = 1, int64_t pad = 0);
Convolution convolution_no_bias(int64_t filters, int64_t kernel, int64_t stride = 1, int64_t pad = 0);
Pooling pooling(Pooling::Kind kind, int64_t kernel, int64_t stride = 1, int64_t pad = 0);

}  // namespace dtrain::graph
