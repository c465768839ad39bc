#include "infer/info.h"

#include <nlohmann/json.hpp>

#include "base/file.h"
#include "support/catch.h"
#include "support/must.h"
#include "support/temp_dir.h"
#include "tensor/ndarray_file.h"

using namespace dtrain;
using namespace dtrain::infer;
using Catch::Matchers::Contains;
using dtrain::test::must;

namespace {

InfoOptions about(const std::string& subject) {
  InfoOptions options;
  options.subject = subject;
  return options;
}

const LayerInfo& layer(const NetworkInfo& info, const std::string& name) {
  for (const LayerInfo& layer : info.layers) {
    if (layer.name == name) return layer;
  }
  FAIL("no layer " << name);
  throw std::logic_error(name);
}

}  // namespace

TEST_CASE("info of a network's name counts what docs/arithmetic.md has", "[infer]") {
  const NetworkInfo info = must(network_info(about("lenet"), Log::silent()));
  CHECK(info.image == Shape{1, 28, 28});
  CHECK(info.classes == 10);
  CHECK(info.parameters == 431080);
  // 20 filters of 1 x 5 x 5 at 24 x 24 places, 50 of 20 x 5 x 5 at 8 x 8 places, 800 x 500 and 500 x 10.
  CHECK(info.multiply_adds == 20 * 25 * 576 + 50 * 500 * 64 + 800 * 500 + 5000);
  const LayerInfo& second = layer(info, "convolution1");
  CHECK(second.op == "Convolution");
  CHECK(second.inputs == std::vector<std::string>{"pooling0"});
  CHECK(second.output == Shape{50, 8, 8});
  CHECK(second.parameters == 50 * 500 + 50);
  CHECK(second.multiply_adds == 50 * 500 * 64);
  CHECK(second.activation_bytes == 4 * 50 * 64);
  CHECK(layer(info, "pooling0").parameters == 0);

  const NetworkInfo residual = must(network_info(about("resnet-50"), Log::silent()));
  CHECK(residual.classes == 1000);
  CHECK(residual.multiply_adds / 1000000 == 4089);
}

TEST_CASE("info counts for the images, the classes and the batch that it is given", "[infer]") {
  InfoOptions options = about("lenet");
  options.model.flags.job.network.image_shape = {3, 28, 28};
  options.model.flags.job.network.num_classes = 7;
  options.model.flags.job.batch_size = 4;
  const NetworkInfo info = must(network_info(options, Log::silent()));
  CHECK(layer(info, "convolution0").parameters == 20 * 75 + 20);
  CHECK(layer(info, "fullyconnected1").parameters == 500 * 7 + 7);
  CHECK(layer(info, "convolution0").activation_bytes == int64_t{4} * 4 * 20 * 24 * 24);
  CHECK(layer(info, "convolution0").multiply_adds == 20 * 75 * 576);  // of one image
}

TEST_CASE("the text and the JSON of info have every layer and the totals", "[infer]") {
  const NetworkInfo info = must(network_info(about("mlp"), Log::silent()));
  const std::string text = info.text();
  CHECK_THAT(text,
             Contains("\nfc1       FullyConnected  (128,)          100,480        100,352") && Contains("\ntotal"));
  const nlohmann::json json = nlohmann::json::parse(info.json());
  CHECK(json["layers"].size() == info.layers.size());
  CHECK(json["parameters"] == 128 * 784 + 128 + 64 * 128 + 64 + 640 + 10);
  CHECK(json["layers"][0]["operator"] == "Input");
}

TEST_CASE("info of a file lists its arrays", "[infer]") {
  const test::TempDir dir;
  const std::string path = dir.path("x-0001.params");
  const std::vector<NamedArray> arrays = {{"arg:w", {2, 3}, std::vector<float>(6)}, {"aux:m", {4}, {1, 2, 3, 4}}};
  REQUIRE(write_ndarray_file(path, arrays));
  const ArraysInfo info = must(arrays_info(path));
  REQUIRE(info.arrays.size() == 2);
  CHECK(info.arrays[0].name == "arg:w");
  CHECK(info.arrays[1].shape == Shape{4});
  CHECK_THAT(info.text(), Contains("arg:w  float32  (2, 3)           6") && Contains("2 arrays        10"));
  CHECK(nlohmann::json::parse(info.json())["arrays"][0]["type"] == "float32");
}

TEST_CASE("info says what is wrong with its subject", "[infer]") {
  const test::TempDir dir;
  REQUIRE(write_file_atomic(dir.path("broken.params"), "no arrays"));
  REQUIRE(write_file_atomic(dir.path("broken.json"), "no network"));
  const std::vector<NamedArray> arrays = {{"w", {2}, {1, 2}}};
  REQUIRE(write_ndarray_file(dir.path("foreign.states"), arrays));
  struct Mistake {
    std::string subject;
    Code code;
    std::string message;
  };
  const std::vector<Mistake> mistakes = {
      {"resnt-50", Code::kUsage, "did you mean 'resnet-50'?"},
      {dir.path("none.params"), Code::kNotFound, "none.params"},
      {dir.path("broken.params"), Code::kData, "broken.params"},
      {dir.path("broken.json"), Code::kData, "not valid JSON"},
      {dir.path("foreign.states"), Code::kData, "not a header"},
      {dir.path(), Code::kNotFound, "the directory has no model"},
      {dir.path("prefix"), Code::kNotFound, "prefix"},
  };
  for (const Mistake& mistake : mistakes) {
    INFO(mistake.subject);
    const Result<std::string> text = info(about(mistake.subject), false, Log::silent());
    REQUIRE(!text);
    CHECK(text.error().code == mistake.code);
    CHECK_THAT(text.error().text(), Contains(mistake.message));
  }
}
