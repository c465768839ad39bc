#include "telemetry/class_results.h"

#include "support/catch.h"
#include "support/must.h"

using namespace dtrain;
using namespace dtrain::telemetry;
using dtrain::test::must;

namespace {

ClassCounts counts_of(std::initializer_list<std::array<int64_t, 3>> triples) {
  ClassCounts counts;
  for (const auto& [label, prediction, images] : triples) counts.add(label, prediction, images);
  return counts;
}

ClassResults results() {
  return {.epoch = 3,
          .step = 1876,
          .rank = 1,
          .workers = 2,
          .images = 200,
          .result = "softmax_a",
          .class_names = {"cat", "dog \"big\"", "\xc3\xa4pfel"},
          .counts = counts_of({{0, 0, 40}, {0, 1, 10}, {2, 2, 50}}),
          .worst = {{.label = 0, .prediction = 1, .probability = 0.75, .loss = 2.5, .name = "a.rec", .image = "Zm9v"},
                    {.label = 2, .prediction = 2, .probability = 0.5, .loss = 0.6931, .name = "b.png"}}};
}

}  // namespace

TEST_CASE("the least accurate class comes first, and of equal ones the lower label", "[telemetry]") {
  const ClassCounts counts = counts_of({{0, 0, 9}, {0, 2, 1}, {1, 1, 5}, {1, 0, 5}, {3, 3, 18}, {3, 1, 2}, {2, 2, 0}});
  CHECK(counts.images() == 40);
  const std::vector<ClassAccuracy> classes = counts.accuracies();
  REQUIRE(classes.size() == 3);
  CHECK(classes[0].label == 1);
  CHECK(classes[0].right == 5);
  CHECK(classes[0].images == 10);
  CHECK(classes[1].label == 0);
  CHECK(classes[1].accuracy() == 0.9);
  CHECK(classes[2].label == 3);
}

TEST_CASE("the most frequent confusion comes first", "[telemetry]") {
  ClassCounts counts = counts_of({{0, 0, 9}, {0, 2, 1}, {1, 1, 5}, {1, 0, 2}});
  counts.add(counts_of({{0, 2, 3}, {1, 0, 2}, {2, 1, 4}}));
  const std::vector<Confusion> confusions = counts.confusions();
  REQUIRE(confusions.size() == 3);
  CHECK(confusions[0].label == 0);
  CHECK(confusions[0].prediction == 2);
  CHECK(confusions[0].images == 4);
  CHECK(confusions[0].images_of_label == 13);
  CHECK(confusions[1].label == 1);
  CHECK(confusions[2].label == 2);
  CHECK(ClassCounts().confusions().empty());
  CHECK(ClassCounts().accuracies().empty());
}

TEST_CASE("of many images only the worst are kept", "[telemetry]") {
  std::vector<JudgedImage> images;
  for (int i = 0; i < 50; i++) images.push_back({.label = i, .loss = static_cast<double>((i * 7) % 50)});
  keep_worst(images);
  REQUIRE(images.size() == kWorstImages);
  CHECK(images.front().loss == 49);
  CHECK(images.back().loss == 30);
}

TEST_CASE("class results are read back as they were written", "[telemetry]") {
  const ClassResults written = results(), read = must(parse_class_results(to_json(written)));
  CHECK(read.epoch == 3);
  CHECK(read.step == 1876);
  CHECK(read.rank == 1);
  CHECK(read.workers == 2);
  CHECK(read.images == 200);
  CHECK(read.result == "softmax_a");
  CHECK(read.class_names == written.class_names);
  CHECK(read.counts.counts() == written.counts.counts());
  REQUIRE(read.worst.size() == 2);
  CHECK(read.worst[0].image == "Zm9v");
  CHECK(read.worst[0].probability == 0.75);
  CHECK(read.worst[1].name == "b.png");
  CHECK(read.worst[1].image.empty());
}

TEST_CASE("damaged class results are refused", "[telemetry]") {
  const std::string text = to_json(results());
  for (size_t length = 0; length + 1 < text.size(); length++) CHECK(!parse_class_results(text.substr(0, length)));
  for (size_t i = 0; i < text.size(); i++) {
    std::string broken = text;
    broken[i] = static_cast<char>(broken[i] ^ 1);
    if (const Result<ClassResults> read = parse_class_results(broken)) CHECK(read->worst.size() == 2);
  }
  const std::vector<std::pair<std::string, std::string>> changes = {{"\"epoch\":3", "\"epoch\":-1"},
                                                                    {"\"epoch\":3", "\"epoch\":1e30"},
                                                                    {"[0,1,10]", "[0,1,-10]"},
                                                                    {"[0,1,10]", "[0,1]"},
                                                                    {"[0,1,10]", "7"},
                                                                    {"\"Zm9v\"", "\"><b>\""},
                                                                    {"\"loss\":2.5", "\"loss\":[]"},
                                                                    {"\"worst\":[", "\"worst\":[4,"}};
  for (const auto& [from, to] : changes) {
    INFO(to);
    std::string broken = text;
    REQUIRE(broken.find(from) != std::string::npos);
    broken.replace(broken.find(from), from.size(), to);
    CHECK(parse_class_results(broken).error().code == Code::kData);
  }
}

TEST_CASE("files of class results are known by their names", "[telemetry]") {
  CHECK(class_results_file(12) == "validation-12.json");
  CHECK(is_class_results_file("validation-12.json"));
  for (const char* name : {"validation-.json", "validation-a.json", "validation-1.json.tmp", "validation.json"}) {
    CHECK(!is_class_results_file(name));
  }
}
