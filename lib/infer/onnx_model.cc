#include "infer/onnx_model.h"

#include <cerrno>
#include <cstring>
#include <fstream>
#include <initializer_list>
#include <limits>
#include <set>
#include <vector>

#include "base/overloaded.h"
#include "job/process/build_id.h"
#include "onnx.pb.h"

namespace dtrain::infer {
namespace {

using graph::NodeId;
using Names = std::vector<std::string>;

constexpr int64_t kIrVersion = 8, kOpset = 17;

// Writes a node of the model; its attributes are then added one by one.
class NodeWriter {
 public:
  NodeWriter(onnx::GraphProto& graph, const std::string& type, const Names& inputs, const std::string& output)
      : node_(*graph.add_node()) {
    node_.set_op_type(type);
    node_.set_name(output);
    for (const std::string& input : inputs) node_.add_input(input);
    node_.add_output(output);
  }

  NodeWriter& number(const std::string& name, int64_t value) {
    onnx::AttributeProto& attribute = add(name, onnx::AttributeProto::INT);
    attribute.set_i(value);
    return *this;
  }
  NodeWriter& real(const std::string& name, double value) {
    onnx::AttributeProto& attribute = add(name, onnx::AttributeProto::FLOAT);
    attribute.set_f(static_cast<float>(value));
    return *this;
  }
  NodeWriter& text(const std::string& name, const std::string& value) {
    onnx::AttributeProto& attribute = add(name, onnx::AttributeProto::STRING);
    attribute.set_s(value);
    return *this;
  }
  NodeWriter& numbers(const std::string& name, const std::vector<int64_t>& values) {
    onnx::AttributeProto& attribute = add(name, onnx::AttributeProto::INTS);
    for (const int64_t value : values) attribute.add_ints(value);
    return *this;
  }

 private:
  onnx::AttributeProto& add(const std::string& name, onnx::AttributeProto::AttributeType type) {
    onnx::AttributeProto& attribute = *node_.add_attribute();
    attribute.set_name(name);
    attribute.set_type(type);
    return attribute;
  }

  onnx::NodeProto& node_;
};

// The windows of a pooling along one axis. `beyond` is how far the last window extends beyond the padded map.
struct Axis {
  int64_t size, outputs, kernel, stride, pad;
  [[nodiscard]] int64_t end() const { return (outputs - 1) * stride + kernel - size - pad; }
  [[nodiscard]] int64_t beyond() const { return end() - pad; }
};

class OnnxWriter {
 public:
  explicit OnnxWriter(const OnnxNetwork& network) : network_(network), graph_(*model_.mutable_graph()) {}

  Result<std::string> run() {
    model_.set_ir_version(kIrVersion);
    model_.set_producer_name("dtrain");
    model_.set_producer_version(std::string(job::build_id()));
    model_.add_opset_import()->set_version(kOpset);
    for (const auto& [key, value] : network_.metadata) {
      onnx::StringStringEntryProto& entry = *model_.add_metadata_props();
      entry.set_key(key);
      entry.set_value(value);
    }
    graph_.set_name(network_.name);
    for (const auto* spans : {&network_.values.parameters, &network_.values.statistics}) {
      for (const ParameterSpan& span : *spans) names_.insert(span.name);
    }
    for (const NodeId id : network_.graph.canonical_order()) add(id);
    for (const NodeId head : network_.graph.heads()) add_value(*graph_.add_output(), head);
    return bytes();
  }

 private:
  Result<std::string> bytes() {
    if (model_.ByteSizeLong() > static_cast<size_t>(std::numeric_limits<int32_t>::max())) {
      return fail(Code::kUsage,
                  "the model has {} bytes, but an .onnx file can have at most 2 GiB: use --format safetensors",
                  model_.ByteSizeLong());
    }
    std::string bytes;
    model_.SerializeToString(&bytes);
    return bytes;
  }

  [[nodiscard]] const graph::Node& node(NodeId id) const { return network_.graph.node(id); }
  [[nodiscard]] const Shape& shape(NodeId id) const { return network_.shapes.output[id]; }
  [[nodiscard]] const std::string& value(NodeId id) const { return values_.at(id); }
  [[nodiscard]] const std::string& input(NodeId id, size_t i = 0) const { return value(node(id).data_inputs[i]); }
  [[nodiscard]] const Shape& input_shape(NodeId id) const { return shape(node(id).data_inputs[0]); }

