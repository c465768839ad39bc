// What a network computes; how it is computed is up to the backends that compile it (exec/).
//
// A Graph is built by a function in models/ and does not change afterwards. Tensors are described as [n, c, h, w] here,
// whatever layout a backend uses. The backend decides the batch size n, so shapes in this file omit it where they can.
// A Graph is a value that threads may share. Each operator's comment states its arithmetic; docs/arithmetic.md,
// "Operators", has the full description. All reductions over the batch are sums.
//
// A graph has variables, which come from outside a pass (images, labels, learned tensors, statistics), and nodes, which
// compute. Both make tensors, and a node reads tensors. Several nodes may read one variable: the gradient of a learned
// tensor is the sum over all places where a node reads it.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_set>
#include <utility>
#include <variant>
#include <vector>

#include "base/error.h"
#include "graph/ids.h"
#include "graph/spelling.h"
#include "tensor/parameters.h"
#include "tensor/shape.h"

namespace dtrain::graph {

// The names of an operator, in messages and in symbol files.
struct OpNames {
  std::string_view own;
  std::string_view in_files = own;  // the name in symbol files, which is MXNet's
};

// An input of the network: the part of a batch that belongs to one variable of the role kInput. It has the name of that
// variable. Images are [n, c, h, w], vectors [n, c]. The networks of models/ have one input, "data".
struct Input {
  static constexpr OpNames kNames{"Input", "null"};
};

// Cross-correlation, with the filter not flipped: y = x (*) w + b.
//   x [n, c, h, w]    w [filters, c/groups, kernel_h, kernel_w]    b [filters], absent unless bias
//   y [n, filters, p, q], where p = floor((h + 2 pad_h - extent_h) / stride_h) + 1, and q likewise
// With a dilation d, the kernel reads every d-th cell.
// Both p and q must be at least 1, or shape inference fails.
// Source: Dumoulin & Visin, arXiv:1603.07285, relationship 6.
struct Convolution {
  static constexpr OpNames kNames{"Convolution"};
  static constexpr size_t kWeight = 1, kBias = 2;  // positions of the arguments after x
  int64_t filters = 0, kernel_h = 1, kernel_w = 1, stride_h = 1, stride_w = 1, pad_h = 0, pad_w = 0, groups = 1;
  bool bias = true;
  int64_t dilation_h = 1, dilation_w = 1;

