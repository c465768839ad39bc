#include "data/sources/named_images.h"

#include <filesystem>
#include <memory>

#include "base/file.h"
#include "make_images.h"
#include "support/catch.h"
#include "support/must.h"
#include "support/temp_dir.h"

using namespace dtrain;
using namespace dtrain::data;
using namespace dtrain::images;
using dtrain::test::must;

namespace {

void write_png(const std::string& path, int seed, int channels = 3) {
  std::filesystem::create_directories(std::filesystem::path(path).parent_path());
  test::write_bytes(path, must(encode_image(test::gradient_image(8, 8, channels, seed), ".png", 3)));
}

std::shared_ptr<const ImageSource> open(const std::vector<std::string>& names, int channels = 3) {
  return must(open_images(names, channels, Log::silent()));
}

}  // namespace

TEST_CASE("names of images are opened in their order, whatever they are", "[data]") {
  const test::TempDir dir;
  write_png(dir.path("z.png"), 1);
  write_png(dir.path("directory/b.png"), 2);
  write_png(dir.path("directory/inner/a.png"), 3);
  write_png(dir.path("last"), 4);  // a name says nothing about the form
  test::write_text(dir.path("directory/notes.txt"), "not an image");
  std::string cifar;
  for (int i = 0; i < 2; i++)
    cifar += std::string(1, static_cast<char>(i)) + std::string(3072, static_cast<char>(40 + i));
  test::write_text(dir.path("batch.bin"), cifar);

  const auto source = open({dir.path("z.png"), dir.path("directory"), dir.path("batch.bin"), dir.path("last")});
  REQUIRE(source->size() == 6);
  const std::vector<std::string> names = {dir.path("z.png"), dir.path("directory/b.png"),
                                          dir.path("directory/inner/a.png")};
  for (int64_t i = 0; i < 3; i++) CHECK(source->describe(i) == names[static_cast<size_t>(i)]);
  CHECK(source->describe(5) == dir.path("last"));
  ReadScratch scratch;
  for (const int64_t i : {5, 0, 2, 1}) {
    must(source->read(i, scratch, {}));
    const int seed = i == 5 ? 4 : static_cast<int>(i) + 1;
    CHECK(must(scratch.decode())->pixels == test::gradient_image(8, 8, 3, seed).pixels);
  }
  must(source->read(4, scratch, {}));
  CHECK(must(scratch.decode())->pixels[0] == 41);
}

TEST_CASE("idx images need no labels", "[data]") {
  const test::TempDir dir;
  const std::string header("\0\0\x08\x03\0\0\0\x02\0\0\0\x02\0\0\0\x02", 16);
  const std::string path = dir.path("some-images-idx3-ubyte");
  test::write_text(path, header + "abcdefgh");
  const auto source = open({path}, 1);
  REQUIRE(source->size() == 2);
  ReadScratch scratch;
  must(source->read(1, scratch, {}));
  CHECK(must(scratch.decode())->pixels == std::vector<uint8_t>{'e', 'f', 'g', 'h'});
  CHECK(open_images({path}, 3, Log::silent()).error().code == Code::kUsage);
}

TEST_CASE("an image that is missing or broken is an error of that image alone", "[data]") {
  const test::TempDir dir;
  write_png(dir.path("good.png"), 1);
  test::write_text(dir.path("bad.png"), "no image");
  const auto source = open({dir.path("bad.png"), dir.path("gone.png"), dir.path("good.png")});
  ReadScratch scratch;
  for (const int64_t i : {0, 1}) {
    const auto read = source->read(i, scratch, {});
    REQUIRE(!read);
    CHECK(read.error().code == Code::kData);
    CHECK_THAT(read.error().message, Catch::StartsWith(source->describe(i)));
  }
  CHECK(source->read(2, scratch, {}));
}

TEST_CASE("what holds several images must be there", "[data]") {
  const test::TempDir dir;
  std::filesystem::create_directory(dir.path("empty"));
  CHECK(open_images({dir.path("empty")}, 3, Log::silent()).error().code == Code::kData);
  CHECK(open_images({dir.path("gone.rec")}, 3, Log::silent()).error().code == Code::kNotFound);
  CHECK(open_images({dir.path("gone.bin")}, 3, Log::silent()).error().code == Code::kNotFound);
  CHECK(open({})->size() == 0);
}
