#include "exec/check.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <memory>

#include "exec/norm.h"
#include "exec/rounding.h"
#include "graph/graph.h"

namespace dtrain::exec {

namespace {

using graph::NodeId;

void copy_weights(const std::vector<ParameterSpan>& from, const std::vector<ParameterSpan>& to) {
  for (size_t i = 0; i < from.size(); i++)
    std::copy(from[i].weight.begin(), from[i].weight.end(), to[i].weight.begin());
}

// Runs both executors side by side and collects the comparisons.
class Checker {
 public:
  Checker(const graph::Graph& graph, const Options& options, Executor& tested, Reference& reference,
          const CheckOptions& check)
      : graph_(graph), options_(options), tested_(tested), reference_(reference), check_(check) {
    for (NodeId id : reference.order()) {
      for (const NodeId x : graph.node(id).data_inputs) consumers_.emplace_back(x, id);
    }
  }

  CheckReport take() { return std::move(report_); }

  // Compares the outputs of all nodes. To be called after the tested executor's forward pass. After each comparison the
  // reference's output is replaced by the tested one.
  void forward() {
    for (const NodeId id : reference_.order()) {
      reference_.forward_node(id);
      const std::vector<float> tested = tested_.node_output(id);
      compare(id, "output", tested, reference_.output(id), output_rounding(graph_, reference_, id));
      compare_statistics(id);
      adopt(tested, reference_.output(id));
    }
    for (size_t head = 0; head < reference_.shapes().heads.size(); head++) {
      const NodeId node = reference_.shapes().heads[head].node;
      compare(node, "probabilities", tested_.result(head), reference_.output(node), {0, 1});
    }
  }

  void backward() {
    reference_.begin_backward();
    for (auto id = reference_.order().rbegin(); id != reference_.order().rend(); ++id) {
      if (!graph::is_loss(graph_.node(*id).op)) compare_gradient(*id);
      reference_.backward_node(*id);
      compare_parameter_gradients(*id);
    }
  }

 private:
  void compare(NodeId id, std::string what, std::span<const float> tested, std::span<const double> truth,
               const Rounding& rounding) {
    const graph::Node& node = graph_.node(id);
    Comparison c{node.name, graph::op_name(node.op), std::move(what)};
    c.tolerance =
        check_.tolerance_factor * tolerance(rounding, options_.dtype, options_.tf32) * (by_winograd(node) ? 10 : 1);
    c.error = tested.size() == truth.size() ? normalised_error(tested, truth, rounding.scale)
                                            : std::numeric_limits<double>::infinity();
    report_.compared++;
    if (!c.agrees()) report_.differences.push_back(c);
    if (report_.compared == 1 || c.error * report_.worst.tolerance > report_.worst.error * c.tolerance)
      report_.worst = c;
  }

  bool by_winograd(const graph::Node& node) const {
    const auto* op = std::get_if<graph::Convolution>(&node.op);
    return options_.winograd && op != nullptr && op->kernel_h == 3 && op->kernel_w == 3 && op->stride_h == 1 &&
           op->stride_w == 1 && op->dilation_h == 1 && op->dilation_w == 1;
  }

  static void adopt(const std::vector<float>& tested, std::span<double> into) {
    if (tested.size() == into.size()) std::copy(tested.begin(), tested.end(), into.begin());
  }

  void compare_statistics(NodeId id) {
    const graph::Shapes& shapes = reference_.shapes();
    for (size_t i = 0; i < shapes.statistics.size(); i++) {
      // If a later node also changes the statistic, it is compared there.
      if (shapes.statistics[i].uses.back().node != id) continue;
      const std::span<const float> truth = reference_.parameters().statistics[i].weight;
      const NodeId x = graph_.node(id).data_inputs[0];
      const double terms = static_cast<double>(reference_.output(x).size()) / static_cast<double>(truth.size());
      compare(id, shapes.statistics[i].name, tested_.parameters().statistics[i].weight,
              std::vector<double>(truth.begin(), truth.end()), {norm(reference_.output(x)) / std::sqrt(terms), terms});
    }
  }

  // The rounding error to expect in the gradient with respect to the node's output. This gradient is a sum with one
  // term from each node that reads the output.
  Rounding sum_of_consumers(NodeId id) {
    Rounding sum{0, 0};
    for (const auto& [x, consumer] : consumers_) {
      if (x != id) continue;
      sum.add(input_gradient_rounding(graph_, reference_, consumer));
    }
    return sum;
  }

  void compare_gradient(NodeId id) {
    if (reference_.gradient(id).empty()) return;  // no gradient flows to this node, for example to the images
    const std::vector<float> tested = tested_.node_gradient(id);
    compare(id, "gradient with respect to its output", tested, reference_.gradient(id), sum_of_consumers(id));
    adopt(tested, reference_.gradient(id));
  }

  // Compares the parameters' gradients that are complete after this node's backward step. A gradient is complete after
  // the backward step of the first node that reads its parameter, because the backward pass runs that node last.
  void compare_parameter_gradients(NodeId id) {
    const graph::Shapes& shapes = reference_.shapes();
    for (size_t i = 0; i < shapes.parameters.size(); i++) {
      const std::vector<graph::TensorUse>& uses = shapes.parameters[i].uses;
      if (uses.front().node != id) continue;
      Rounding sum{0, 0};
      for (const graph::TensorUse& use : uses) sum.add(parameter_gradient_rounding(graph_, reference_, use));
      compare(id, "gradient of " + shapes.parameters[i].name, tested_.parameters().parameters[i].gradient,
              reference_.parameter_gradient(i), sum);
    }
  }

  const graph::Graph& graph_;
  const Options& options_;
  Executor& tested_;
  Reference& reference_;
  const CheckOptions& check_;
  std::vector<std::pair<NodeId, NodeId>> consumers_;  // (node, node that reads it), one entry per read
  CheckReport report_;
};

}  // namespace

std::string Comparison::text() const {
  return fmt::format("node '{}' ({}), {}: normalized error {:.2g}, tolerance {:.2g}", node, op, what, error, tolerance);
}

std::string CheckReport::text() const {
  if (agrees()) return fmt::format("check: all {} tensors agree with the reference; worst: {}", compared, worst.text());
  return fmt::format("check: {} of {} tensors differ from the reference; first: {}", differences.size(), compared,
                     differences.front().text());
}

Result<CheckReport> check_against_reference(const graph::Graph& graph, const Options& options, Executor& tested,
                                            const Batch& batch, const CheckOptions& check) {
  DT_CHECK(options.keep_all && options.purpose == Options::Purpose::kTraining,
           "the check needs a training executor that keeps the values of all nodes");
  Options exact = options;
  exact.dtype = Type::kFloat32;  // the type in which executors return values; the reference itself computes in float64
  DT_TRY(const std::unique_ptr<Reference> reference, Reference::compile(graph, exact, nullptr),
         "compiling the reference");
  copy_weights(tested.parameters().parameters, reference->parameters().parameters);
  copy_weights(tested.parameters().statistics, reference->parameters().statistics);
  reference->load_parameters();
  DT_TRY_VOID(tested.forward(batch, no_wait), "checking the forward pass");
  DT_TRY_VOID(reference->begin_forward(batch));
  Checker checker(graph, options, tested, *reference, check);
  checker.forward();
  DT_TRY_VOID(tested.backward([](size_t) -> Result<> { return {}; }), "checking the backward pass");
  checker.backward();
  return checker.take();
}

}  // namespace dtrain::exec
