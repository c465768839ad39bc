#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <numeric>

#include "base/overloaded.h"
#include "graph/graph.h"

namespace dtrain::graph {

namespace {

// The shapes that follow from one node: the shape of its output, and those of the variables that it reads after its
// data inputs.
struct NodeShapes {
  Shape output;
  std::vector<Shape> parameters;
};

struct Window {
  int64_t size, kernel, stride, pad;
};

int64_t floor_div(int64_t a, int64_t b) {
  return a / b - (a % b != 0 && (a < 0) != (b < 0) ? 1 : 0);
}

// The number of output positions along one axis; below 1 if the window does not fit.
int64_t positions(const Window& w, Pooling::Rounding rounding) {
  const int64_t room = w.size + 2 * w.pad - w.kernel;
  switch (rounding) {
    case Pooling::Rounding::kValid: return floor_div(room, w.stride) + 1;
    case Pooling::Rounding::kFull: return floor_div(room + w.stride - 1, w.stride) + 1;
    case Pooling::Rounding::kV07: return floor_div(std::min(room + w.stride - 1, w.size + 2 * w.pad - 1), w.stride) + 1;
  }
  return 0;
}

// The network's rule for a variable. If the network gives no initial value, moving means begin at 0 and moving
// variances at 1.
ParameterRule rule_of(const Variable& variable, Argument::Role role) {
  ParameterRule rule = variable.rule;
  if (variable.job_rate) rule.learning_rate = variable.job_rate;
  if (variable.is_frozen()) rule.weight_decay = 0;
  if (variable.role == Variable::Role::kStatistic && !rule.initial) {
    const double value = role == Argument::Role::kVariance ? 1 : 0;
    rule.initial = {.kind = InitializerSpec::Kind::kConstant, .magnitude = value};
  }
  return rule;
}

// The shape rules, one overload per operator. `node` is used in messages; `x` contains the shapes of its inputs.
class Inference {
 public:
  // `given`: for an Input node, the shape of the input that it reads.
  Inference(const Node& node, std::vector<Shape> x, const Shape& given)
      : node_(node), x_(std::move(x)), given_(given) {}

  Result<NodeShapes> run() const {
    return std::visit([this](const auto& op) { return infer(op); }, node_.op);
  }

 private:
  template <class... Args>
  [[nodiscard]] tl::unexpected<Error> refuse(fmt::format_string<Args...> format, Args&&... args) const {
    return fail(Code::kUsage, "node '{}' ({}): {}", node_.name, op_name(node_.op),
                fmt::format(format, std::forward<Args>(args)...));
  }

  Result<> expect_inputs(size_t count) const {
    if (x_.size() == count) return {};
    return refuse("takes {} input(s), but has {}", count, x_.size());
  }

  Result<> expect_map() const {
    DT_TRY_VOID(expect_inputs(1));
    if (x_[0].size() == 3) return {};
    return refuse("the input must have the shape (c, h, w), not {}", to_string(x_[0]));
  }

  Result<NodeShapes> infer(const Input&) const {
    DT_TRY_VOID(expect_inputs(0));
    const bool positive = std::all_of(given_.begin(), given_.end(), [](int64_t d) { return d >= 1; });
    if ((given_.size() != 3 && given_.size() != 1) || !positive)
      return refuse("the image shape must be (c, h, w), not {}", to_string(given_));
    return NodeShapes{given_, {}};
  }