  // The name for a new value: `wanted`, with underscores appended as long as a variable or another value has that name.
  std::string unused(std::string wanted) {
    while (!names_.insert(wanted).second) wanted += "_";
    return wanted;
  }

  void add_value(onnx::ValueInfoProto& info, NodeId id) {
    info.set_name(value(id));
    onnx::TypeProto::Tensor& tensor = *info.mutable_type()->mutable_tensor_type();
    tensor.set_elem_type(onnx::TensorProto::FLOAT);
    tensor.mutable_shape()->add_dim()->set_dim_param("batch");
    for (const int64_t extent : shape(id)) tensor.mutable_shape()->add_dim()->set_dim_value(extent);
  }

  NodeWriter emit(const std::string& type, const Names& inputs, const std::string& output) {
    return {graph_, type, inputs, output};
  }

  template <class T>
  std::string constant(const std::string& name, const Shape& shape, const std::vector<T>& values) {
    onnx::TensorProto& tensor = *graph_.add_initializer();
    tensor.set_name(unused(name));
    tensor.set_data_type(std::is_same_v<T, float> ? onnx::TensorProto::FLOAT : onnx::TensorProto::INT64);
    for (const int64_t extent : shape) tensor.add_dims(extent);
    tensor.set_raw_data(values.data(), values.size() * sizeof(T));
    return tensor.name();
  }

  // The name of the learned array or statistic that the node has as its input number `argument`. The first call for an
  // array also adds the array to the model.
  std::string parameter(NodeId id, size_t argument) {
    const graph::VariableId variable = *network_.graph.variable(node(id).inputs[argument]);
    const bool learned = network_.graph.variables()[variable].role == graph::Variable::Role::kLearned;
    const size_t position = network_.shapes.position[variable];
    const ParameterSpan& span = (learned ? network_.values.parameters : network_.values.statistics)[position];
    if (!added_.insert(span.name).second) return span.name;
    onnx::TensorProto& tensor = *graph_.add_initializer();
    tensor.set_name(span.name);
    tensor.set_data_type(onnx::TensorProto::FLOAT);
    for (const int64_t extent : span.shape) tensor.add_dims(extent);
    tensor.set_raw_data(span.weight.data(), span.weight.size_bytes());
    return span.name;
  }

  void add(NodeId id) {
    values_[id] = unused(node(id).name);
    const std::string& y = value(id);
    std::visit(Overloaded{[&](const graph::Input&) { add_value(*graph_.add_input(), id); },
                          [&](const graph::Convolution& op) { add(id, op); },
                          [&](const graph::FullyConnected& op) { add(id, op); },
                          [&](const graph::BatchNorm& op) { add(id, op); },
                          [&](const graph::Activation& op) { emit(type_of(op.kind), {input(id)}, y); },
                          [&](const graph::Pooling& op) { add(id, op); },
                          [&](const graph::Concat&) { emit("Concat", inputs(id), y).number("axis", 1); },
                          [&](const graph::Add&) { emit("Sum", inputs(id), y); },
                          [&](const graph::Flatten&) { emit("Flatten", {input(id)}, y).number("axis", 1); },
                          [&](const graph::Identity&) { emit("Identity", {input(id)}, y); },
                          [&](const graph::Dropout&) { emit("Identity", {input(id)}, y); },
                          [&](const graph::Scale& op) { scale(input(id), op.factor, y); },
                          [&](const graph::LocalResponseNorm& op) {
                            emit("LRN", {input(id)}, y)
                                .real("alpha", op.alpha)
                                .real("beta", op.beta)
                                .real("bias", op.k)
                                .number("size", op.size);
                          },
                          [&](const graph::SpatialTransformer& op) { add(id, op); },
                          [&](const graph::SoftmaxOutput&) { emit("Softmax", {input(id)}, y).number("axis", 1); }},
               node(id).op);
  }

  [[nodiscard]] Names inputs(NodeId id) const {
    Names names;
    for (size_t i = 0; i < node(id).data_inputs.size(); i++) names.push_back(input(id, i));
    return names;
  }

