// Calls what gpu-check's stages do as functions, on the emulator.
#include <memory>
#include <set>

#include "base/file.h"
#include "base/random.h"
#include "graph/models/models.h"
#include "lesson.h"
#include "speed.h"
#include "stages.h"
#include "support/catch.h"
#include "support/must.h"
#include "support/temp_dir.h"

using namespace dtrain;
using namespace dtrain::gpu;
using dtrain::test::must;
using dtrain::test::TempDir;

namespace {

std::unique_ptr<Machine> machine() {
  return must(open_machine({}, Log::silent()));
}

// A light row on a dark background; its height is the class.
LabeledImages rows(int64_t count) {
  LabeledImages images{.shape = {1, 32, 32}, .pixels = {}, .labels = {}};
  RandomStream random(1, Use::kTest);
  for (int64_t i = 0; i < count; i++) {
    images.labels.push_back(static_cast<uint8_t>(i % 10));
    for (int64_t pixel = 0; pixel < 32 * 32; pixel++) {
      const bool light = (pixel / 32 - 4) / 2 == i % 10;
      images.pixels.push_back(static_cast<uint8_t>((light ? 150 : 0) + random.below(100)));
    }
  }
  return images;
}

}  // namespace

TEST_CASE("a network learns images with its weights on the device", "[gpu]") {
  const Lesson lesson{.network = "mlp", .batch = 10, .epochs = 6, .rate = 0.05, .scale = 1.0F / 255};
  const auto emulated = machine();
  for (const Type type : {Type::kFloat32, Type::kFloat16}) {
    exec::Options options;
    options.dtype = type;
    const Progress progress = must(learn(emulated->backend(), lesson, rows(60), options));
    INFO(type_name(type));
    REQUIRE(progress.training_accuracy.size() == 6);
    CHECK(progress.training_accuracy.front() < 0.5);
    CHECK(progress.training_accuracy.back() > 0.8);
    CHECK(progress.inference_accuracy > 0.8);
  }
}

TEST_CASE("the speed of a network is measured over its steps", "[gpu]") {
  const auto emulated = machine();
  const Course course{.graph = must(graph::build_model({.network = "mlp", .image = {1, 28, 28}})),
                      .options = {.batch_size = 4, .inputs = {{.shape = {1, 28, 28}}}}};
  const Speed speed = must(measure_speed(*emulated, course, {.warm_up = 2, .steps = 5}));
  CHECK(speed.images_per_s > speed.images_per_s_brought);
  CHECK(speed.images_per_s_brought > 0);
  CHECK(speed.planned_bytes > 0);
}

// A step that overflows takes as long as another. Once it ended the measurement, and ResNet-50 had no rate.
TEST_CASE("the speed of a network is measured although its first steps overflow", "[gpu]") {
  const auto emulated = machine();
  constexpr double kTooLarge = 1 << 24;
  const Course course{.graph = must(graph::build_model({.network = "mlp", .image = {1, 28, 28}})),
                      .options = {.batch_size = 4, .inputs = {{.shape = {1, 28, 28}}}, .dtype = Type::kFloat16},
                      .loss_scale = kTooLarge};
  CHECK(must(measure_speed(*emulated, course, {.warm_up = 2, .steps = 5})).images_per_s > 0);
}

TEST_CASE("parts of a stage have unique names", "[gpu]") {
  const auto emulated = machine();
  for (const auto& parts :
       {ops_parts(*emulated), nets_parts(*emulated), train_parts(*emulated, {}), small_parts(*emulated)}) {
    std::set<std::string> names;
    for (const Part& part : parts) names.insert(part.name);
    CHECK(names.size() == parts.size());
    CHECK(parts.size() >= 15);
  }
}

TEST_CASE("images are read back as they were written, or refused", "[gpu]") {
  const TempDir dir;
  const LabeledImages images = rows(3);
  must(write_images(dir.path(), "rows", images));
  const LabeledImages read = must(read_images(dir.path(), "rows"));
  CHECK(read.shape == images.shape);
  CHECK(read.pixels == images.pixels);
  CHECK(read.labels == images.labels);
  std::vector<float> centre(28 * 28);
  read.read(1, 28, 28, 10, 2, centre.data());
  CHECK(centre[0] == 2 * (static_cast<float>(images.pixels[32 * 32 + 2 * 32 + 2]) - 10));

  for (const char* file : {"rows-images.idx", "rows-labels.idx"}) {
    const std::string whole = must(read_file(dir.path(file)));
    for (size_t length = 0; length < std::min<size_t>(whole.size(), 40); length++) {
      must(write_file_atomic(dir.path(file), whole.substr(0, length)));
      CHECK_FALSE(read_images(dir.path(), "rows"));
    }
    for (size_t byte = 0; byte < 20; byte++) {
      std::string flipped = whole;
      flipped[byte % whole.size()] = static_cast<char>(~flipped[byte % whole.size()]);
      must(write_file_atomic(dir.path(file), flipped));
      CHECK_FALSE(read_images(dir.path(), "rows"));
    }
    must(write_file_atomic(dir.path(file), whole));
  }
}
