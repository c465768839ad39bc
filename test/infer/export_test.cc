// What dtrain export writes. test/bench/peers/onnx_outputs.py compares the outputs with ONNX Runtime's.
#include "infer/export.h"

#include <nlohmann/json.hpp>

#include "base/file.h"
#include "exec/contract.h"
#include "graph/models/builder.h"
#include "infer/export_metadata.h"
#include "infer/onnx_model.h"
#include "infer/safetensors.h"
#include "onnx.pb.h"
#include "support/catch.h"
#include "support/must.h"
#include "support/temp_dir.h"

namespace dtrain::infer {
namespace {

using namespace dtrain::graph;
using dtrain::test::must;
using Windows = std::vector<int64_t>;

struct Model {
  Graph graph;
  Shape image;
  Shapes shapes;
  ParameterMemory values;

  Model(Graph made, Shape of_image)
      : graph(std::move(made)),
        image(std::move(of_image)),
        shapes(infer_shapes(graph, image).value()),
        values(exec::parameter_memory(shapes, exec::Options::Purpose::kInference)) {
    float next = 0;
    for (const auto* spans : {&values.view().parameters, &values.view().statistics}) {
      for (const ParameterSpan& span : *spans) {
        for (float& x : span.weight) x = next++;
      }
    }
  }

