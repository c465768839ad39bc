#include "graph/fold.h"

#include <algorithm>
#include <optional>
#include <set>

#include "graph/copy.h"
#include "graph/flow.h"

namespace dtrain::graph {
namespace {

// The operator `op` with a bias; nullopt if it is not a layer into which a batch normalization can be folded.
std::optional<Op> with_bias(const Op& op) {
  if (const auto* convolution = std::get_if<Convolution>(&op)) {
    Convolution changed = *convolution;
    changed.bias = true;
    return changed;
  }
  if (const auto* dense = std::get_if<FullyConnected>(&op)) {
    FullyConnected changed = *dense;
    changed.bias = true;
    return changed;
  }
  return std::nullopt;
}

static_assert(Convolution::kWeight == FullyConnected::kWeight && Convolution::kBias == FullyConnected::kBias);

class Folding {
 public:
  explicit Folding(const Graph& graph) : graph_(graph), copy_(graph), readers_(readers(graph)) {
    for (const Node& node : graph.nodes()) {
      for (const TensorId input : node.inputs) {
        if (!uses_.insert(input).second) shared_.insert(input);
      }
    }
    for (const Variable& variable : graph.variables()) names_.insert(variable.name);
  }

  FoldedGraph run() {
    std::vector<NodeId> order = graph_.canonical_order();
    std::ranges::sort(order);  // sorted, so that inputs, which have smaller numbers, precede their readers
    for (const NodeId id : order) {
      const std::optional<NodeId> norm = norm_after(id);
      if (norm) folded_.insert(*norm);
      if (folded_.contains(id)) {
        copy_.stands_for(id, copy_.copied(graph_.node(id).data_inputs.front()));
      } else if (norm) {
        copy_.node_as(id, *with_bias(graph_.node(id).op));
        folds_.push_back(fold(id, *norm));
      } else {
        copy_.node(id);
      }
    }
    std::vector<NodeId> heads;
    for (const NodeId head : graph_.heads()) heads.push_back(copy_.copied(head));
    FoldedGraph result{copy_.take(), std::move(folds_)};
    for (const NodeId head : heads) result.graph.add_head(head);
    return result;
  }

 private:
  // The batch normalization that is folded into this node.
  [[nodiscard]] std::optional<NodeId> norm_after(NodeId id) const {
    const Node& layer = graph_.node(id);
    if (!with_bias(layer.op) || readers_[id].size() != 1) return std::nullopt;
    const NodeId reader = readers_[id].front();
    if (!std::holds_alternative<BatchNorm>(graph_.node(reader).op)) return std::nullopt;
    const std::vector<NodeId> heads = graph_.heads();
    if (std::ranges::find(heads, id) != heads.end()) return std::nullopt;
    const bool has_bias = layer.inputs.size() > Convolution::kBias;
    for (size_t i = Convolution::kWeight; i < layer.inputs.size(); i++) {
      if (shared_.contains(layer.inputs[i])) return std::nullopt;
    }
    if (!has_bias && names_.contains(layer.name + "_bias")) return std::nullopt;
    return reader;
  }

  [[nodiscard]] const std::string& name_of(const Node& node, size_t argument) const {
    return graph_.variables()[*graph_.variable(node.inputs[argument])].name;
  }

  [[nodiscard]] Fold fold(NodeId id, NodeId norm_id) const {
    const Node& layer = graph_.node(id);
    const Node& norm = graph_.node(norm_id);
    const auto& op = std::get<BatchNorm>(norm.op);
    const bool has_bias = layer.inputs.size() > Convolution::kBias;
    return {.weight = name_of(layer, Convolution::kWeight),
            .bias = has_bias ? name_of(layer, Convolution::kBias) : layer.name + "_bias",
            .had_bias = has_bias,
            .gamma = name_of(norm, BatchNorm::kGamma),
            .beta = name_of(norm, BatchNorm::kBeta),
            .mean = name_of(norm, BatchNorm::kMean),
            .variance = name_of(norm, BatchNorm::kVariance),
            .fix_gamma = op.fix_gamma,
            .epsilon = op.epsilon};
  }

  const Graph& graph_;
  Copy copy_;
  std::vector<std::vector<NodeId>> readers_;
  std::set<TensorId> uses_, shared_;  // tensors that are read at all, and tensors that are read in several places
  std::set<std::string> names_;       // names of variables
  std::set<NodeId> folded_;           // the batch normalizations that are folded
  std::vector<Fold> folds_;
};

}  // namespace

FoldedGraph fold_batch_norms(const Graph& graph) {
  return Folding(graph).run();
}

}  // namespace dtrain::graph