  Result<NodeShapes> infer(const Convolution& op) const {
    DT_TRY_VOID(expect_map());
    const int64_t c = x_[0][0], h = x_[0][1], w = x_[0][2];
    if (op.filters < 1 || op.kernel_h < 1 || op.kernel_w < 1 || op.stride_h < 1 || op.stride_w < 1 || op.pad_h < 0 ||
        op.pad_w < 0 || op.groups < 1 || op.dilation_h < 1 || op.dilation_w < 1) {
      return refuse("invalid convolution: {} filters, {} groups, kernel {}x{}, stride {}x{}, pad {}x{}, dilation {}x{}",
                    op.filters, op.groups, op.kernel_h, op.kernel_w, op.stride_h, op.stride_w, op.pad_h, op.pad_w,
                    op.dilation_h, op.dilation_w);
    }
    if (c % op.groups != 0 || op.filters % op.groups != 0) {
      return refuse("the {} filters and the channels of the input {} must be multiples of the {} groups", op.filters,
                    to_string(x_[0]), op.groups);
    }
    const int64_t p = positions({h, op.extent_h(), op.stride_h, op.pad_h}, Pooling::Rounding::kValid);
    const int64_t q = positions({w, op.extent_w(), op.stride_w, op.pad_w}, Pooling::Rounding::kValid);
    if (p < 1 || q < 1) return window_too_large(op.extent_h(), op.extent_w(), op);
    NodeShapes shapes{{op.filters, p, q}, {{op.filters, c / op.groups, op.kernel_h, op.kernel_w}}};
    if (op.bias) shapes.parameters.push_back({op.filters});
    return shapes;
  }

  Result<NodeShapes> infer(const FullyConnected& op) const {
    DT_TRY_VOID(expect_inputs(1));
    if (op.outputs < 1) return refuse("the number of outputs is {}, but must be at least 1", op.outputs);
    NodeShapes shapes{{op.outputs}, {{op.outputs, element_count(x_[0])}}};
    if (op.bias) shapes.parameters.push_back({op.outputs});
    return shapes;
  }

  Result<NodeShapes> infer(const BatchNorm&) const {
    DT_TRY_VOID(expect_inputs(1));
    const Shape channels = {x_[0][0]};
    return NodeShapes{x_[0], {channels, channels, channels, channels}};
  }

  Result<NodeShapes> infer(const Pooling& op) const {
    DT_TRY_VOID(expect_map());
    if (op.global) return NodeShapes{{x_[0][0], 1, 1}, {}};
    // If the padding were as large as the kernel, a window could contain no cell of the map, and would have no maximum.
    if (op.kernel_h < 1 || op.kernel_w < 1 || op.stride_h < 1 || op.stride_w < 1 || op.pad_h < 0 || op.pad_w < 0 ||
        op.pad_h >= op.kernel_h || op.pad_w >= op.kernel_w) {
      return refuse("invalid pooling: kernel {}x{}, stride {}x{}, pad {}x{}", op.kernel_h, op.kernel_w, op.stride_h,
                    op.stride_w, op.pad_h, op.pad_w);
    }
    const int64_t p = positions({x_[0][1], op.kernel_h, op.stride_h, op.pad_h}, op.rounding);
    const int64_t q = positions({x_[0][2], op.kernel_w, op.stride_w, op.pad_w}, op.rounding);
    // Even with rounding up, the kernel must not be larger than the padded map.
    const bool fits = op.kernel_h <= x_[0][1] + 2 * op.pad_h && op.kernel_w <= x_[0][2] + 2 * op.pad_w;
    if (!fits || p < 1 || q < 1) return window_too_large(op.kernel_h, op.kernel_w, op);
    // Rounding up with a stride larger than the kernel may place a window beyond the map.
    if ((p - 1) * op.stride_h - op.pad_h >= x_[0][1] || (q - 1) * op.stride_w - op.pad_w >= x_[0][2]) {
      return refuse("the last window, of {}x{} with stride {}x{}, starts outside the input {}", op.kernel_h,
                    op.kernel_w, op.stride_h, op.stride_w, to_string(x_[0]));
    }
    return NodeShapes{{x_[0][0], p, q}, {}};
  }

  Result<NodeShapes> infer(const Concat&) const {
    if (x_.empty()) return refuse("takes at least 1 input");
    Shape sum = x_[0];
    for (size_t i = 1; i < x_.size(); i++) {
      Shape alike = x_[i];
      alike[0] = x_[0][0];
      if (alike != x_[0]) {
        return refuse("the inputs {} and {} differ in more than their channels", to_string(x_[0]), to_string(x_[i]));
      }
      sum[0] += x_[i][0];
    }
    return NodeShapes{sum, {}};
  }

