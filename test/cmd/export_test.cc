// dtrain export, from the training of a model on.
#include <filesystem>

#include "base/file.h"
#include "small_model.h"
#include "support/catch.h"

namespace dtrain {

using Catch::Matchers::Contains;
using test::in_directory;

TEST_CASE("export writes a trained model in both formats", "[cmd]") {
  const test::TempDir dir;
  test::train_small(dir);
  const test::Ended onnx = in_directory(dir, {"export", "--model", "run", "--out", "lenet.onnx", "--fold-batch-norm"});
  INFO(onnx.output);
  REQUIRE(onnx.code == 0);
  CHECK_THAT(onnx.output, Contains("network lenet, 8 arrays"));
  const std::string model = *read_file(dir.path("lenet.onnx"));
  CHECK_THAT(model, Contains("convolution0_weight") && Contains("Gemm") && Contains("Softmax") && Contains("3,28,28"));
  const test::Ended arrays = in_directory(dir, {"export", "--model", "run", "--out", "lenet.safetensors"});
  INFO(arrays.output);
  REQUIRE(arrays.code == 0);
  const std::string file = *read_file(dir.path("lenet.safetensors"));
  CHECK_THAT(file.substr(8, 400),
             Contains(R"("convolution0_weight":{"dtype":"F32","shape":[20,3,5,5],"data_offsets":[0,6000]})"));
  for (const char* subject : {"lenet.onnx", "lenet.safetensors"}) {
    const test::Ended info = in_directory(dir, {"info", subject});
    INFO(info.output);
    CHECK(info.code == 0);
    CHECK_THAT(info.output, Contains("channel_order  RGB\n") && Contains("rgb_mean       123.68,116.779,103.939\n") &&
                                Contains("image_shape    3,28,28\n") && Contains("convolution0_weight"));
    CHECK_THAT(in_directory(dir, {"info", subject, "--json"}).output,
               Contains(R"("metadata":{"channel_order":"RGB",)"));
  }
  const test::Ended piped = in_directory(dir, {"export", "--model", "run", "--format", "safetensors"});
  CHECK(piped.code == 0);
}

TEST_CASE("export says what is wrong with its arguments, and leaves no file", "[cmd]") {
  const test::TempDir dir;
  test::train_small(dir);
  struct Mistake {
    std::vector<std::string> words;
    int code;
    std::string message;
  };
  const std::vector<Mistake> mistakes = {
      {{"--out", "a.onnx"}, 2, "give --model"},
      {{"--model", "run"}, 2, "--out is missing"},
      {{"--model", "run", "--out", "a.pt"}, 2, "ends in .onnx or .safetensors"},
      {{"--model", "run", "--out", "a.onnx", "--format", "pickle"}, 2, "safetensors"},
      {{"--model", "nowhere", "--out", "a.onnx"}, 7, "nowhere"},
      {{"--model", "run", "--out", "no/a.onnx"}, 7, "no/a.onnx"},
      {{"--model", "run", "--out", "a.onnx", "--network", "mlp"}, 7, "mlp"},
      {{"run", "--out", "a.onnx"}, 2, "usage: dtrain export"},
  };
  for (const Mistake& mistake : mistakes) {
    std::vector<std::string> words = mistake.words;
    words.insert(words.begin(), "export");
    const test::Ended ended = in_directory(dir, words);
    INFO(ended.output);
    CHECK(ended.code == mistake.code);
    CHECK_THAT(ended.output, Contains(mistake.message));
    CHECK(!std::filesystem::exists(dir.path("a.onnx")));
  }
}

}  // namespace dtrain
