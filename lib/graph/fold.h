// In inference, a batch norm multiplies each channel by a number and adds another one. If a convolution or a fully
// connected layer computes the channels, and nothing else reads them, then its weights and its bias can do that: the
// network without this batch norm computes the same, up to rounding.
#pragma once

#include <string>
#include <vector>

#include "graph/graph.h"

namespace dtrain::graph {

// A batch norm that is gone, by the names of variables.
struct Fold {
  std::string weight, bias;                 // of the layer, in the folded graph
  bool had_bias = true;                     // the layer's bias exists in the graph from before
  std::string gamma, beta, mean, variance;  // of the batch norm, in the graph from before
  bool fix_gamma = true;                    // gamma counts as 1
  double epsilon = 0;
};

struct FoldedGraph {
  Graph graph;  // for inference only. Layers with a batch norm folded into them have their name, and a bias
  std::vector<Fold> folds;
};

// Folds every batch norm that reads a Convolution or a FullyConnected, unless
// - another node reads the layer's output too, or it is a result of the graph,
// - the layer's weight or bias has another reader,
// - the layer has no bias, and a variable of another node has the name that it would get, LAYER_bias.
FoldedGraph fold_batch_norms(const Graph& graph);

}  // namespace dtrain::graph
