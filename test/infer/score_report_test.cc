// What dtrain score prints.
#include <sstream>

#include "infer/score.h"
#include "support/catch.h"

using namespace dtrain;
using namespace dtrain::infer;
using Catch::Matchers::Contains;

namespace {

Score small_score() {
  Score score{.params = "runs/first/lenet-0003.params",
              .images = 1250,
              .metrics = {{"accuracy", 0.9839}, {"top_k_accuracy_5", 0.9999}, {"cross-entropy", 0.05499}},
              .images_per_s = 4459.4,
              .data = "data/pets"};
  score.class_names = {"cat", "dog"};
  score.counts.add(0, 0, 877);
  score.counts.add(0, 1, 123);
  score.counts.add(1, 1, 245);
  score.counts.add(1, 0, 5);
  return score;
}

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream stream(text);
  for (std::string line; std::getline(stream, line);) lines.push_back(line);
  return lines;
}

// Characters, which are all one column wide in these tests unless they take three bytes or more.
size_t columns(const std::string& line) {
  size_t columns = 0;
  for (const char c : line) {
    const auto byte = static_cast<unsigned char>(c);
    if ((byte & 0xc0U) != 0x80U) columns += byte < 0xe0 ? 1 : 2;
  }
  return columns;
}

}  // namespace

TEST_CASE("score's lines are those of MXNet's program", "[infer][score]") {
  CHECK(small_score().text() ==
        "Finished with 4459.400000 images per second\n('accuracy', 0.983900)\n('top_k_accuracy_5', 0.999900)\n"
        "('cross-entropy', 0.054990)\n");
}

TEST_CASE("score's table has metrics, accuracies by class and confusions", "[infer][score]") {
  CHECK(small_score().table() ==
        "model  runs/first/lenet-0003.params\n"
        "data   data/pets\n"
        "1,250 images, 4459 images/s\n"
        "\n"
        "accuracy            0.9839\n"
        "top_k_accuracy_5    0.9999\n"
        "cross-entropy       0.0550\n"
        "\n"
        "class  accuracy  correct\n"
        "cat      0.8770  877 of 1,000\n"
        "dog      0.9800  245 of 250\n"
        "\n"
        "cat classified as dog: 123 of 1,000\n"
        "dog classified as cat: 5 of 250\n");
}

TEST_CASE("score's table has numbers for classes without names, and no confusions if there are none",
          "[infer][score]") {
  Score score = small_score();
  score.class_names.clear();
  score.counts = {};
  score.counts.add(7, 7, 3);
  score.result = "softmax_a";
  CHECK_THAT(score.table(), Contains("\n7        1.0000  3 of 3\n") && !Contains("classified as") &&
                                Contains("The classes are those of the network's output softmax_a.\n"));
}

TEST_CASE("the accuracy of the classes that score's table leaves out is that of the first of them", "[infer][score]") {
  Score score = small_score();
  score.counts = {};
  for (int64_t i = 0; i < 25; i++) {  // the accuracy of class i is i + 1 of 100
    score.counts.add(i, i, i + 1);
    score.counts.add(i, i + 1, 99 - i);
  }
  CHECK_THAT(score.table(), Contains("and 5 more, with an accuracy of 0.2100 or higher\n"));
}

TEST_CASE("of many classes score's table shows the worst, and is never wider than 80 columns", "[infer][score]") {
  Score score = small_score();
  score.params = "/home/someone/" + std::string(100, 'x') + "/lenet-0003.params";
  score.data = std::string(40, '\xc3') + "data";  // no UTF-8
  score.class_names.clear();
  for (int64_t i = 0; i < 1000; i++) {
    const char* const letter = i % 3 == 0 ? "w" : i % 3 == 1 ? "\xc3\xa4" : "\xe7\x8c\xab";
    std::string name = fmt::format("{} ", i);
    for (int k = 0; k < 60; k++) name += letter;
    score.class_names.push_back(name);
    score.counts.add(i, i, 1'000'000 + i);
    score.counts.add(i, (i + 1) % 1000, 1'000'000 - i);
  }
  const std::vector<std::string> lines = lines_of(score.table());
  size_t classes = 0, confusions = 0;
  for (const std::string& line : lines) {
    INFO(line);
    CHECK(columns(line) <= 80);
    classes += line.find("  0.5") != std::string::npos ? 1 : 0;
    confusions += line.find(" classified as ") != std::string::npos ? 1 : 0;
  }
  CHECK(classes == 20);
  CHECK(confusions == 10);
  CHECK_THAT(score.table(),
             Contains("and 980 more, with an accuracy of 0.5000 or higher\n") && Contains("/lenet-0003.params\n"));
}