  static std::string type_of(graph::Activation::Kind kind) {
    switch (kind) {
      case graph::Activation::Kind::kRelu: return "Relu";
      case graph::Activation::Kind::kTanh: return "Tanh";
      case graph::Activation::Kind::kSigmoid: return "Sigmoid";
      case graph::Activation::Kind::kSoftrelu: return "Softplus";
      case graph::Activation::Kind::kSoftsign: return "Softsign";
    }
    return "";
  }

  void scale(const std::string& x, double factor, const std::string& y) {
    const std::string by = constant<float>(y + "_factor", {}, {static_cast<float>(factor)});
    emit("Mul", {x, by}, y);
  }

  void add(NodeId id, const graph::Convolution& op) {
    Names inputs = {input(id), parameter(id, op.kWeight)};
    if (op.bias) inputs.push_back(parameter(id, op.kBias));
    emit("Conv", inputs, value(id))
        .numbers("kernel_shape", {op.kernel_h, op.kernel_w})
        .numbers("strides", {op.stride_h, op.stride_w})
        .numbers("pads", {op.pad_h, op.pad_w, op.pad_h, op.pad_w})
        .numbers("dilations", {op.dilation_h, op.dilation_w})
        .number("group", op.groups);
  }

  void add(NodeId id, const graph::FullyConnected& op) {
    std::string x = input(id);
    if (input_shape(id).size() == 3) {
      const std::string flat = unused(value(id) + "_flat");
      emit("Flatten", {x}, flat).number("axis", 1);
      x = flat;
    }
    Names inputs = {x, parameter(id, op.kWeight)};
    if (op.bias) inputs.push_back(parameter(id, op.kBias));
    emit("Gemm", inputs, value(id)).number("transB", 1);
  }

  // If gamma is fixed, an array of ones is used instead of the learned gamma, which another batch norm may read.
  void add(NodeId id, const graph::BatchNorm& op) {
    const int64_t channels = shape(id)[0];
    const std::string gamma = op.fix_gamma ? constant<float>(value(id) + "_ones", {channels},
                                                             std::vector<float>(static_cast<size_t>(channels), 1))
                                           : parameter(id, op.kGamma);
    emit("BatchNormalization",
         {input(id), gamma, parameter(id, op.kBeta), parameter(id, op.kMean), parameter(id, op.kVariance)}, value(id))
        .real("epsilon", op.epsilon);
  }

  void add(NodeId id, const graph::Pooling& op) {
    using Kind = graph::Pooling::Kind;
    const double cells = op.global ? static_cast<double>(input_shape(id)[1] * input_shape(id)[2])
                                   : static_cast<double>(op.kernel_h * op.kernel_w);
    const std::string y = op.kind == Kind::kSum ? unused(value(id) + "_mean") : value(id);
    if (op.global) {
      emit(op.kind == Kind::kMax ? "GlobalMaxPool" : "GlobalAveragePool", {input(id)}, y);
    } else {
      add_windows(id, op, y);
    }
    if (op.kind == Kind::kSum) scale(y, cells, value(id));
  }

  // The padding at the end is chosen so that there are exactly as many windows as in the node, whatever ONNX's rounding
  // rules are.
  void add_windows(NodeId id, const graph::Pooling& op, const std::string& y) {
    const Shape &from = input_shape(id), &to = shape(id);
    const Axis h{from[1], to[1], op.kernel_h, op.stride_h, op.pad_h},
        w{from[2], to[2], op.kernel_w, op.stride_w, op.pad_w};
    const bool maximum = op.kind == graph::Pooling::Kind::kMax;
    const bool clipped = h.beyond() > 0 || w.beyond() > 0;
    const bool by_padded = op.kind == graph::Pooling::Kind::kAverage && op.divisor == graph::Pooling::Divisor::kPadded;
    const bool by_real = op.kind == graph::Pooling::Kind::kAverage && op.divisor == graph::Pooling::Divisor::kReal;
    std::string x = input(id);
    std::vector<int64_t> pads = {h.pad, w.pad, h.end(), w.end()};
    if (by_padded && clipped) {
      // The divisor must count the padding, but not the cells beyond it, so a separate node makes the padding part of
      // the map.
      const std::string padded = unused(value(id) + "_padded");
      emit("Pad", {x, constant<int64_t>(padded + "_by", {8}, {0, 0, h.pad, w.pad, 0, 0, h.pad, w.pad})}, padded);
      x = padded;
      pads = {0, 0, h.beyond(), w.beyond()};
    }
    // A negative padding means that a large stride leaves cells at the end that no window reads; it is replaced by 0.
    for (int64_t& pad : pads) pad = std::max<int64_t>(pad, 0);
    NodeWriter node = emit(maximum ? "MaxPool" : "AveragePool", {x}, y);
    node.numbers("kernel_shape", {op.kernel_h, op.kernel_w}).numbers("strides", {op.stride_h, op.stride_w});
    node.numbers("pads", pads);
    if (!maximum) node.number("count_include_pad", by_real || (by_padded && clipped) ? 0 : 1);
  }