  [[nodiscard]] onnx::ModelProto onnx() const {
    onnx::ModelProto model;
    const ParameterView& view = values.view();
    REQUIRE(model.ParseFromString(
        onnx_bytes({.graph = graph, .shapes = shapes, .values = view, .image = image, .name = "net"}).value()));
    return model;
  }
};

// One operator between the images and a fully connected layer.
Model with(const Op& op, const Shape& image) {
  Graph g;
  const NodeId x = g.add("op", op, {g.add("data", Input{}, {})});
  g.add("softmax", SoftmaxOutput{}, {g.add("fc", FullyConnected{.outputs = 2}, {x})});
  return {std::move(g), image};
}

const onnx::NodeProto& node_of(const onnx::ModelProto& model, const std::string& output) {
  for (const onnx::NodeProto& node : model.graph().node()) {
    if (node.output(0) == output) return node;
  }
  FAIL("no node makes " << output);
  return model.graph().node(0);
}

Windows numbers(const onnx::NodeProto& node, const std::string& name) {
  for (const onnx::AttributeProto& attribute : node.attribute()) {
    if (attribute.name() == name) return {attribute.ints().begin(), attribute.ints().end()};
  }
  return {};
}
int64_t number(const onnx::NodeProto& node, const std::string& name) {
  for (const onnx::AttributeProto& attribute : node.attribute()) {
    if (attribute.name() == name) return attribute.i();
  }
  return -1;
}

const onnx::TensorProto& tensor_of(const onnx::ModelProto& model, const std::string& name) {
  for (const onnx::TensorProto& tensor : model.graph().initializer()) {
    if (tensor.name() == name) return tensor;
  }
  FAIL("no tensor " << name);
  return model.graph().initializer(0);
}

std::string type_of(const Op& op, const Shape& image = {4, 6, 6}) {
  const onnx::ModelProto model = with(op, image).onnx();
  return node_of(model, "op").op_type();
}

}  // namespace

TEST_CASE("a model for ONNX has the network's nodes, arrays, input and output", "[infer][export]") {
  const Model made = with(
      Convolution{.filters = 3, .kernel_h = 3, .kernel_w = 2, .stride_h = 2, .pad_h = 1, .groups = 1, .dilation_w = 2},
      {4, 7, 8});
  const onnx::ModelProto model = made.onnx();
  CHECK(model.ir_version() == 8);
  CHECK(model.opset_import(0).version() == 17);
  CHECK(model.producer_name() == "dtrain");
  REQUIRE(model.graph().input_size() == 1);
  const onnx::TypeProto::Tensor& input = model.graph().input(0).type().tensor_type();
  CHECK(model.graph().input(0).name() == "data");
  CHECK(input.shape().dim(0).dim_param() == "batch");
  CHECK(input.shape().dim(3).dim_value() == 8);
  REQUIRE(model.graph().output_size() == 1);
  CHECK(model.graph().output(0).name() == "softmax");
  CHECK(model.graph().output(0).type().tensor_type().shape().dim(1).dim_value() == 2);
  const onnx::NodeProto& convolution = node_of(model, "op");
  CHECK(convolution.op_type() == "Conv");
  CHECK(convolution.input_size() == 3);
  CHECK(numbers(convolution, "kernel_shape") == Windows{3, 2});
  CHECK(numbers(convolution, "strides") == Windows{2, 1});
  CHECK(numbers(convolution, "pads") == Windows{1, 0, 1, 0});
  CHECK(numbers(convolution, "dilations") == Windows{1, 2});
  const onnx::TensorProto& weight = tensor_of(model, "op_weight");
  CHECK(Windows(weight.dims().begin(), weight.dims().end()) == Windows{3, 4, 3, 2});
  CHECK(weight.raw_data().size() == 72 * sizeof(float));
  CHECK(weight.raw_data() ==
        std::string(reinterpret_cast<const char*>(made.values.view().parameters[0].weight.data()), 72 * sizeof(float)));
  CHECK(node_of(model, "fc").op_type() == "Gemm");
  CHECK(number(node_of(model, "fc"), "transB") == 1);
  CHECK(node_of(model, "fc").input(0) == "fc_flat");  // a map is flattened first
}

TEST_CASE("every operator has its node in ONNX", "[infer][export]") {
  using Kind = Activation::Kind;
  CHECK(type_of(Activation{Kind::kRelu}) == "Relu");
  CHECK(type_of(Activation{Kind::kTanh}) == "Tanh");
  CHECK(type_of(Activation{Kind::kSigmoid}) == "Sigmoid");
  CHECK(type_of(Activation{Kind::kSoftrelu}) == "Softplus");
  CHECK(type_of(Activation{Kind::kSoftsign}) == "Softsign");
  CHECK(type_of(Flatten{}) == "Flatten");
  CHECK(type_of(Identity{}) == "Identity");
  CHECK(type_of(Dropout{0.5}) == "Identity");
  CHECK(type_of(Scale{0.5}) == "Mul");
  CHECK(type_of(Add{}) == "Sum");
  CHECK(type_of(Concat{}) == "Concat");
  CHECK(type_of(LocalResponseNorm{}) == "LRN");
  CHECK(type_of(Pooling{.global = true}) == "GlobalMaxPool");
  CHECK(type_of(Pooling{.kind = Pooling::Kind::kAverage, .global = true}) == "GlobalAveragePool");
  CHECK(type_of(Pooling{.kind = Pooling::Kind::kSum, .global = true}) == "Mul");
  CHECK(type_of(BatchNorm{}) == "BatchNormalization");
  Graph g;
  const NodeId data = g.add("data", Input{}, {}), numbers = g.add("six", FullyConnected{.outputs = 6}, {data});
  const NodeId x = g.add("op", SpatialTransformer{4, 5}, {data, numbers});
  g.add("softmax", SoftmaxOutput{}, {g.add("fc", FullyConnected{.outputs = 2}, {x})});
  const onnx::ModelProto model = Model(std::move(g), {1, 6, 6}).onnx();
  CHECK(node_of(model, "op").op_type() == "GridSample");
  CHECK(tensor_of(model, "op_coordinates").dims(1) == 20);
}

// Pads at the end give dtrain's number of windows, whatever ONNX would round.
TEST_CASE("poolings in ONNX have the windows and divisors of the network", "[infer][export]") {
  const auto exported = [](Pooling::Kind kind, int64_t size, int64_t pad, Pooling::Rounding rounding,
                           Pooling::Divisor divisor) {
    return with(pooling(kind, 3, 2, pad, rounding, divisor), {4, size, size}).onnx();
  };
  using Kind = Pooling::Kind;
  using Rounding = Pooling::Rounding;
  using Divisor = Pooling::Divisor;
  const auto full = exported(Kind::kMax, 6, 0, Rounding::kFull, Divisor::kPadded);
  CHECK(numbers(node_of(full, "op"), "pads") == Windows{0, 0, 1, 1});
  const auto valid = exported(Kind::kAverage, 6, 1, Rounding::kValid, Divisor::kPadded);
  CHECK(numbers(node_of(valid, "op"), "pads") == Windows{1, 1, 0, 0});
  CHECK(number(node_of(valid, "op"), "count_include_pad") == 1);
  const auto clipped = exported(Kind::kAverage, 6, 1, Rounding::kFull, Divisor::kPadded);
  CHECK(node_of(clipped, "op_padded").op_type() == "Pad");
  CHECK(node_of(clipped, "op").input(0) == "op_padded");
  CHECK(numbers(node_of(clipped, "op"), "pads") == Windows{0, 0, 1, 1});
  CHECK(number(node_of(clipped, "op"), "count_include_pad") == 0);
  const auto real = exported(Kind::kAverage, 6, 1, Rounding::kFull, Divisor::kReal);
  CHECK(number(node_of(real, "op"), "count_include_pad") == 0);
  const auto whole = exported(Kind::kAverage, 6, 0, Rounding::kV07, Divisor::kKernel);
  CHECK(number(node_of(whole, "op"), "count_include_pad") == 1);
  CHECK(numbers(node_of(whole, "op"), "pads") == Windows{0, 0, 1, 1});
}

// The gamma that counts as 1 may be learned by another layer that shares it.
TEST_CASE("a gamma that counts as 1 is a tensor of ones in ONNX", "[infer][export]") {
  const onnx::ModelProto model = with(BatchNorm{.fix_gamma = true}, {4, 6, 6}).onnx();
  CHECK(node_of(model, "op").input(1) == "op_ones");
  const std::string ones = tensor_of(model, "op_ones").raw_data();
  const std::vector<float> expected(4, 1.0F);
  CHECK(ones == std::string(reinterpret_cast<const char*>(expected.data()), 16));
}

TEST_CASE("a shared weight is stored once, and names never clash", "[infer][export]") {
  Graph g;
  const NodeId data = g.add("data", Input{}, {});
  const NodeId a = g.add("a", Convolution{.filters = 1}, {data});
  std::vector<TensorId> shared = g.node(a).inputs;
  shared[0] = g.tensor(Edge{a});
  const NodeId b = g.add_reader("a_weight", Convolution{.filters = 1}, shared);  // a node with a variable's name
  g.add("softmax", SoftmaxOutput{}, {g.add("fc", FullyConnected{.outputs = 2}, {b})});
  const onnx::ModelProto model = Model(std::move(g), {1, 3, 3}).onnx();
  CHECK(model.graph().initializer_size() == 4);
  CHECK(node_of(model, "a_weight_").input(1) == "a_weight");
}

TEST_CASE("the header of a safetensors file says where the arrays are", "[infer][export]") {
  const Model model = with(Activation{}, {1, 2, 2});
  std::vector<const ParameterSpan*> arrays;
  for (const ParameterSpan& span : model.values.view().parameters) arrays.push_back(&span);
  const std::string header = safetensors_header(arrays, {{"network", "net"}});
  uint64_t length = 0;
  for (size_t i = 8; i-- > 0;) length = length << 8 | static_cast<uint8_t>(header[i]);
  REQUIRE(header.size() == 8 + length);
  CHECK(length % 8 == 0);
  const auto json = nlohmann::json::parse(header.substr(8));
  CHECK(json == nlohmann::json::parse(R"({"__metadata__": {"network": "net"},
      "fc_weight": {"dtype": "F32", "shape": [2, 4], "data_offsets": [0, 32]},
      "fc_bias": {"dtype": "F32", "shape": [2], "data_offsets": [32, 40]}})"));
}

TEST_CASE("exported files say how images become floats, and are read back", "[infer][export]") {
  TrainedModel trained{.params = "run/net-0001.params", .flags = {}};
  job::NetworkFlags& network = trained.flags.job.network;
  network.network = "net";
  network.image_shape = {3, 6, 8};
  network.num_classes = 2;
  job::AugmentFlags& augment = trained.flags.job.augment;
  augment.rgb_mean = {123.68, 116.779, 103.939};
  augment.scale = 0.5;
  const std::map<std::string, std::string> metadata = export_metadata(trained, {"cat", "big \"dog\""});
  CHECK(metadata == std::map<std::string, std::string>{{"network", "net"},
                                                       {"image_shape", "3,6,8"},
                                                       {"num_classes", "2"},
                                                       {"channel_order", "RGB"},
                                                       {"rgb_mean", "123.68,116.779,103.939"},
                                                       {"rgb_std", "1,1,1"},
                                                       {"scale", "0.5"},
                                                       {"class_names", R"(["cat","big \"dog\""])"}});
  const Model model = with(Activation{}, {3, 6, 8});
  const ParameterView& view = model.values.view();
  const dtrain::test::TempDir dir;
  must(write_file_atomic(dir.path("a.onnx"), must(onnx_bytes({.graph = model.graph,
                                                              .shapes = model.shapes,
                                                              .values = view,
                                                              .image = model.image,
                                                              .name = "net",
                                                              .metadata = metadata}))));
  std::string file = safetensors_header({&view.parameters[0], &view.parameters[1]}, metadata);
  must(write_file_atomic(dir.path("cut.safetensors"), file));
  file.append(view.parameters[0].weight.size_bytes() + view.parameters[1].weight.size_bytes(), '\0');
  must(write_file_atomic(dir.path("a.safetensors"), file));
  for (const StoredModel& read :
       {must(read_onnx(dir.path("a.onnx"))), must(read_safetensors(dir.path("a.safetensors")))}) {
    CHECK(read.metadata == metadata);
    REQUIRE(read.arrays.size() == 2);
    CHECK(read.arrays[0].name == "fc_weight");
    CHECK(read.arrays[0].type == "float32");
    CHECK(read.arrays[0].shape == Shape{2, 144});
  }
  CHECK(read_safetensors(dir.path("cut.safetensors")).error().code == Code::kData);
}

TEST_CASE("metadata leave out what a model's files do not tell", "[infer][export]") {
  TrainedModel trained{.params = "net-0001.params", .flags = {}};
  trained.flags.job.network.image_shape = {1, 28, 28};
  trained.flags.job.augment.rgb_mean = {0};
  const auto has = [&](const std::string& key) { return export_metadata(trained, {}).contains(key); };
  CHECK(export_metadata(trained, {}).at("rgb_mean") == "0");
  CHECK(export_metadata(trained, {}).at("channel_order") == "gray");
  CHECK(!has("class_names"));
  trained.has_mean_image = true;
  CHECK(export_metadata(trained, {}).at("mean_image") == "1");
  CHECK(!has("rgb_mean"));
  CHECK(has("scale"));
  trained.has_mean_image = trained.knows_pixels = false;
  CHECK(!has("rgb_mean"));
  CHECK(!has("rgb_std"));
  CHECK(!has("scale"));
}

TEST_CASE("damaged files of other programs are refused", "[infer][export]") {
  const dtrain::test::TempDir dir;
  const std::string path = dir.path("a.safetensors");
  const Model model = with(Activation{}, {1, 2, 2});
  const std::string header = safetensors_header({&model.values.view().parameters[0]}, {{"network", "net"}});
  const std::string whole = header + std::string(32, '\0');
  for (size_t length = 0; length < whole.size(); length++) {
    must(write_file_atomic(path, whole.substr(0, length)));
    CHECK(read_safetensors(path).error().code == Code::kData);
  }
  for (size_t i = 0; i < header.size(); i++) {
    std::string broken = whole;
    broken[i] = static_cast<char>(broken[i] ^ 1);
    must(write_file_atomic(path, broken));
    if (const auto read = read_safetensors(path)) CHECK(read->arrays.size() <= 2);
  }
  CHECK(read_safetensors(dir.path("none.safetensors")).error().code == Code::kNotFound);
  CHECK(read_onnx(dir.path("none.onnx")).error().code == Code::kNotFound);
  must(write_file_atomic(dir.path("broken.onnx"), "no model"));
  CHECK(read_onnx(dir.path("broken.onnx")).error().code == Code::kData);
}

TEST_CASE("a file's ending says its format", "[infer][export]") {
  CHECK(format_of("a/b.onnx") == ExportOptions::Format::kOnnx);
  CHECK(format_of("b.safetensors") == ExportOptions::Format::kSafetensors);
  CHECK(format_of("b.pt") == std::nullopt);
  CHECK(format_of("") == std::nullopt);
}

}  // namespace dtrain::infer
