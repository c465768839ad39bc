// Training on top of another model's weights, with frozen layers and rates of their own.
#include "graph/fine_tune.h"

#include <map>

#include "support/catch.h"
#include "toy_run.h"

using namespace dtrain;
using namespace dtrain::train;
using namespace dtrain::train::test;

namespace {

using Values = std::map<std::string, std::vector<float>>;

Values values_of(const TempDir& dir, int64_t epoch) {
  Values values;
  const Checkpoint checkpoint = must(read_checkpoint({dir.path("net"), epoch}));
  for (const auto* arrays : {&checkpoint.parameters, &checkpoint.statistics}) {
    for (const NamedArray& array : *arrays) values[array.name] = array.values;
  }
  return values;
}

// A network that was trained for two epochs, with a last layer of its own name.
void train_model(const TempDir& dir) {
  REQUIRE(ToyRun(toy_spec(dir.path("net"), 2)).run());
}

ToyOptions tuned(const std::vector<std::string>& rates = {}, bool on_cpu = false) {
  graph::Graph network = must(graph::with_new_head(toy_network(), "auto", kToyClasses));
  if (!rates.empty()) must(graph::apply_rates(rates, network));
  return {.network = network, .on_cpu_backend = on_cpu};
}

TrainSpec tuning(const TempDir& model, const TempDir& dir, int64_t epochs) {
  TrainSpec spec = toy_spec(dir.path("net"), epochs);
  spec.pretrained = model.path("net-0002.params");
  return spec;
}

// bn1_gamma counts as 1, whatever its value is.
const std::vector<std::string> kLower = {"conv1_weight", "conv1_bias", "bn1_beta", "bn1_moving_mean", "bn1_moving_var"};

}  // namespace

TEST_CASE("fine-tuning keeps all weights but those of the last layer", "[train]") {
  const TempDir model, dir;
  train_model(model);
  TrainSpec spec = tuning(model, dir, 1);
  spec.schedule.base = 0;
  ToyRun run(spec, tuned());
  const TrainOutcome outcome = must(run.run());
  CHECK(is_at(outcome.position, 1, 0));
  CHECK_THAT(run.log_text(),
             Catch::Contains("Loaded model " + spec.pretrained) &&
                 Catch::Contains("with new random values: fc_weight, fc_bias; unused arrays of the model: ") &&
                 Catch::Contains("fc1_weight, fc1_bias"));
  Values then = values_of(model, 2), now = values_of(dir, 1);
  for (const char* name : {"conv1_weight", "conv1_bias", "bn1_beta", "bn2_gamma", "bn2_beta"}) {
    INFO(name);
    CHECK(then.at(name) == now.at(name));
  }
  CHECK(now.contains("fc_weight"));
  CHECK_FALSE(now.contains("fc1_weight"));
}

TEST_CASE("frozen layers keep weights and statistics, on both backends alike", "[train]") {
  const TempDir model;
  train_model(model);
  const Values then = values_of(model, 2);
  std::vector<Values> ends;
  for (const bool on_cpu : {false, true}) {
    const TempDir dir;
    REQUIRE(ToyRun(tuning(model, dir, 2), tuned({"conv1=0", "bn1=0"}, on_cpu)).run());
    ends.push_back(values_of(dir, 2));
    for (const std::string& name : kLower) {
      INFO(name);
      CHECK(ends.back().at(name) == then.at(name));
    }
    CHECK(ends.back().at("bn2_beta") != then.at("bn2_beta"));
    CHECK(ends.back().at("bn2_moving_mean") != then.at("bn2_moving_mean"));
  }
  for (const auto& [name, values] : ends[0]) {
    for (size_t i = 0; i < values.size(); i++) CHECK(ends[1].at(name)[i] == Approx(values[i]).margin(1e-4));
  }
}

TEST_CASE("a frozen layer above one that learns keeps its weights", "[train]") {
  const TempDir model;
  train_model(model);
  for (const bool on_cpu : {false, true}) {
    const TempDir dir;
    REQUIRE(ToyRun(tuning(model, dir, 1), tuned({"bn2=0"}, on_cpu)).run());
    Values then = values_of(model, 2), now = values_of(dir, 1);
    CHECK(now.at("bn2_gamma") == then.at("bn2_gamma"));
    CHECK(now.at("bn2_beta") == then.at("bn2_beta"));
    CHECK(now.at("bn2_moving_mean") != then.at("bn2_moving_mean"));
    CHECK(now.at("conv1_weight") != then.at("conv1_weight"));
  }
}

// Without a gradient they do not wait for, and do not disturb, the others: also with a bucket that is frozen as a
// whole.
TEST_CASE("a fine-tuned run resumes with the same bits", "[train]") {
  const TempDir model;
  train_model(model);
  const ToyOptions options = tuned({"conv1=0", "bn1=0", "fc=2"}, true);
  const TempDir whole, parts;
  REQUIRE(ToyRun(tuning(model, whole, 4), options).run());
  REQUIRE(ToyRun(tuning(model, parts, 2), options).run());
  TrainSpec rest = tuning(model, parts, 4);
  rest.start_from = StartFrom{rest.save_prefix, std::nullopt};  // has precedence over the pretrained model
  REQUIRE(ToyRun(rest, options).run());
  CHECK(values_of(whole, 4) == values_of(parts, 4));
}

TEST_CASE("a model that lacks a layer of the network is refused with its name", "[train]") {
  const TempDir model, dir;
  REQUIRE(ToyRun(toy_spec(model.path("net"), 2), {.network = linear_network(), .bucket_begin = {0}}).run());
  TrainSpec spec = tuning(model, dir, 1);
  spec.pretrained_note = ", which is for images of 3,16,16 (--image-shape)";
  const auto refused = ToyRun(spec, tuned()).run();
  REQUIRE_FALSE(refused);
  CHECK_THAT(refused.error().text(),
             Catch::Contains("net-0002.params', which is for images of 3,16,16 (--image-shape)"));
  CHECK(refused.error().code == Code::kData);
  CHECK_THAT(refused.error().message, Catch::Contains("'conv1_weight'"));
}
