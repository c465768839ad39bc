#include "cuda/dnn/convolution.h"

#include "cuda/dnn/networks.h"
#include "support/catch.h"

namespace dtrain::cuda {

TEST_CASE("a graph's convolutions are listed with their shapes, fully connected layers as those of one pixel",
          "[cuda]") {
  const std::vector<ConvolutionCase> layers = layers_of({"lenet", 10, {1, 28, 28}, true}, 64);
  REQUIRE(layers.size() == 4);
  CHECK(layers[0].shape.text() == "64x1x28x28 k20 5x5 s1 p0");
  CHECK(layers[1].shape.text() == "64x20x12x12 k50 5x5 s1 p0");
  CHECK(layers[2].shape.text() == "64x800x1x1 k500 1x1 s1 p0");
  CHECK(layers[3].shape.text() == "64x500x1x1 k10 1x1 s1 p0");
  CHECK_FALSE(layers[0].needs_dx);
  CHECK(layers[1].needs_dx);
  CHECK(layers[2].shape.op.bias);
}

// The multiply-accumulates of the listed layers must add up to the count that graph computes from its own shapes.
TEST_CASE("no layer is missing in any network", "[cuda]") {
  for (const Network& network : networks()) {
    INFO(network.name);
    const graph::Graph graph = test::must(
        graph::build_model({.network = network.name, .num_classes = network.classes, .image = network.image}));
    const graph::Shapes shapes = test::must(graph::infer_shapes(graph, network.image));
    int64_t macs = 0;
    for (const ConvolutionCase& layer : convolutions_of(graph, shapes, 1)) {
      const ConvolutionShape& s = layer.shape;
      const int64_t window = s.c / s.op.groups * s.op.kernel_h * s.op.kernel_w;
      macs += s.n * s.op.filters * s.p() * s.q() * window;
    }
    CHECK(macs == multiply_accumulates(graph, shapes));
  }
}

TEST_CASE("no gradient flows into images unless a learned layer is in front of the first convolution", "[cuda]") {
  CHECK_FALSE(layers_of({"mlp", 10, {1, 28, 28}, true}, 1)[0].needs_dx);  // through Flatten
  CHECK_FALSE(layers_of({"inception-bn", 10, {3, 28, 28}, true}, 1)[0].needs_dx);
  CHECK(layers_of({"resnet-20", 10, {3, 28, 28}, true}, 1)[0].needs_dx);  // bn_data
}

TEST_CASE("the text of a pass has everything on which a plan depends", "[cuda]") {
  ConvolutionPass pass{.shape = {256, 64, 56, 56, {.filters = 64, .kernel_h = 3, .kernel_w = 3}}};
  const std::string plain = pass.text();
  CHECK(plain == "forward + bias float32 256x64x56x56 k64 3x3 s1 p0");
  std::vector<std::string> texts = {plain};
  const auto with = [&](auto change) {
    ConvolutionPass changed = pass;
    change(changed);
    texts.push_back(changed.text());
  };
  with([](ConvolutionPass& p) { p.type = Type::kFloat16; });
  with([](ConvolutionPass& p) { p.type = Type::kBfloat16; });
  with([](ConvolutionPass& p) { p.pass = Pass::kBackwardData; });
  with([](ConvolutionPass& p) { p.pass = Pass::kBackwardFilter; });
  with([](ConvolutionPass& p) { p.pass = Pass::kForwardStatistics; });
  with([](ConvolutionPass& p) { p.shape.n = 128; });
  with([](ConvolutionPass& p) { p.shape.c = 32; });
  with([](ConvolutionPass& p) { p.shape.h = 28; });
  with([](ConvolutionPass& p) { p.shape.w = 28; });
  with([](ConvolutionPass& p) { p.shape.x_pitch = 256; });
  with([](ConvolutionPass& p) { p.shape.y_pitch = 256; });
  with([](ConvolutionPass& p) { p.shape.op.filters = 32; });
  with([](ConvolutionPass& p) { p.shape.op.kernel_h = 1; });
  with([](ConvolutionPass& p) { p.shape.op.kernel_w = 1; });
  with([](ConvolutionPass& p) { p.shape.op.stride_h = 2; });
  with([](ConvolutionPass& p) { p.shape.op.stride_w = 2; });
  with([](ConvolutionPass& p) { p.shape.op.pad_h = 1; });
  with([](ConvolutionPass& p) { p.shape.op.pad_w = 1; });
  with([](ConvolutionPass& p) { p.shape.op.groups = 2; });
  with([](ConvolutionPass& p) { p.shape.op.bias = false; });
  for (size_t i = 0; i < texts.size(); i++) {
    for (size_t j = 0; j < i; j++) CHECK(texts[i] != texts[j]);
  }
}

TEST_CASE("an invalid device description is refused and named", "[cuda]") {
  for (const char* json : {"", "{", "[]", "null", "\"NVIDIA H200\""}) {
    INFO(json);
    const Result<Device> device = Device::described(json);
    REQUIRE_FALSE(device);
    CHECK(device.error().code == Code::kUsage);
  }
}

TEST_CASE("a described device is identified by its name, architecture, driver and library", "[cuda]") {
  CHECK(h200().identity() == "NVIDIA H200, sm_90, 132 SMs, driver 13.0, cuDNN " + cudnn_version_text());
}

}  // namespace dtrain::cuda
