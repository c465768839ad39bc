#include "data/loading/mean_image.h"

#include <filesystem>
#include <memory>
#include <stdexcept>

#include "data/loading/open.h"
#include "data/sources/record_source.h"
#include "load_image.h"
#include "make_images.h"
#include "support/catch.h"
#include "support/must.h"
#include "support/temp_dir.h"

using namespace dtrain;
using namespace dtrain::data;
using dtrain::test::must;

// The test adds up the images itself, one by one.
TEST_CASE("the mean image is made once, from central crops, whatever the number of threads", "[data]") {
  const test::TempDir dir;
  test::write_record_file(dir.path("train.rec"), 9, 30, 32, 3, 10);
  std::filesystem::copy(dir.path("train.rec"), dir.path("test.rec"));
  const auto source = must(open_records({.paths = {dir.path("train.rec")}, .index = "", .channels = 3}, Log::silent()));
  const Shape shape = {3, 28, 28};
  const auto one = must(mean_image(dir.path("1.bin"), shape, {}, source, 1, Log::silent()));
  const auto four = must(mean_image(dir.path("4.bin"), shape, {}, source, 4, Log::silent()));
  CHECK(test::read_bytes(dir.path("1.bin")) == test::read_bytes(dir.path("4.bin")));
  CHECK(test::read_bytes(dir.path("1.bin")).size() == 9504);  // an NDArray file with one float32 array [3,28,28]
  double sum = 0;
  for (int i = 0; i < 9; i++) sum += test::gradient_image(30, 32, 3, i).at(1, 2)[2];
  CHECK((*one)[0] == Approx(sum / 9));

  DataOptions options;
  options.data_dir = dir.path();
  options.image_shape = shape;
  options.mean_img = "mean.bin";
  options.training.random_crop = true;
  const DataSets sets = must(open_dataset(options, Log::silent()));
  CHECK(std::filesystem::exists(dir.path("mean.bin")));
  CHECK(test::read_bytes(dir.path("mean.bin")) == test::read_bytes(dir.path("1.bin")));
  const float pixel = test::gradient_image(30, 32, 3, 4).at(1, 2)[2];
  CHECK(test::load(*sets.validation, 4).data[0] == Approx(pixel - (*four)[0]).margin(1e-4));
}

TEST_CASE("a mean image of another shape is refused", "[data]") {
  const test::TempDir dir;
  test::write_record_file(dir.path("train.rec"), 2, 32, 32, 3, 10);
  const auto source = must(open_records({.paths = {dir.path("train.rec")}, .index = "", .channels = 3}, Log::silent()));
  must(mean_image(dir.path("mean.bin"), {3, 28, 28}, {}, source, 1, Log::silent()));
  const Error error = mean_image(dir.path("mean.bin"), {3, 32, 32}, {}, source, 1, Log::silent()).error();
  CHECK(error.code == Code::kData);
  CHECK_THAT(error.text(), Catch::Contains("(3, 28, 28)"));
}

TEST_CASE("a mean image that cannot be written is refused before an image is read", "[data]") {
  class Unreadable : public ImageSource {
   public:
    [[nodiscard]] int64_t size() const override { return 100; }
    [[nodiscard]] int channels() const override { return 3; }
    Result<> read(int64_t, ReadScratch&, std::span<float>) const override {
      throw std::logic_error("an image was read");
    }
    [[nodiscard]] std::string describe(int64_t) const override { return "none"; }
  };
  const test::TempDir dir;
  const auto source = std::make_shared<const Unreadable>();
  const Error error = mean_image(dir.path("absent/mean.bin"), {3, 28, 28}, {}, source, 1, Log::silent()).error();
  CHECK_THAT(error.text(), Catch::Contains("absent/mean.bin"));
  CHECK_THAT(error.text(), Catch::Contains("No such file or directory"));
}