  // The number of cells from the first to the last cell that the kernel reads along an axis.
  [[nodiscard]] int64_t extent_h() const { return dilation_h * (kernel_h - 1) + 1; }
  [[nodiscard]] int64_t extent_w() const { return dilation_w * (kernel_w - 1) + 1; }
};

// y = x W' + b, where x is flattened to [n, c*h*w] in that order. w is [outputs, c*h*w]. b is [outputs]; it exists only
// if `bias` is true.
struct FullyConnected {
  static constexpr OpNames kNames{"FullyConnected"};
  static constexpr size_t kWeight = 1, kBias = 2;
  int64_t outputs = 0;
  bool bias = true;
};

// Normalizes each channel over n, h and w (m elements); the variance is the biased one (divided by m):
//   training    y = gamma (x - mean) / sqrt(variance + epsilon) + beta; the training forward pass also updates
//               the moving statistics to momentum * old + (1 - momentum) * this batch's
//   inference   the same with the moving statistics
// Parameters gamma, beta [c]; statistics moving_mean, moving_var [c]. With fix_gamma, gamma counts as 1 and its
// gradient is 0, but the tensor exists. With global_statistics, training uses the moving statistics as inference does,
// and does not change them. Gradients: docs/arithmetic.md, "Operators".
struct BatchNorm {
  static constexpr OpNames kNames{"BatchNorm"};
  static constexpr size_t kGamma = 1, kBeta = 2, kMean = 3, kVariance = 4;
  double epsilon = 1e-3;
  double momentum = 0.9;
  bool fix_gamma = true;
  bool global_statistics = false;
};

// The gradient dx with respect to the input x, from the output y and its gradient dy:
//   relu       dy if y > 0, otherwise 0
//   tanh       dy (1 - y^2)
//   sigmoid    dy y (1 - y)
//   softrelu   dy (1 - e^-y)
//   softsign   dy (1 - |y|)^2, where y = x / (1 + |x|)
struct Activation {
  static constexpr OpNames kNames{"Activation"};
  enum class Kind { kRelu, kTanh, kSigmoid, kSoftrelu, kSoftsign };
  Kind kind = Kind::kRelu;
};

// Windows of kernel_h x kernel_w over the zero-padded map. Global pooling has one window, the whole map.
// Output size along an axis of x elements, with kernel k, stride s and pad p:
//   kValid floor((x + 2p - k) / s) + 1      kFull ceil((x + 2p - k) / s) + 1
//   kV07   min(x + 2p - k + s - 1, x + 2p - 1) div s + 1: rounds up, but the last window starts inside the padded map
// Maximum: padded cells are ignored; the gradient goes to the first maximum in row-major order.
// Average: the divisor is the window's area clipped to the padded map (kPadded), clipped to the map itself (kReal), or
// always kernel_h * kernel_w (kKernel). Sum: not divided.
struct Pooling {
  static constexpr OpNames kNames{"Pooling"};
  enum class Kind { kMax, kAverage, kSum };
  enum class Rounding { kValid, kFull, kV07 };
  enum class Divisor { kPadded, kKernel, kReal };
  Kind kind = Kind::kMax;
  int64_t kernel_h = 1, kernel_w = 1, stride_h = 1, stride_w = 1, pad_h = 0, pad_w = 0;
  bool global = false;
  Rounding rounding = Rounding::kValid;
  Divisor divisor = Divisor::kPadded;
};

struct Concat {  // y = all inputs, joined along the channels in their order
  static constexpr OpNames kNames{"Concat"};
};
struct Add {  // y = the sum of all inputs, which have the same shape
  static constexpr OpNames kNames{"Add", "elemwise_add"};
};
struct Flatten {  // [n, c, h, w] -> [n, c*h*w]
  static constexpr OpNames kNames{"Flatten"};
};
struct Identity {  // y = x; MXNet's node `id`
  static constexpr OpNames kNames{"Identity", "_copy"};
};

// y = factor * x, with the factor rounded to float32. In MXNet: `0.5 * a`.
struct Scale {
  static constexpr OpNames kNames{"Scale", "_mul_scalar"};
  double factor = 1;
};

// Normalizes over neighboring channels: y = x d^-beta, where d = k + alpha / size * (the sum of the squares of the
// `size` channels around x's own; `size` is odd, and channels outside the map count as 0). Backward: dx = dy d^-beta -
// 2 beta alpha / size * x * (the sum of dy y / d over the same channels). Source: Krizhevsky et al. 2012, section 3.3.
// MXNet's LRN.
struct LocalResponseNorm {
  static constexpr OpNames kNames{"LocalResponseNorm", "LRN"};
  int64_t size = 5;
  double alpha = 1e-4, beta = 0.75, k = 2;
};

// Training: y = 0 for a fraction `rate` of the elements, and x / (1 - rate) for the others; the same applies to dx.
// Inference: y = x. Which elements are dropped depends on the key of the image in the batch, the node's name and the
// element's position in [c, h, w] (exec/dropout.h). Source: Srivastava et al. 2014.
struct Dropout {
  static constexpr OpNames kNames{"Dropout"};
  double rate = 0.5;  // fraction of the elements that are dropped: at least 0 and below 1
};

// Samples a map x [n, c, h, w] at places that are given by an affine transformation t [n, 6], row-major 2 x 3:
//   y[i, j] = x at (row, column) = ((v + 1) (h - 1) / 2, (u + 1) (w - 1) / 2), where
//   (u, v) = (t0 a + t1 b + t2, t3 a + t4 b + t5), a = -1 + 2 j / (width - 1), b = -1 + 2 i / (height - 1)
// Between the cells, the value is interpolated linearly in both directions; cells outside of the map are 0.
// exec/sampling.h defines the order of the operations, which decides between which cells a place lies.
// Source: Jaderberg et al., arXiv:1506.02025.
struct SpatialTransformer {
  static constexpr OpNames kNames{"SpatialTransformer"};
  int64_t height = 2, width = 2;  // height and width of y, each at least 2
};

// p = softmax(x) over the classes, x [n, classes]. A loss; it also reads the labels of the batch.
// Backward: dx = p - [label], not divided by the batch size.
// With smoothing a: dx[label] = p - 1 + a, and dx = p - a / (classes - 1) for the other classes.
// dx is multiplied by gradient_scale, and if per_image is set, divided by the number of images in the device's batch.
struct SoftmaxOutput {
  static constexpr OpNames kNames{"SoftmaxOutput"};
  double smooth_alpha = 0;
  double gradient_scale = 1;
  bool per_image = false;

