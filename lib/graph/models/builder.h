// Helps the functions that build networks: adds nodes with given names or with the names that MXNet would generate.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "graph/graph.h"

namespace dtrain::graph {

// For each operator, the list of attributes that a network's script states although they have MXNet's default values;
// see stated_attributes(). With them, the symbol file has the same text as MXNet's.
struct Stated {
  std::string_view convolution = {}, batch_norm = {}, pooling = {};
};

class Builder {
 public:
  explicit Builder(const Stated& stated = {}) : stated_(stated) {}

  // The graph's Input, called "data".
  NodeId data() { return add("data", Input{}, {}); }
  NodeId add(const std::string& name, Op op, const std::vector<NodeId>& inputs);
  // Names the node as MXNet does: the operator in lower case and a number. Each operator has its own counter, which
  // starts at 0 and does not count nodes with given names.
  NodeId add(Op op, const std::vector<NodeId>& inputs);
  // Skips the next `count` automatic names of the operator.
  void skip_names(const Op& op, int64_t count);
  // Replaces the stated attributes of one node.
  void state(NodeId node, std::string_view stated);
  // Sets the rule for the variable that the node reads as this argument, for example Convolution::kBias.
  void set_rule(NodeId node, size_t argument, const ParameterRule& rule) { graph_.set_rule(node, argument, rule); }
  Graph take() { return std::move(graph_); }

 private:
  Stated stated_;
  Graph graph_;
  std::map<std::string, int64_t> counts_;
};

// Convolutions with square windows, which nearly all layers have.
Convolution convolution(int64_t filters, int64_t kernel, int64_t stride = 1, int64_t pad = 0);
Convolution convolution_no_bias(int64_t filters, int64_t kernel, int64_t stride = 1, int64_t pad = 0);
Pooling pooling(Pooling::Kind kind, int64_t kernel, int64_t stride = 1, int64_t pad = 0,
                Pooling::Rounding rounding = Pooling::Rounding::kValid,
                Pooling::Divisor divisor = Pooling::Divisor::kPadded);

}  // namespace dtrain::graph
