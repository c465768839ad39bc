// Plans for every network that dtrain can build, for every device that is described here: each pass that the executor
// asks for, in training and in inference, in every type and for several batch sizes. The engines are those of
// --deterministic, all of them precompiled. Without the flag there are more. No pass is an exception.
#include <algorithm>
#include <chrono>
#include <iostream>
#include <map>

#include "cuda/dnn/networks.h"
#include "cuda/dnn/planner.h"
#include "cuda/executor/convolutions.h"
#include "graph/fold.h"
#include "job/resolve/data_set.h"
#include "support/catch.h"

namespace dtrain::cuda {

namespace {

using Purpose = exec::Options::Purpose;

// The passes that networks need, each of them once.
class Passes final : public ConvolutionRunner {
 public:
  Result<std::shared_ptr<const ConvolutionPlan>> plan(const ConvolutionPass& pass, bool) override {
    needed_.try_emplace(pass.text(), Needed{pass, network_});
    return std::make_shared<NoPlan>();
  }

  // Adds the passes of one network for one batch size, type and purpose.
  void add(const graph::ModelOptions& model, int64_t batch, Type type, Purpose purpose) {
    network_ = fmt::format("{} for images of {}", model.network, to_string(model.image));
    INFO(network_ << ", " << batch << " images, " << type_name(type));
    const graph::Graph graph = test::must(graph::build_model(model));
    const exec::Options options{
        .purpose = purpose, .batch_size = batch, .inputs = {{.shape = model.image}}, .dtype = type};
    add(graph, options);
    // A trained model is computed without its batch normalizations.
    if (purpose == Purpose::kInference) add(graph::fold_batch_norms(graph).graph, options);
  }

  struct Needed {
    ConvolutionPass pass;
    std::string network;  // the first network that needs the pass
  };
  [[nodiscard]] const std::map<std::string, Needed>& needed() const { return needed_; }

 private:
  class NoPlan final : public ConvolutionPlan {
   public:
    [[nodiscard]] size_t workspace_bytes() const override { return 0; }
    [[nodiscard]] Call bind(const ConvolutionPointers&) const override { return {}; }
  };

  void add(const graph::Graph& graph, const exec::Options& options) {
    const graph::Shapes shapes = test::must(graph::infer_shapes(graph, options.inputs[0].shape));
    const GraphPlans plans =
        test::must(plan_convolutions(graph, shapes, choose_layout(graph, shapes, options), options, *this));
    CHECK(plans.size() == convolutions_of(graph, shapes, 1).size());
  }

