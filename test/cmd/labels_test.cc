// Images with two labels and a network with two losses, from the list of images to the prediction.
#include <filesystem>

#include "base/file.h"
#include "data/make_images.h"
#include "small_model.h"
#include "support/catch.h"
#include "support/command_line.h"

namespace dtrain {

using test::first_match;
using test::in_directory;

namespace {

// One layer for each of two losses: `place` has 4 classes and `row` has 2.
constexpr const char* kTwoLosses = R"json({
  "nodes": [
    {"op": "null", "name": "data", "inputs": []},
    {"op": "null", "name": "fc_weight", "inputs": []},
    {"op": "null", "name": "fc_bias", "inputs": []},
    {"op": "FullyConnected", "name": "fc", "attrs": {"num_hidden": "4"}, "inputs": [[0, 0, 0], [1, 0, 0], [2, 0, 0]]},
    {"op": "null", "name": "place_label", "inputs": []},
    {"op": "SoftmaxOutput", "name": "place", "inputs": [[3, 0, 0], [4, 0, 0]]},
    {"op": "null", "name": "gc_weight", "inputs": []},
    {"op": "null", "name": "gc_bias", "inputs": []},
    {"op": "FullyConnected", "name": "gc", "attrs": {"num_hidden": "2"}, "inputs": [[0, 0, 0], [6, 0, 0], [7, 0, 0]]},
    {"op": "null", "name": "row_label", "inputs": []},
    {"op": "SoftmaxOutput", "name": "row", "inputs": [[8, 0, 0], [9, 0, 0]]}
  ],
  "arg_nodes": [0, 1, 2, 4, 6, 7, 9], "heads": [[5, 0, 0], [10, 0, 0]], "attrs": {"mxnet_version": ["int", 10901]}
})json";

// Images with one bright quarter, in images.rec with two labels: which quarter it is, and whether it is below.
void write_images(const test::TempDir& dir) {
  std::filesystem::create_directory(dir.path("images"));
  std::string list;
  for (int i = 0; i < 40; i++) {
    const int place = i % 4;
    images::Image image;
    image.resize(8, 8, 3);
    for (int y = 0; y < 8; y++) {
      for (int x = 0; x < 24; x++) image.at(y, 0)[x] = y / 4 * 2 + x / 12 == place ? 200 : static_cast<uint8_t>(i);
    }
    const auto png = test::must(images::encode_image(image, ".png", 3));
    test::must(write_file_atomic(dir.path(fmt::format("images/{}.png", i)), std::string(png.begin(), png.end())));
    list += fmt::format("{}\t{}\t{}\t{}.png\n", i, place, place / 2, i);
  }
  test::must(write_file_atomic(dir.path("images.lst"), list));
  test::must(write_file_atomic(dir.path("two-symbol.json"), kTwoLosses));
  const test::Ended packed = in_directory(dir, {"im2rec", "images", "images", "--pack-label", "--encoding", ".png"});
  INFO(packed.output);
  REQUIRE(packed.code == 0);
}

std::vector<std::string> training(std::vector<std::string> more) {
  return test::command_line(
      "--network two-symbol.json --data-train images.rec --data-val images.rec "
      "--image-shape 3,8,8 --batch-size 8 --num-epochs 3 --lr 0.01 --scale 0.01 "
      "--initializer zero --seed 1",
      more);
}

}  // namespace

TEST_CASE("a network with two losses learns the two labels of each image, alone and in a job", "[cmd]") {
  const test::TempDir dir;
  write_images(dir);
  for (const std::vector<std::string>& processes :
       {std::vector<std::string>{"--run-dir", "alone"}, {"--run-dir", "job", "-n", "2", "-s", "2"}}) {
    std::vector<std::string> words = training({"--label-width", "2"});
    words.insert(words.end(), processes.begin(), processes.end());
    const test::Ended trained = in_directory(dir, words);
    INFO(trained.output);
    REQUIRE(trained.code == 0);
    for (const char* metric : {"accuracy", "accuracy_place", "accuracy_row"}) {
      CHECK(first_match(trained.output, fmt::format(R"(Epoch\[2\] Validation-{}=([\d.]+))", metric)) == "1.000000");
      CHECK(!first_match(trained.output, fmt::format(R"(Epoch\[2\] Train-{}=([\d.]+))", metric)).empty());
    }
  }
  const test::Ended scored = in_directory(dir, {"score", "--model", "alone", "--data-val", "images.rec"});
  INFO(scored.output);
  CHECK(first_match(scored.output, R"(\('accuracy_row', ([\d.]+)\))") == "1.000000");
  const test::Ended json = in_directory(dir, {"score", "--model", "alone", "--data-val", "images.rec", "--json"});
  CHECK(first_match(json.output, R"("cross_entropy_place":([\d.]+))") != "");

  const test::Ended place = in_directory(dir, {"predict", "--model", "alone", "images/7.png", "--top", "1"});
  CHECK_THAT(place.output, Catch::Contains("outputs place, row; using 'place'"));
  CHECK(first_match(place.output, R"(images/7.png  [\d.]+ (\d))") == "3");
  const test::Ended row =
      in_directory(dir, {"predict", "--model", "alone", "images/7.png", "--top", "1", "--result", "row"});
  CHECK(first_match(row.output, R"(images/7.png  [\d.]+ (\d))") == "1");
}

TEST_CASE("labels that the data do not have are refused", "[cmd]") {
  const test::TempDir dir;
  write_images(dir);
  struct Mistake {
    std::vector<std::string> words;
    int code;
    std::string message;
  };
  const std::vector<Mistake> mistakes = {
      {{}, 2, "the network uses 2 labels per image (place_label, row_label), but --label-width is 1"},
      {{"--label-width", "3"}, 2, "but --label-width is 3: give --label-width 2"},
  };
  for (const Mistake& mistake : mistakes) {
    const test::Ended ended = in_directory(dir, training(mistake.words));
    INFO(ended.output);
    CHECK(ended.code == mistake.code);
    CHECK_THAT(ended.output, Catch::Contains(mistake.message));
  }
}

}  // namespace dtrain
