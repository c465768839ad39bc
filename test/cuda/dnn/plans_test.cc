// Makes cuDNN's plans for every layer of the networks on an H200, from the description in h200.json and with the
// builder that the executor uses. The choices are in plans_sm90.txt, which is reviewed as a diff when it changes;
// DTRAIN_REWRITE_GOLDEN=1 rewrites it. Nothing is run: this shows that a plan exists, not that it is fast or correct.
#include <fmt/ranges.h>
#include <chrono>
#include <cstdlib>
#include <iostream>
#include <map>
#include <set>

#include "cuda/dnn/networks.h"
#include "cuda/dnn/planner.h"
#include "support/catch.h"

namespace dtrain::cuda {

namespace {

constexpr int64_t kBatch = 256;
constexpr Type kTypes[] = {Type::kFloat16, Type::kBfloat16, Type::kFloat32};

// One shape, and the networks that have it.
struct Layer {
  ConvolutionShape shape;  // without bias
  bool needs_dx = false, has_bias = false, is_map = false, small = false;
  std::vector<std::string> networks = {};
};

void note(std::vector<Layer>& layers, std::map<std::string, size_t>& place, const ConvolutionCase& added,
          const Network& network) {
  ConvolutionShape shape = added.shape;
  shape.op.bias = false;
  const auto [at, is_new] = place.try_emplace(shape.text(), layers.size());
  if (is_new) layers.push_back({.shape = shape});
  Layer& layer = layers[at->second];
  layer.needs_dx |= added.needs_dx;
  layer.has_bias |= added.shape.op.bias;
  layer.is_map |= shape.p() * shape.q() > 1;
  layer.small |= network.small;
  if (layer.networks.empty() || layer.networks.back() != network.name) layer.networks.push_back(network.name);
}

// The distinct shapes of all networks, in order of appearance. Layers with 3 input channels, which read images, are
// also listed with 4 and 8 channels, because inputs are padded to 4 in float16 and to 8 in bfloat16.
std::vector<Layer> all_layers() {
  std::vector<Layer> layers;
  std::map<std::string, size_t> place;
  for (const Network& network : networks()) {
    for (ConvolutionCase& added : layers_of(network, kBatch)) {
      note(layers, place, added, network);
      if (added.shape.c != 3) continue;
      for (const int64_t padded : {4, 8}) {
        added.shape.c = padded;
        note(layers, place, added, network);
      }
    }
  }
  return layers;
}

ConvolutionPass pass_of(const Layer& layer, Pass pass, Type type, bool bias = false) {
  ConvolutionPass made{layer.shape, pass, type};
  made.shape.op.bias = bias;
  return made;
}

// The passes that the executor requests in training.
std::vector<ConvolutionPass> passes_of(const Layer& layer, Type type) {
  std::vector<ConvolutionPass> passes = {pass_of(layer, Pass::kForward, type)};
  if (layer.has_bias) passes.push_back(pass_of(layer, Pass::kForward, type, true));
  if (layer.needs_dx) passes.push_back(pass_of(layer, Pass::kBackwardData, type));
  passes.push_back(pass_of(layer, Pass::kBackwardFilter, type));
  return passes;
}

// The text of a pass without its shape: "forward + bias float16".
std::string head_of(const ConvolutionPass& pass) {
  return pass.text().substr(0, pass.text().size() - pass.shape.text().size() - 1);
}

std::string line_of(Planner& planner, const ConvolutionPass& pass) {
  const Result<Plan> plan = planner.plan(pass);
  if (!plan) {  // omits the device, which is in the first line of the file, and the advice
    const std::string& message = plan.error().message;
    const size_t begin = h200().identity().size() + 2;
    return fmt::format("  {:29} {}\n", head_of(pass), message.substr(begin, message.find("; use another") - begin));
  }
  return fmt::format("  {:29} {:>9} {}\n", head_of(pass), plan->workspace_bytes(), plan->tag());
}

std::string layers_text(Planner& planner, const std::vector<Layer>& layers) {
  std::string text;
  for (const Layer& layer : layers) {
    text += fmt::format("{}   {}\n", layer.shape.text(), fmt::join(layer.networks, ", "));
    for (const Type type : kTypes) {
      if (type != Type::kFloat16 && !layer.small) continue;
      for (const ConvolutionPass& pass : passes_of(layer, type)) text += line_of(planner, pass);
    }
  }
  return text;
}

// The fused form in float16, and once also in the types that have no engine for it.
std::string statistics_text(Planner& planner, const std::vector<Layer>& layers) {
  std::string text;
  std::set<Type> others = {Type::kBfloat16, Type::kFloat32};
  for (const Layer& layer : layers) {
    if (!layer.is_map) continue;
    text += layer.shape.text() + "\n";
    text += line_of(planner, pass_of(layer, Pass::kForwardStatistics, Type::kFloat16));
    if (layer.shape.c < 64) continue;
    for (const Type type : others) text += line_of(planner, pass_of(layer, Pass::kForwardStatistics, type));
    others.clear();  // once is enough
  }
  return text;
}

const ConvolutionShape kSquare{
    kBatch, 64, 56, 56, {.filters = 64, .kernel_h = 3, .kernel_w = 3, .pad_h = 1, .pad_w = 1, .bias = false}};

ConvolutionShape sliced(int64_t x_pitch, int64_t y_pitch) {
  ConvolutionShape shape = kSquare;
  shape.x_pitch = x_pitch;
  shape.y_pitch = y_pitch;
  return shape;
}

std::string slices_text(Planner& planner) {
  std::string text;
  for (const ConvolutionShape& shape : {kSquare, sliced(0, 256), sliced(256, 0)}) {
    text += shape.text() + "\n";
    for (const Pass pass : {Pass::kForward, Pass::kForwardStatistics, Pass::kBackwardData, Pass::kBackwardFilter}) {
      text += line_of(planner, {shape, pass, Type::kFloat16});
    }
  }
  return text;
}

std::string tf32_text() {
  Planner planner(h200(), {.tf32 = true});
  std::string text = kSquare.text() + "\n";
  for (const Pass pass : {Pass::kForward, Pass::kBackwardData, Pass::kBackwardFilter}) {
    text += line_of(planner, {kSquare, pass, Type::kFloat32});
  }
  return text;
}

std::string golden_text() {
  Planner planner(h200(), {});
  const std::vector<Layer> layers = all_layers();
  return fmt::format(
      "# {}\n# What lib/cuda/dnn chooses for each distinct layer at batch {}: pass and type, bytes of workspace, "
      "engine "
      "and knobs.\n# Made without a GPU by test/cuda/dnn/plans_test.cc, which says how; nothing here was run or timed. "
      "'no plan'\n# and the cause: cuDNN has no engine for the form, or only such as need a "
      "driver to compile at run time.\n\n# Layers, and the networks that have them\n{}\n# Fused: y, and the sums of y "
      "and y^2 that batch norm "
      "needs\n{}\n# Slices of the channels of a wider tensor: every engine with tensor cores copies to a packed one\n"
      "{}\n# float32 with --tf32\n{}",
      planner.device().identity(), kBatch, layers_text(planner, layers), statistics_text(planner, layers),
      slices_text(planner), tf32_text());
}

}  // namespace

TEST_CASE("every layer has compiled plans on sm_90, in every type, and deterministic ones too", "[cuda]") {
  Planner any(h200(), {.compile_at_run_time = false});
  Planner deterministic(h200(), {.deterministic = true, .compile_at_run_time = false});
  int plans = 0;
  for (const Layer& layer : all_layers()) {
    for (const Type type : kTypes) {
      for (const ConvolutionPass& pass : passes_of(layer, type)) {
        INFO(pass.text());
        const Result<Plan> plan = any.plan(pass);
        REQUIRE(plan);
        CHECK_FALSE(plan->compiled_at_run_time());
        CHECK(plan->workspace_bytes() <= static_cast<size_t>(PlanOptions{}.workspace_bytes_max));
        CHECK(deterministic.plan(pass));
        plans += 2;
      }
    }
  }
  CHECK(plans > 2000);
}

// Only float16 has engines for this. Stem convolutions are left out, because no engine supports their few channels.
TEST_CASE("every convolution of 16 channels and more can sum its statistics in the same pass", "[cuda]") {
  Planner planner(h200(), {});
  for (const Layer& layer : all_layers()) {
    if (!layer.is_map || layer.shape.c % 16 != 0 || layer.shape.op.filters % 8 != 0) continue;
    const ConvolutionPass pass = pass_of(layer, Pass::kForwardStatistics, Type::kFloat16);
    INFO(pass.text());
    CHECK(planner.plan(pass));
  }
}

// The engines are those of the same passes without the addition, so adding costs only the reading of the other tensor.
// Without a bias, the forward pass would have to be compiled at run time.
TEST_CASE("convolutions can add to another tensor in every type", "[cuda]") {
  Planner planner(h200(), {.deterministic = true, .compile_at_run_time = false});
  for (const Layer& layer : all_layers()) {
    if (!layer.is_map || layer.shape.c % 8 != 0 || (!layer.small && layer.networks[0] != "resnet-50")) continue;
    for (const Type type : kTypes) {
      for (const Pass pass : {Pass::kForward, Pass::kBackwardData}) {
        ConvolutionPass adding = pass_of(layer, pass, type);
        INFO(adding.text());
        const Result<Plan> plain = planner.plan(adding);
        adding.adds = true;
        const Result<Plan> added = planner.plan(adding);
        REQUIRE(added);
        if (pass == Pass::kBackwardData) CHECK(added->tag() == plain->tag());
        CHECK(added->workspace_bytes() <= plain->workspace_bytes() + 4096);
      }
    }
  }
}

// If a later cuDNN writes slices in place, this fails, and the executor may then let convolutions write into a Concat.
TEST_CASE("a slice of a wider tensor costs a packed copy", "[cuda]") {
  Planner planner(h200(), {});
  const auto packed_bytes = static_cast<size_t>(kSquare.n * kSquare.c * kSquare.h * kSquare.w * 2);
  for (const Pass pass : {Pass::kForward, Pass::kBackwardData, Pass::kBackwardFilter}) {
    const Plan plain = test::must(planner.plan({kSquare, pass, Type::kFloat16}));
    for (const ConvolutionShape& shape : {sliced(0, 256), sliced(256, 0)}) {
      INFO(pass_name(pass) << " " << shape.text());
      const Plan slice = test::must(planner.plan({shape, pass, Type::kFloat16}));
      CHECK(slice.workspace_bytes() >= plain.workspace_bytes() + packed_bytes);
    }
  }
}

TEST_CASE("the options rule engines out", "[cuda]") {
  const ConvolutionPass filter{kSquare, Pass::kBackwardFilter, Type::kFloat16};
  CHECK(test::must(Planner(h200(), {}).plan(filter)).workspace_bytes() > 0);
  CHECK(test::must(Planner(h200(), {.workspace_bytes_max = 0}).plan(filter)).workspace_bytes() == 0);

  const ConvolutionPass forward{kSquare, Pass::kForward, Type::kFloat32};
  CHECK(test::must(Planner(h200(), {}).plan(forward)).tag() !=
        test::must(Planner(h200(), {.tf32 = true}).plan(forward)).tag());
}

TEST_CASE("an operation that no engine supports is an error that says why", "[cuda]") {
  const ConvolutionPass statistics{kSquare, Pass::kForwardStatistics, Type::kBfloat16};
  const Result<Plan> plan = Planner(h200(), {}).plan(statistics);
  REQUIRE_FALSE(plan);
  CHECK(plan.error().code == Code::kDevice);
  CHECK_THAT(plan.error().text(), Catch::Matchers::Contains("compiled at run time, with a driver") &&
                                      Catch::Matchers::Contains("NVIDIA H200") &&
                                      Catch::Matchers::Contains(statistics.text()));
}

// Binding needs no device, because only the pointers are checked.
TEST_CASE("a plan accepts only pointers with the promised alignment", "[cuda]") {
  const Plan plan = test::must(Planner(h200(), {}).plan({kSquare, Pass::kForward, Type::kFloat16}));
  const auto at = [](uintptr_t address) { return reinterpret_cast<void*>(address); };
  const std::vector<Binding> aligned = {{Slot::kX, at(0x1000)}, {Slot::kW, at(0x2010)}, {Slot::kY, at(0x3020)}};
  CHECK_NOTHROW(plan.bind(aligned, at(0x4000)));
  for (size_t i = 0; i < aligned.size(); i++) {
    std::vector<Binding> shifted = aligned;
    shifted[i].pointer = at(0x5008);
    CHECK_THROWS_AS(plan.bind(shifted, at(0x4000)), CheckFailed);
  }
}

// This is the reason why fully connected layers are convolutions.
TEST_CASE("cuDNN has no precompiled engine for matmul", "[cuda]") {
  const auto matrix = [](int64_t id, std::array<int64_t, 3> dims, std::array<int64_t, 3> strides) {
    Descriptor tensor(CUDNN_BACKEND_TENSOR_DESCRIPTOR);
    tensor.set(CUDNN_ATTR_TENSOR_DATA_TYPE, CUDNN_DATA_HALF);
    tensor.set_all(CUDNN_ATTR_TENSOR_DIMENSIONS, std::span<const int64_t>(dims));
    tensor.set_all(CUDNN_ATTR_TENSOR_STRIDES, std::span<const int64_t>(strides));
    tensor.set(CUDNN_ATTR_TENSOR_UNIQUE_ID, id);
    tensor.set(CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT, OperationGraph::kAlignment);
    tensor.finalize();
    return tensor;
  };
  Descriptor type(CUDNN_BACKEND_MATMUL_DESCRIPTOR);
  type.set(CUDNN_ATTR_MATMUL_COMP_TYPE, CUDNN_DATA_FLOAT);
  type.finalize();
  std::vector<Descriptor> operations;
  operations.emplace_back(CUDNN_BACKEND_OPERATION_MATMUL_DESCRIPTOR);
  operations[0].set(CUDNN_ATTR_OPERATION_MATMUL_DESC, type);
  operations[0].set(CUDNN_ATTR_OPERATION_MATMUL_ADESC, matrix(1, {1, 256, 2048}, {256 * 2048, 2048, 1}));
  operations[0].set(CUDNN_ATTR_OPERATION_MATMUL_BDESC, matrix(2, {1, 2048, 1000}, {2048 * 1000, 1, 2048}));
  operations[0].set(CUDNN_ATTR_OPERATION_MATMUL_CDESC, matrix(3, {1, 256, 1000}, {256 * 1000, 1000, 1}));
  operations[0].finalize();
  Descriptor graph(CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR);
  graph.set_all(CUDNN_ATTR_OPERATIONGRAPH_OPS, std::span<const Descriptor>(operations));
  graph.finalize();
  const Result<Plan> plan = choose_plan(h200(), graph, CUDNN_DATA_HALF, {});
  REQUIRE_FALSE(plan);
  CHECK_THAT(plan.error().message, Catch::Matchers::Contains("compiled at run time"));
}

TEST_CASE("the chosen plans are those of plans_sm90.txt", "[cuda]") {
  const auto start = std::chrono::steady_clock::now();
  const std::string text = golden_text();
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - start;
  std::cout << fmt::format("{} lines of plans in {:.2f} s\n", std::count(text.begin(), text.end(), '\n'), took.count());
  const std::string path = std::string(DTRAIN_CUDA_DNN_TEST_DIR) + "/plans_sm90.txt";
  if (std::getenv("DTRAIN_REWRITE_GOLDEN") != nullptr) REQUIRE(write_file_atomic(path, text));
  const std::string golden = test::must(read_file(path));
  const std::string header = "# " + h200().identity();
  if (!golden.starts_with(header)) {
    std::cout << "skipped: plans_sm90.txt is of another cuDNN than " << cudnn_version_text() << "\n";
    return;
  }
  CHECK((text == golden));  // comparing as a bool, because printing both texts would flood the log
  std::istringstream now(text), then(golden);
  for (std::string a, b; std::getline(now, a) && std::getline(then, b);) REQUIRE(a == b);
}

}  // namespace dtrain::cuda