  [[nodiscard]] float factor(int64_t images) const {
    return static_cast<float>(per_image ? gradient_scale / static_cast<double>(images) : gradient_scale);
  }
};

using Op = std::variant<Input, Convolution, FullyConnected, BatchNorm, Activation, Pooling, Concat, Add, Flatten,
                        Identity, Scale, LocalResponseNorm, Dropout, SpatialTransformer, SoftmaxOutput>;

// The operator's name for messages: "Convolution", "BatchNorm", ...
std::string_view op_name(const Op& op);

// One argument of an operator. Arguments are in MXNet's order.
struct Argument {
  enum class Role { kTensor, kImages, kLabel, kWeight, kBias, kGamma, kBeta, kMean, kVariance };
  Role role = Role::kTensor;
  const char* name = "";  // the node's own variable for this argument is called NODE_name; if empty, NODE
};
// The arguments of an operator that reads `tensors` computed tensors. That number matters only for Concat and Add.
std::vector<Argument> arguments_of(const Op& op, size_t tensors);
// Whether the backward pass starts at nodes with this operator, so that the gradient with respect to their output is
// not used.
bool is_loss(const Op& op);

// A tensor that comes from outside a pass.
struct Variable {
  enum class Role { kInput, kLabel, kLearned, kStatistic };
  std::string name;  // unique among the variables of its graph
  Role role = Role::kLearned;
  ParameterKind kind = ParameterKind::kOther;
  // How the network changes the job's learning rate, weight decay and initial values for this variable.
  ParameterRule rule = {};
  // Set by the job and not written into symbol files: a learning rate that replaces the one in `rule`. 0: the values
  // are frozen.
  std::optional<double> job_rate = {};
  [[nodiscard]] bool is_frozen() const { return job_rate == 0.0; }
  // The attributes in a symbol file. Nullopt: the attributes of the node for which the variable was made, and those
  // that express the rule.
  std::optional<Attributes> attributes = {};
};

struct Node {
  std::string name;  // unique within its graph; the prefix of its parameters' names
  Op op;
  std::vector<TensorId> inputs;     // one for each of arguments_of(op)
  std::vector<NodeId> data_inputs;  // the nodes that compute the first inputs; ids smaller than the node's own
  int context_group = 0;            // for model parallelism: nodes of one group share a device
  Spelling spelling = {};           // how a symbol file writes the node
};

class Graph {
 public:
  // Appends a node that reads the outputs of `inputs`, and makes a variable for each other argument of the operator.
  // Throws CheckFailed for a repeated name or an input that does not exist yet, which are bugs of the function that
  // builds the model.
  NodeId add(std::string name, Op op, const std::vector<NodeId>& inputs, int context_group = 0);
  // Like add, for a node that also reads given variables, which may belong to other nodes. `given` lists the outputs of
  // nodes first, then the variables for the arguments after them.
  NodeId add_reader(std::string name, Op op, std::vector<TensorId> given, int context_group = 0);
  TensorId add_variable(Variable variable);
  // Makes the node's output a result of the graph. Without a call, the only result is the output of the last node.
  void add_head(NodeId node);
  // Sets the rule for the variable that the node reads as this argument, for example Convolution::kBias.
  void set_rule(NodeId node, size_t argument, const ParameterRule& rule);
  // Sets the variable's learning-rate multiplier. With the multiplier 0 the variable keeps its values, and its weight
  // decay is 0 too. The backward pass ends at the lowest tensor that is learned, so gradients below it are 0.
  void set_job_rate(VariableId variable, double multiplier) { variables_.at(variable).job_rate = multiplier; }
  void set_spelling(NodeId node, Spelling spelling) { nodes_.at(node).spelling = std::move(spelling); }

  [[nodiscard]] const std::vector<Node>& nodes() const { return nodes_; }
  [[nodiscard]] const Node& node(NodeId id) const { return nodes_.at(id); }
  [[nodiscard]] std::vector<NodeId> heads() const;
  [[nodiscard]] NodeId output() const { return heads().front(); }  // the node of the first result, a SoftmaxOutput
  [[nodiscard]] const std::vector<Variable>& variables() const { return variables_; }
  // The variables with this role, in ascending order.
  [[nodiscard]] std::vector<VariableId> variables(Variable::Role role) const;

  [[nodiscard]] size_t tensor_count() const { return tensors_.size(); }
  [[nodiscard]] TensorId tensor(Edge edge) const { return first_output_.at(edge.node); }
  // What the tensor is, a variable or the output of a node: exactly one of these functions returns a value.
  [[nodiscard]] std::optional<VariableId> variable(TensorId tensor) const;
  [[nodiscard]] std::optional<Edge> edge(TensorId tensor) const;

