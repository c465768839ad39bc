#include "data/sources/idx_source.h"

#include "make_data_sets.h"
#include "support/catch.h"
#include "support/must.h"
#include "support/temp_dir.h"

using namespace dtrain;
using namespace dtrain::data;
using namespace dtrain::images;
using dtrain::test::must;

TEST_CASE("idx files are read, plain and compressed", "[data]") {
  const test::TempDir dir;
  test::write_text(dir.path("i"), test::idx_images(12));
  test::write_gzip(dir.path("l.gz"), test::idx_labels(12));
  const auto source = must(open_idx(dir.path("i"), dir.path("l.gz")));
  CHECK(source->size() == 12);
  ReadScratch scratch;
  CHECK(must(test::read_label(*source, 11, scratch)) == 1.0f);
  CHECK(scratch.size() == ImageSize{2, 3});
  CHECK(must(scratch.decode())->pixels == std::vector<uint8_t>(6, 11));
}

TEST_CASE("idx files with a wrong magic, size or count are refused", "[data]") {
  const test::TempDir dir;
  const auto open = [&](const std::string& images, const std::string& labels) {
    test::write_text(dir.path("i"), images);
    test::write_text(dir.path("l"), labels);
    return open_idx(dir.path("i"), dir.path("l"));
  };
  CHECK(open(test::idx_images(3), test::idx_labels(3)));
  CHECK_THAT(open(test::idx_images(3), test::idx_labels(4)).error().text(), Catch::Contains("3 images"));
  CHECK(!open(test::idx_labels(3), test::idx_labels(3)));
  CHECK(!open(test::idx_images(3), test::idx_images(3)));
  CHECK(!open(test::idx_images(0), test::idx_labels(0)));
  CHECK(!open(test::idx_images(3) + "x", test::idx_labels(3)));
  CHECK(!open(test::big_endian({0x803, 0xffffffff, 0xffffffff, 0xffffffff}), test::idx_labels(3)));
  const std::string images = test::idx_images(3), labels = test::idx_labels(3);
  for (size_t length = 0; length < images.size(); length++) CHECK(!open(images.substr(0, length), labels));
  for (size_t length = 0; length < labels.size(); length++) CHECK(!open(images, labels.substr(0, length)));
  CHECK(open_idx(dir.path("absent"), dir.path("l")).error().code == Code::kNotFound);
}

TEST_CASE("a damaged gzip file is an error", "[data]") {
  const test::TempDir dir;
  test::write_gzip(dir.path("a.gz"), test::idx_images(30, 28, 28));
  test::write_text(dir.path("l"), test::idx_labels(30));
  must(open_idx(dir.path("a.gz"), dir.path("l")));
  const auto whole = test::read_bytes(dir.path("a.gz"));
  const auto open = [&](const std::vector<uint8_t>& bytes) {
    test::write_bytes(dir.path("b.gz"), bytes);
    return open_idx(dir.path("b.gz"), dir.path("l"));
  };
  for (size_t length = 0; length < whole.size(); length++) {
    INFO("length " << length);
    REQUIRE(!open({whole.begin(), whole.begin() + static_cast<long>(length)}));
  }
  // A flip in the header's time or in a bit that only fills a byte changes nothing; all others are found by the
  // checksum.
  ReadScratch scratch;
  size_t unharmed = 0;
  for (size_t bit = 0; bit < 8 * whole.size(); bit++) {
    std::vector<uint8_t> flipped = whole;
    flipped[bit / 8] ^= static_cast<uint8_t>(1 << bit % 8);
    const auto opened = open(flipped);
    if (!opened) continue;
    unharmed++;
    REQUIRE(bit / 8 < whole.size() - 8);  // the checksum and the size
    for (int64_t i = 0; i < 30; i++) {
      must(test::read_label(**opened, i, scratch));
      REQUIRE(must(scratch.decode())->pixels == std::vector<uint8_t>(28 * 28, static_cast<uint8_t>(i)));
    }
  }
  CHECK(unharmed < 4 * whole.size());
}

// 10 MB of zeros are 10 kB of gzip.
TEST_CASE("a gzip file is not decompressed beyond the size that its header announces", "[data]") {
  const test::TempDir dir;
  test::write_text(dir.path("l"), test::idx_labels(3));
  test::write_gzip(dir.path("more.gz"), test::idx_images(3) + std::string(10'000'000, 'x'));
  const auto more = open_idx(dir.path("more.gz"), dir.path("l"));
  REQUIRE(!more);
  CHECK_THAT(more.error().text(), Catch::Contains("the header announces 34 bytes, but the file has more"));
  test::write_gzip(dir.path("huge.gz"), test::big_endian({0x803, 70'000, 128, 128}) + std::string(1000, 'x'));
  const auto huge = open_idx(dir.path("huge.gz"), dir.path("l"));
  REQUIRE(!huge);
  CHECK_THAT(huge.error().text(),
             Catch::Contains("huge.gz: the header announces 1146880000 bytes, more than the limit of 1073741824"));
}