  Result<NodeShapes> infer(const Add&) const {
    if (x_.empty()) return refuse("takes at least 1 input");
    for (const Shape& x : x_) {
      if (x != x_[0]) return refuse("the inputs {} and {} differ in shape", to_string(x_[0]), to_string(x));
    }
    return NodeShapes{x_[0], {}};
  }

  Result<NodeShapes> infer(const Flatten&) const {
    DT_TRY_VOID(expect_inputs(1));
    return NodeShapes{{element_count(x_[0])}, {}};
  }

  Result<NodeShapes> infer(const LocalResponseNorm& op) const {
    DT_TRY_VOID(expect_map());
    if (op.size < 1 || op.size % 2 == 0) return refuse("the number of channels is {}, but must be odd", op.size);
    if (!(op.k > 0 && op.alpha >= 0 && op.beta >= 0)) {
      return refuse(
          "k is {}, alpha {} and beta {}, but k must be larger than 0, and alpha and beta must not be less than 0",
          op.k, op.alpha, op.beta);
    }
    return same();
  }

  Result<NodeShapes> infer(const Dropout& op) const {
    if (!(op.rate >= 0 && op.rate < 1)) return refuse("the rate is {}, but must be at least 0 and below 1", op.rate);
    return same();
  }

  Result<NodeShapes> infer(const SpatialTransformer& op) const {
    DT_TRY_VOID(expect_inputs(2));
    if (x_[0].size() != 3) return refuse("the first input must have the shape (c, h, w), not {}", to_string(x_[0]));
    if (x_[1] != Shape{6}) return refuse("the second input must be a vector of 6 numbers, not {}", to_string(x_[1]));
    if (op.height < 2 || op.width < 2) {
      return refuse("the output has {}x{} cells, but must have at least 2x2", op.height, op.width);
    }
    return NodeShapes{{x_[0][0], op.height, op.width}, {}};
  }

  Result<NodeShapes> infer(const SoftmaxOutput& op) const {
    DT_TRY_VOID(expect_inputs(1));
    if (x_[0].size() != 1) return refuse("the input must be a vector, not {}: flatten it first", to_string(x_[0]));
    if (op.smooth_alpha < 0 || op.smooth_alpha > 1)
      return refuse("the smoothing is {}, but must be from 0 to 1", op.smooth_alpha);
    if (op.smooth_alpha > 0 && x_[0][0] < 2)
      return refuse("smoothing needs at least 2 classes, but the input is {}", to_string(x_[0]));
    return NodeShapes{x_[0], {}};
  }

  Result<NodeShapes> infer(const Activation&) const { return same(); }
  Result<NodeShapes> infer(const Identity&) const { return same(); }
  Result<NodeShapes> infer(const Scale&) const { return same(); }

  Result<NodeShapes> same() const {
    DT_TRY_VOID(expect_inputs(1));
    return NodeShapes{x_[0], {}};
  }

  template <class Windowed>
  [[nodiscard]] tl::unexpected<Error> window_too_large(int64_t h, int64_t w, const Windowed& op) const {
    return refuse("kernel {}x{} with pad {}x{} exceeds the input {}", h, w, op.pad_h, op.pad_w, to_string(x_[0]));
  }

  const Node& node_;
  std::vector<Shape> x_;
  const Shape& given_;
};

// Collects the learned tensors and the statistics in the order in which nodes first read them.
class Parameters {
 public:
  Parameters(const Graph& graph, Shapes& shapes) : graph_(graph), shapes_(shapes) {
    shapes.position.assign(graph.variables().size(), Shapes::kNowhere);
  }

  // Adds each variable that the node reads to the learned tensors or the statistics, unless it is there already, and
  // adds the node to its uses. `needed`: the shapes of these variables, which follow the data inputs among the node's
  // inputs.
  Result<> read_by(NodeId id, const std::vector<Shape>& needed) {
    const Node& node = graph_.node(id);
    const std::vector<Argument> arguments = arguments_of(node.op, node.data_inputs.size());
    for (size_t i = 0; i < needed.size(); i++) {
      const TensorUse use{id, node.data_inputs.size() + i};
      DT_TRY_VOID(add(use, arguments[use.argument].role, needed[i]));
    }
    return {};
  }

