// dtrain predict, from the training of a model on.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "base/file.h"
#include "images/image.h"
#include "small_model.h"
#include "support/catch.h"
#include "support/must.h"

namespace dtrain {

using Catch::Matchers::Contains;
using test::in_directory;
using test::must;

namespace {

// An image of 28 x 28 pixels as a PNG file.
void write_image(const std::string& path, unsigned seed) {
  images::Image image;
  image.resize(28, 28, 3);
  for (unsigned i = 0; i < 28 * 28 * 3; i++) image.pixels[i] = static_cast<uint8_t>(i * seed + i / 28);
  const std::vector<uint8_t> file = test::must(images::encode_image(image, ".png", 3));
  REQUIRE(make_directories(std::filesystem::path(path).parent_path().string()));
  REQUIRE(write_file_atomic(path, {reinterpret_cast<const char*>(file.data()), file.size()}));
}

// The file that predict wrote with these words.
std::string predicted(const test::TempDir& dir, std::vector<std::string> words) {
  words.insert(words.begin(), {"predict", "--model", "run"});
  words.insert(words.end(), {"--out", "out"});
  const test::Ended ended = in_directory(dir, words);
  INFO(ended.output);
  REQUIRE(ended.code == 0);
  return *read_file(dir.path("out"));
}

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  for (size_t begin = 0; begin < text.size();) {
    const size_t end = text.find('\n', begin);
    REQUIRE(end != std::string::npos);
    lines.push_back(text.substr(begin, end - begin));
    begin = end + 1;
  }
  return lines;
}

// The values of an .npy file of this shape.
std::vector<float> array_in(const std::string& file, const std::string& shape) {
  REQUIRE(file.substr(0, 8) == std::string("\x93NUMPY\x01\x00", 8));
  const size_t begin = 10 + static_cast<uint8_t>(file[8]) + 256 * static_cast<size_t>(file[9]);
  CHECK(begin % 64 == 0);
  CHECK_THAT(file.substr(10, begin - 10), Contains("'descr': '<f4'") && Contains("'shape': " + shape));
  std::vector<float> values((file.size() - begin) / sizeof(float));
  std::memcpy(values.data(), file.data() + begin, values.size() * sizeof(float));
  return values;
}

}  // namespace

TEST_CASE("predict gives the same probabilities in every form", "[cmd]") {
  const test::TempDir dir;
  test::train_small(dir);
  write_image(dir.path("p/a.png"), 3);
  write_image(dir.path("p/sub/b.png"), 7);
  write_image(dir.path("c.png"), 11);
  REQUIRE(write_file_atomic(dir.path("list"), "c.png\n\np\r\n"));

  const std::vector<float> all = array_in(predicted(dir, {"c.png", "p", "--output", "npy"}), "(3, 10)");
  REQUIRE(all.size() == 30);
  const std::vector<std::string> json = lines_of(predicted(dir, {"c.png", "p", "--output", "json", "--top", "20"}));
  REQUIRE(json.size() == 3);
  const std::vector<std::string> files = {"c.png", "p/a.png", "p/sub/b.png"};
  for (size_t i = 0; i < json.size(); i++) {
    const nlohmann::json line = nlohmann::json::parse(json[i]);
    CHECK(line["file"] == files[i]);
    REQUIRE(line["classes"].size() == 10);
    double sum = 0, last = 1;
    for (const auto& one : line["classes"]) {
      const float probability = one["probability"];
      CHECK(probability == all[i * 10 + one["class"].get<size_t>()]);
      CHECK(probability <= last);
      last = probability;
      sum += probability;
    }
    CHECK(std::abs(sum - 1) < 1e-5);
  }
  const std::vector<std::string> table = lines_of(predicted(dir, {"c.png", "p", "--top", "1", "--batch-size", "2"}));
  REQUIRE(table.size() == 3);
  for (size_t i = 0; i < table.size(); i++) {
    const auto* row = all.data() + i * 10;
    const auto best = static_cast<size_t>(std::max_element(row, row + 10) - row);
    CHECK(table[i] == fmt::format("{:<11}  {:.4f} {}", files[i], row[best], best));
  }
  const test::Ended listed =
      test::run({"bash", "-c", std::string(DTRAIN_EXE) + " predict --model run - --output npy --out listed < list"},
                {.deadline_s = 60, .directory = dir.path(), .environment = {}});
  INFO(listed.output);
  REQUIRE(listed.code == 0);
  CHECK(array_in(*read_file(dir.path("listed")), "(3, 10)") == all);
}

TEST_CASE("predict of records finds the accuracy of score, and each image has its name", "[cmd]") {
  const test::TempDir dir;
  const std::string accuracy = test::train_small(dir);
  std::string names;
  for (int c = 0; c < 10; c++) names += fmt::format("n{:08} kind {}\n", c, c);
  REQUIRE(write_file_atomic(dir.path("run/synset.txt"), names));
  const std::vector<std::string> lines = lines_of(predicted(dir, {"data/test.rec", "--top", "1"}));
  REQUIRE(lines.size() == 15);
  CHECK_THAT(lines[3], Contains("data/test.rec: record 3 at offset ") && Contains(" kind "));

  REQUIRE(write_file_atomic(dir.path("data/synset.txt"), "short\n"));
  std::filesystem::remove(dir.path("run/synset.txt"));
  const test::Ended unnamed = in_directory(dir, {"predict", "--model", "run", "data/test.rec"});
  CHECK(unnamed.code == 0);
  CHECK_THAT(unnamed.output, Contains("data/synset.txt is not used: it has 1 lines, but the model has 10 classes"));
  REQUIRE(write_file_atomic(dir.path("data/synset.txt"), names));
  CHECK_THAT(predicted(dir, {"data/test.rec"}), Contains(" kind "));
}

