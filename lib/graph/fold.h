// In inference, a batch normalization multiplies each channel by a factor and adds a constant. If a convolution or a
// fully connected layer computes the channels, and nothing else reads them, its weights and its bias can do that. The
// network then computes the same without this batch normalization, up to rounding.
#pragma once

#include <string>
#include <vector>

#include "graph/graph.h"

namespace dtrain::graph {

// A batch normalization that was folded, described by the names of variables.
struct Fold {
  std::string weight, bias;                 // the layer's variables, in the folded graph
  bool had_bias = true;                     // whether the layer has a bias in the original graph
  std::string gamma, beta, mean, variance;  // variables of the batch normalization, in the original graph
  bool fix_gamma = true;                    // if true, gamma counts as 1
  double epsilon = 0;
};

struct FoldedGraph {
  // The graph after folding, which is only for inference. A layer whose batch normalization was folded into it keeps
  // its name and has a bias.
  Graph graph;
  std::vector<Fold> folds;
};

// Folds every batch normalization that reads a Convolution or a FullyConnected, unless
// - another node also reads the layer's output, or the output is a result of the graph,
// - the layer's weight or bias has another reader,
// - the layer has no bias, and another node's variable already has the name that the bias would get, LAYER_bias.
FoldedGraph fold_batch_norms(const Graph& graph);

}  // namespace dtrain::graph