  std::map<std::string, Needed> needed_;
  std::string network_;
};

// A network with the images and the number of classes that the program chooses if the flags do not.
graph::ModelOptions as_in_the_program(const std::string& network) {
  return {.network = network,
          .num_classes = job::find_data_set(job::data_set_of_network(network))->classes,
          .image = job::image_of_network(network)};
}

std::vector<graph::ModelOptions> networks_by_default() {
  std::vector<graph::ModelOptions> models;
  for (const std::string& name : graph::model_names()) models.push_back(as_in_the_program(name));
  return models;
}

// Other depths, versions, widths, groups and images. Depths that repeat the layers of another depth are left out.
std::vector<graph::ModelOptions> variants() {
  std::vector<graph::ModelOptions> models;
  for (const char* network :
       {"alexnet@mxnet-g", "alexnet@v0.7", "googlenet@v0.7", "inception-bn@mxnet-g", "inception-bn@v0.7",
        "inception-bn-28-small@v0.7", "inception-bn-full@v0.7", "inception-v3@mxnet-g", "inception-v3@v0.7", "cross-20",
        "resnet-28-small-20", "vgg-13", "vgg-16", "vgg-19", "vgg@mxnet-g", "vgg@v0.7"}) {
    models.push_back(as_in_the_program(network));
  }
  for (const std::string family : {"resnet", "resnet-v1", "resnet-v1.5", "resnext"}) {
    for (const char* depth : {"-18", "-34", "-50", "-101", "-152", "-200", "-269", "-20", "-110", "-164"}) {
      models.push_back(as_in_the_program(family + depth));
    }
    if (family == "resnext") continue;
    models.push_back(as_in_the_program(family + "-18"));
    models.push_back(as_in_the_program(family + "-50"));
    for (size_t i = models.size() - 2; i < models.size(); i++) models[i].image = {3, 32, 32};
  }
  const auto with = [&](const char* network, auto change) { change(models.emplace_back(as_in_the_program(network))); };
  with("resnet-50@mxnet-g", [](graph::ModelOptions&) {});
  with("resnet-164@mxnet-g", [](graph::ModelOptions& m) { m.data_type = "cifar10"; });
  with("inception-bn", [](graph::ModelOptions& m) { m.image = {3, 28, 28}; });
  with("inception-bn-full", [](graph::ModelOptions& m) { m.num_classes = 21841; });
  with("lenet", [](graph::ModelOptions& m) { m.add_stn = true; });
  with("lenet", [](graph::ModelOptions& m) { m.image = {3, 28, 28}; });
  with("vgg-16", [](graph::ModelOptions& m) { m.batch_norm = true; });
  with("cross-20", [](graph::ModelOptions& m) { m.widen_factor = 4; });
  with("cross-20", [](graph::ModelOptions& m) { m.widen_factor = 10; });
  with("resnet-110", [](graph::ModelOptions& m) { m.num_classes = 100; });
  with("resnext-50", [](graph::ModelOptions& m) { m.num_group = 1; });
  with("resnext-50", [](graph::ModelOptions& m) { m.num_group = 4; });
  with("resnext-50", [](graph::ModelOptions& m) { m.num_group = 64; });
  with("resnext-50", [](graph::ModelOptions& m) { m.num_group = 128; });
  return models;
}

// Plans every pass. Names those for which cuDNN has no plan.
void check_plans(const Device& device, const Passes& passes) {
  const auto start = std::chrono::steady_clock::now();
  Planner planner(device, {.deterministic = true, .compile_at_run_time = false});
  Planner tf32(device, {.tf32 = true, .deterministic = true, .compile_at_run_time = false});
  for (const auto& [text, needed] : passes.needed()) {
    for (Planner* each : {&planner, &tf32}) {
      if (each == &tf32 && needed.pass.type != Type::kFloat32) continue;
      const Result<Plan> plan = each->plan(needed.pass);
      if (!plan) {
        UNSCOPED_INFO(plan.error().text());
        FAIL_CHECK(needed.network << (each == &tf32 ? " with TF32" : ""));
      }
    }
  }
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - start;
  std::cout << fmt::format("{}: {} plans in {:.1f} s\n", device.identity(), planner.chosen() + tf32.chosen(),
                           took.count());
}

}  // namespace

TEST_CASE("every network by its name has compiled plans in float16 and float32 for 128 images", "[cuda]") {
  Passes passes;
  for (const graph::ModelOptions& model : networks_by_default()) {
    for (const Type type : {Type::kFloat16, Type::kFloat32}) passes.add(model, 128, type, Purpose::kTraining);
  }
  check_plans(h200(), passes);
}

TEST_CASE("every network has compiled plans on every device, in every type and batch size", "[cuda][slow]") {
  std::vector<graph::ModelOptions> models = networks_by_default();
  std::ranges::move(variants(), std::back_inserter(models));
  Passes passes;
  for (const graph::ModelOptions& model : models) {
    for (const int64_t batch : {32, 128, 256}) {
      for (const Type type : {Type::kFloat16, Type::kBfloat16, Type::kFloat32}) {
        passes.add(model, batch, type, Purpose::kTraining);
        passes.add(model, batch, type, Purpose::kInference);
      }
    }
  }
  for (const char* device : {"h200", "h100", "a100"}) check_plans(described_device(device), passes);
}

}  // namespace dtrain::cuda