 private:
  Result<> add(const TensorUse& use, Argument::Role role, const Shape& shape) {
    const VariableId id = graph_.variable(graph_.node(use.node).inputs[use.argument]).value();
    const Variable& variable = graph_.variables()[id];
    const bool learned = variable.role == Variable::Role::kLearned;
    std::vector<ParameterInfo>& infos = learned ? shapes_.parameters : shapes_.statistics;
    size_t& position = shapes_.position[id];
    if (position == Shapes::kNowhere) {
      position = infos.size();
      infos.push_back({.variable = id,
                       .name = variable.name,
                       .kind = variable.kind,
                       .shape = shape,
                       .uses = {},
                       .rule = rule_of(variable, role)});
    }
    ParameterInfo& info = infos[position];
    if (info.shape != shape) {
      return fail(Code::kUsage, "'{}' would have the shape {} for node '{}' and {} for node '{}'", info.name,
                  to_string(info.shape), graph_.node(info.uses[0].node).name, to_string(shape),
                  graph_.node(use.node).name);
    }
    info.uses.push_back(use);
    return {};
  }

  const Graph& graph_;
  Shapes& shapes_;
};

// Refuses very large tensors, so that later products of dimensions cannot overflow. Networks may come from files.
Result<> check_sizes(const Node& node, const NodeShapes& shapes) {
  constexpr int64_t kElementsMax = int64_t{1} << 40;
  std::vector<Shape> all = shapes.parameters;
  all.push_back(shapes.output);
  for (const Shape& shape : all) {
    int64_t elements = 1;
    for (const int64_t size : shape) {
      if (!__builtin_mul_overflow(elements, size, &elements) && elements <= kElementsMax) continue;
      return fail(Code::kUsage, "node '{}' ({}): a tensor of the shape {} has more than {} elements", node.name,
                  op_name(node.op), to_string(shape), kElementsMax);
    }
  }
  return {};
}

// Refuses data whose number of inputs differs from the number of the network's inputs.
Result<> check_inputs(const Graph& graph, const std::vector<VariableId>& needed, std::span<const Shape> given) {
  if (needed.size() == given.size()) return {};
  std::vector<std::string> names;
  names.reserve(needed.size());
  for (const VariableId id : needed) names.push_back(graph.variables()[id].name);
  return fail(Code::kUsage, "the network has {} inputs ({}), but the data have {}", names.size(),
              fmt::join(names, ", "), given.size());
}

// The labels that the losses read. Nodes that are not computed are ignored.
std::vector<LabelInfo> find_labels(const Graph& graph, const std::vector<NodeId>& order, const Shapes& shapes) {
  std::map<VariableId, int64_t> classes;
  for (const NodeId id : order) {
    const Node& node = graph.node(id);
    if (!is_loss(node.op)) continue;
    const auto [known, is_new] = classes.try_emplace(graph.variable(node.inputs.back()).value(), shapes.output[id][0]);
    known->second = std::min(known->second, shapes.output[id][0]);
  }
  std::vector<LabelInfo> labels;
  labels.reserve(classes.size());
  for (const auto& [id, fewest] : classes) labels.push_back({id, graph.variables()[id].name, fewest});
  return labels;
}

std::vector<HeadInfo> find_heads(const Graph& graph, const Shapes& shapes) {
  std::vector<HeadInfo> heads;
  for (const NodeId id : graph.heads()) {
    const Node& node = graph.node(id);
    heads.push_back({.node = id,
                     .name = node.name,
                     .outputs = element_count(shapes.output[id]),
                     .label = is_loss(node.op) ? label_of(graph, shapes, id) : Shapes::kNowhere});
  }
  return heads;
}

template <class Info>
size_t place_of(const std::vector<Info>& infos, VariableId variable) {
  const auto found = std::ranges::find(infos, variable, &Info::variable);
  DT_CHECK(found != infos.end(), "variable {} is not read by any node that is computed", variable);
  return static_cast<size_t>(found - infos.begin());
}

int64_t elements(const std::vector<ParameterInfo>& infos) {
  int64_t sum = 0;
  for (const ParameterInfo& info : infos) sum += element_count(info.shape);
  return sum;
}

}  // namespace

size_t input_of(const Graph& graph, const Shapes& shapes, NodeId node) {
  return place_of(shapes.inputs, graph.variable(graph.node(node).inputs.front()).value());
}
size_t label_of(const Graph& graph, const Shapes& shapes, NodeId node) {
  return place_of(shapes.labels, graph.variable(graph.node(node).inputs.back()).value());
}

int64_t Shapes::parameter_elements() const {
  return elements(parameters);
}
int64_t Shapes::statistic_elements() const {
  return elements(statistics);
}

Result<Shapes> infer_shapes(const Graph& graph, std::span<const Shape> inputs) {
  DT_CHECK(!graph.nodes().empty(), "the graph has no nodes");
  const Node& output = graph.node(graph.output());
  DT_CHECK(std::holds_alternative<SoftmaxOutput>(output.op), "the output '{}' is a {}, but must be a SoftmaxOutput",
           output.name, op_name(output.op));
  const std::vector<VariableId> needed = graph.variables(Variable::Role::kInput);
  DT_TRY_VOID(check_inputs(graph, needed, inputs));
  Shapes shapes;
  std::vector<Shape> given(graph.variables().size());
  for (size_t i = 0; i < needed.size(); i++) {
    given[needed[i]] = inputs[i];
    shapes.inputs.push_back({needed[i], graph.variables()[needed[i]].name, inputs[i]});
  }
  std::vector<std::vector<Shape>> of_node;
  for (const Node& node : graph.nodes()) {
    std::vector<Shape> read;
    for (const NodeId input : node.data_inputs) read.push_back(shapes.output[input]);
    const bool is_input = std::holds_alternative<Input>(node.op);
    const Shape own = is_input ? given[graph.variable(node.inputs.front()).value()] : Shape{};
    DT_TRY(NodeShapes inferred, Inference(node, std::move(read), own).run());
    DT_TRY_VOID(check_sizes(node, inferred));
    shapes.output.push_back(std::move(inferred.output));
    of_node.push_back(std::move(inferred.parameters));
  }
  const std::vector<NodeId> order = graph.canonical_order();
  Parameters parameters(graph, shapes);
  for (const NodeId id : order) DT_TRY_VOID(parameters.read_by(id, of_node[id]));
  shapes.labels = find_labels(graph, order, shapes);
  shapes.heads = find_heads(graph, shapes);
  shapes.draws =
      std::ranges::any_of(order, [&](NodeId id) { return std::holds_alternative<Dropout>(graph.node(id).op); });
  return shapes;
}

Result<Shapes> infer_shapes(const Graph& graph, const Shape& image) {
  return infer_shapes(graph, std::span(&image, 1));
}

std::vector<int64_t> multiply_accumulates_by_node(const Graph& graph, const Shapes& shapes) {
  std::vector<int64_t> of_node(graph.nodes().size(), 0);
  for (const ParameterInfo& info : shapes.parameters) {
    if (info.kind != ParameterKind::kWeight) continue;
    for (const TensorUse& use : info.uses) {
      // Each weight is used once for each position of its node's output.
      const Shape& y = shapes.output[use.node];
      const bool is_convolution = std::holds_alternative<Convolution>(graph.node(use.node).op);
      of_node[use.node] += element_count(info.shape) * (is_convolution ? y[1] * y[2] : 1);
    }
  }
  return of_node;
}

int64_t multiply_accumulates(const Graph& graph, const Shapes& shapes) {
  const std::vector<int64_t> of_node = multiply_accumulates_by_node(graph, shapes);
  return std::accumulate(of_node.begin(), of_node.end(), int64_t{0});
}

}  // namespace dtrain::graph