  // All nodes, each after its inputs, in the order of a depth-first walk that visits the heads and each node's inputs
  // in their order. Backends run the nodes in this order. Nodes that no head needs are omitted.
  [[nodiscard]] std::vector<NodeId> canonical_order() const;

 private:
  // Throws CheckFailed if the tensor cannot be this argument of the node.
  void check_given(const std::string& node, const Argument& argument, TensorId tensor) const;

  std::vector<Node> nodes_;
  std::vector<Variable> variables_;
  std::unordered_set<std::string> node_names_, variable_names_;
  // What each tensor is, indexed by TensorId: a variable, or the output of a node.
  std::vector<std::variant<VariableId, Edge>> tensors_;
  std::vector<TensorId> first_output_;  // for each node, the TensorId of its first output; indexed by NodeId
  std::vector<NodeId> heads_;           // the nodes whose outputs are results; empty: the last node is the only one
};

// A place where a node reads a tensor.
struct TensorUse {
  NodeId node = 0;
  size_t argument = 0;  // index among the node's inputs, such as Convolution::kBias
  bool operator==(const TensorUse&) const = default;
};

// A tensor that is learned or kept as a statistic.
struct ParameterInfo {
  VariableId variable;
  std::string name;
  ParameterKind kind;
  Shape shape;
  std::vector<TensorUse> uses;  // all uses, in the order in which backends run the nodes; at least one
  // The network's exceptions to the job's rules, as in Variable; for a statistic always with an initial value.
  ParameterRule rule = {};
};

// What a batch contains for each image: the network's inputs and the labels that its losses read. Batches have them in
// the order of the lists in Shapes (tensor/batch.h).
struct InputInfo {
  VariableId variable;
  std::string name;
  Shape shape;  // shape for one image: [c, h, w] or [c]
};
struct LabelInfo {
  VariableId variable;
  std::string name;
  int64_t classes = 0;  // the label is an integer in [0, classes), for every loss that reads it
};
// A result of the network: [n, outputs].
struct HeadInfo {
  NodeId node;
  std::string name;
  int64_t outputs = 0;  // for a loss: the number of its classes
  size_t label = 0;     // for a loss: the index of its label in Shapes::labels
};

// What shape inference derives from a graph and the shapes of its inputs.
struct Shapes {
  std::vector<Shape> output;  // shape of each node's output, without the batch: [c, h, w] or [c]; indexed by NodeId
  // Learned tensors in canonical order; the index is the key in a parameter store.
  std::vector<ParameterInfo> parameters;
  std::vector<ParameterInfo> statistics;  // moving means and variances, in canonical order
  [[nodiscard]] int64_t parameter_elements() const;
  [[nodiscard]] int64_t statistic_elements() const;
  std::vector<InputInfo> inputs;  // the inputs, in the order of their variables
  std::vector<LabelInfo> labels;  // the labels, in the order of their variables
  std::vector<HeadInfo> heads;    // the network's results, in the order of Graph::heads()
  bool draws = false;             // whether training draws random numbers from the keys of a batch's images
  static constexpr size_t kNowhere = static_cast<size_t>(-1);
  // For each variable, its index in `parameters` or `statistics`, or kNowhere; indexed by VariableId.
  std::vector<size_t> position;
};

// `inputs`: the shapes for one image, [c, h, w] or [c], in the order of the input variables. Errors are Code::kUsage.
// They name the inputs if their number is wrong; or the node with its operator and the shapes that do not fit; or the
// two nodes that need different shapes of one variable.
Result<Shapes> infer_shapes(const Graph& graph, std::span<const Shape> inputs);
// Like infer_shapes above, for a graph whose only input is images of this shape, [c, h, w].
Result<Shapes> infer_shapes(const Graph& graph, const Shape& image);

// The index in Shapes::inputs of the input that an Input node reads, and the index in Shapes::labels of the label that
// a loss reads.
size_t input_of(const Graph& graph, const Shapes& shapes, NodeId node);
size_t label_of(const Graph& graph, const Shapes& shapes, NodeId node);

// The multiply-accumulate operations of the convolutions and fully connected layers in the forward pass of one image. A
// weight counts once for each use.
int64_t multiply_accumulates(const Graph& graph, const Shapes& shapes);
// The operations that multiply_accumulates counts, for each node; indexed by NodeId.
std::vector<int64_t> multiply_accumulates_by_node(const Graph& graph, const Shapes& shapes);

}  // namespace dtrain::graph