  // The sampling grid is the product of the transformation matrix and the coordinates of the outputs.
  void add(NodeId id, const graph::SpatialTransformer& op) {
    const std::string& y = value(id);
    std::vector<float> coordinates(static_cast<size_t>(3 * op.height * op.width), 1);
    for (int64_t i = 0; i < op.height * op.width; i++) {
      const int64_t row = i / op.width, column = i % op.width;
      const auto at = static_cast<size_t>(i);
      coordinates[at] = 2 * static_cast<float>(column) / static_cast<float>(op.width - 1) - 1;
      coordinates[at + static_cast<size_t>(op.height * op.width)] =
          2 * static_cast<float>(row) / static_cast<float>(op.height - 1) - 1;
    }
    const std::string outputs = constant(y + "_coordinates", {3, op.height * op.width}, coordinates);
    const std::string matrix_shape = constant<int64_t>(y + "_matrix_shape", {3}, {-1, 2, 3});
    const std::string grid_shape = constant<int64_t>(y + "_grid_shape", {4}, {-1, op.height, op.width, 2});
    const std::string matrix = unused(y + "_matrix"), places = unused(y + "_places"), pairs = unused(y + "_pairs"),
                      grid = unused(y + "_grid");
    emit("Reshape", {input(id, 1), matrix_shape}, matrix);
    emit("MatMul", {matrix, outputs}, places);
    emit("Transpose", {places}, pairs).numbers("perm", {0, 2, 1});
    emit("Reshape", {pairs, grid_shape}, grid);
    emit("GridSample", {input(id), grid}, y)
        .text("mode", "bilinear")
        .text("padding_mode", "zeros")
        .number("align_corners", 1);
  }

  const OnnxNetwork& network_;
  onnx::ModelProto model_;
  onnx::GraphProto& graph_;
  std::map<NodeId, std::string> values_;  // the names of the nodes' outputs
  std::set<std::string> names_, added_;   // names that are in use; variables that were added to the model
};

std::string type_name(int32_t type) {
  using Type = onnx::TensorProto;
  return type == Type::FLOAT ? "float32" : type == Type::INT64 ? "int64" : fmt::format("type {}", type);
}

}  // namespace

Result<std::string> onnx_bytes(const OnnxNetwork& network) {
  return OnnxWriter(network).run();
}

Result<StoredModel> read_onnx(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) return fail(Code::kNotFound, "cannot read '{}': {}", path, std::strerror(errno));
  onnx::ModelProto proto;
  if (!proto.ParseFromIstream(&file) || !proto.has_graph()) {
    return fail(Code::kData, "{}: the file is not an ONNX model, or it is damaged", path);
  }
  StoredModel model;
  for (const onnx::StringStringEntryProto& entry : proto.metadata_props()) model.metadata[entry.key()] = entry.value();
  for (const onnx::TensorProto& tensor : proto.graph().initializer()) {
    ArrayInfo array{tensor.name(), type_name(tensor.data_type()), {tensor.dims().begin(), tensor.dims().end()}};
    DT_TRY_VOID(check_shape(array), "reading {}", path);
    model.arrays.push_back(std::move(array));
  }
  return model;
}

}  // namespace dtrain::infer