// score and predict must take the same numbers from the same files.
TEST_CASE("a model without its run gets image files fitted and records cut, and no guessed numbers", "[cmd]") {
  const test::TempDir dir;
  test::train_small(dir);
  REQUIRE(make_directories(dir.path("mxnet")));
  for (const char* file : {"lenet-0001.params", "lenet-symbol.json"}) {
    std::filesystem::copy_file(dir.path(std::string("run/") + file), dir.path(std::string("mxnet/") + file));
  }
  REQUIRE(in_directory(dir, {"data", "synth", "--out", "big", "--count", "20", "--size", "60"}).code == 0);
  for (const char* image : {"classes/0/a.png", "classes/1/a.png"}) write_image(dir.path(image), 3);
  const auto with_model = [&](const std::string& command, const std::vector<std::string>& more) {
    std::vector<std::string> words = {command, "--model", "mxnet/lenet", "--image-shape", "3,28,28"};
    words.insert(words.end(), more.begin(), more.end());
    return in_directory(dir, words);
  };
  const std::string unknown = "it is unknown how pixels are normalized";
  CHECK_THAT(with_model("score", {"--data-val", "classes"}).output, Contains(unknown));
  CHECK_THAT(with_model("predict", {"classes"}).output, Contains(unknown));

  const std::string fitted = "images are first scaled to fit 28 x 28";
  const test::Ended files = with_model("predict", {"classes", "--rgb-mean", "0", "--scale", "1"});
  CHECK(files.code == 0);
  CHECK_THAT(files.output, Contains(fitted));
  const test::Ended records = with_model("predict", {"big/test.rec", "--output", "npy", "--out", "a"});
  CHECK(records.code == 0);
  CHECK_THAT(records.output, !Contains(fitted));
  REQUIRE(with_model("predict", {"big/test.rec", "--val-resize", "off", "--output", "npy", "--out", "b"}).code == 0);
  CHECK(must(read_file(dir.path("a"))) == must(read_file(dir.path("b"))));
  CHECK_THAT(with_model("predict", {"big/test.rec", "classes"}).output, Contains("give --val-resize (fit, off or N)"));
}

TEST_CASE("predict leaves out images that cannot be read if it may, and otherwise names one", "[cmd]") {
  const test::TempDir dir;
  test::train_small(dir);
  write_image(dir.path("a.png"), 3);
  REQUIRE(write_file_atomic(dir.path("bad.jpg"), "not an image"));
  const test::Ended refused = in_directory(dir, {"predict", "--model", "run", "a.png", "bad.jpg"});
  CHECK(refused.code == 7);
  CHECK_THAT(refused.output, Contains("are not an image in a known format") && Contains("--max-bad-records N skips") &&
                                 !Contains("skipped"));
  const std::vector<std::string> few = {"predict",  "--model",          "run", "bad.jpg", "a.png",
                                        "gone.png", "--max-bad-records"};
  const auto with = [&](std::vector<std::string> words, const std::vector<std::string>& more) {
    words.insert(words.end(), more.begin(), more.end());
    return in_directory(dir, words);
  };
  const test::Ended left_out = with(few, {"2"});
  CHECK(left_out.code == 0);
  CHECK_THAT(left_out.output, Contains("2 of 3 images could not be read") && Contains("\na.png"));
  const test::Ended too_many = with(few, {"1", "--out", "none"});
  CHECK(too_many.code == 7);
  CHECK(!std::filesystem::exists(dir.path("none")));
  REQUIRE(with(few, {"2", "--output", "npy", "--out", "npy"}).code == 0);
  const std::vector<float> values = array_in(*read_file(dir.path("npy")), "(3, 10)");
  REQUIRE(values.size() == 30);
  for (size_t i = 0; i < 30; i++) CHECK(std::isnan(values[i]) == (i / 10 != 1));
}

TEST_CASE("predict says what is wrong with its arguments", "[cmd]") {
  const test::TempDir dir;
  test::train_small(dir);
  write_image(dir.path("a.png"), 3);
  REQUIRE(make_directories(dir.path("empty")));
  REQUIRE(write_file_atomic(dir.path("names"), "one\ntwo\n"));
  struct Mistake {
    std::vector<std::string> words;
    int code;
    std::string message;
  };
  const std::vector<Mistake> mistakes = {
      {{"a.png"}, 2, "give --model"},
      {{"--model", "run"}, 2, "no images: name image files"},
      {{"--model", "run", "empty"}, 7, "empty: the directory has no JPEG or PNG files"},
      {{"--model", "run", "gone.rec"}, 7, "gone.rec"},
      {{"--model", "run", "x-images-idx3-ubyte"}, 2, "the images have 1 channel, but the network's images have 3"},
      {{"--model", "run", "-", "-"}, 2, "can be read only once"},
      {{"--model", "run", "a.png", "--synset", "names"}, 2, "the file has 2 lines, but the model has 10 classes"},
      {{"--model", "run", "a.png", "--synset", "nowhere"}, 7, "nowhere"},
      {{"--model", "run", "a.png", "--output", "xml"}, 2, "npy"},
      {{"--model", "run", "a.png", "--out", "no/file"}, 7, "no/file"},
      {{"--model", "run", "a.png", "--gpus", "0"}, 8, "leave out --gpus"},
  };
  for (const Mistake& mistake : mistakes) {
    std::vector<std::string> words = mistake.words;
    words.insert(words.begin(), "predict");
    const test::Ended ended = in_directory(dir, words);
    INFO(ended.output);
    CHECK(ended.code == mistake.code);
    CHECK_THAT(ended.output, Contains(mistake.message));
  }
}

}  // namespace dtrain
