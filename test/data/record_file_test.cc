#include "data/records/record_file.h"

#include <algorithm>
#include <filesystem>
#include <fstream>

#include "data/loading/image_dataset.h"
#include "data/loading/loader.h"
#include "data/sources/record_source.h"
#include "make_images.h"
#include "support/catch.h"
#include "support/temp_dir.h"

using namespace dtrain;
using namespace dtrain::data;
using namespace dtrain::images;
using dtrain::test::must;

namespace {

void put_part(std::vector<uint8_t>& out, uint32_t flag, uint32_t length) {
  const size_t at = out.size();
  out.resize(at + 8);
  store_u32(out.data() + at, kRecordMagic);
  store_u32(out.data() + at + 4, flag << 29 | length);
}

}  // namespace

// Every start in the first half leads through all parts of the second half, where a last part is missing: without a
// limit that is 125,000 x 125,000 steps.
TEST_CASE("a file that is made to be scanned again and again is given up in time", "[data]") {
  const test::TempDir dir;
  std::vector<uint8_t> bytes;
  constexpr uint32_t kParts = 125'000;
  for (uint32_t i = 0; i < kParts; i++) put_part(bytes, 1, 8 * (kParts - i - 1));
  for (uint32_t i = 0; i < kParts; i++) put_part(bytes, 2, 0);
  test::write_bytes(dir.path("a.rec"), bytes);
  const auto scan = scan_records(must(RecordFile::open(dir.path("a.rec"))));
  REQUIRE(!scan);
  CHECK(scan.error().code == Code::kData);
  CHECK(scan.error().message.find(
            "a.rec: the file is not a RecordIO file, or it is too damaged to be read: the scan stopped at offset") !=
        std::string::npos);
}

TEST_CASE("a file that has only broken places is scanned to its end", "[data]") {
  const test::TempDir dir;
  std::vector<uint8_t> bytes;
  for (int i = 0; i < 100'000; i++) put_part(bytes, 1, 0);
  test::write_bytes(dir.path("a.rec"), bytes);
  const RecordScan scan = must(scan_records(must(RecordFile::open(dir.path("a.rec")))));
  CHECK(scan.offsets.empty());
  CHECK(scan.broken.size() == 100'000);
}

// As when a copy of a file breaks off, or a length is damaged. The place would be counted twice, and worker 0 could not
// send the offsets to the others, which must ascend.
TEST_CASE("a record that runs beyond the end of the file behind a sound one is one broken place", "[data]") {
  const test::TempDir dir;
  std::vector<uint8_t> bytes;
  put_part(bytes, 0, 0);
  put_part(bytes, 0, 1000);
  put_part(bytes, 0, 0);
  put_part(bytes, 0, 1000);
  test::write_bytes(dir.path("a.rec"), bytes);
  const RecordScan scan = must(scan_records(must(RecordFile::open(dir.path("a.rec")))));
  CHECK(scan.offsets == std::vector<int64_t>{0, 16});
  REQUIRE(scan.broken.size() == 2);
  CHECK(scan.broken[0].offset == 8);
  CHECK(scan.broken[1].offset == 24);
}

namespace {

// Writes records of 1 MiB each: a small image, and bytes after its end, which decoders ignore.
void write_long_records(const std::string& path, int records) {
  std::vector<uint8_t> image = must(encode_image(test::gradient_image(8, 8, 3, 1), ".jpg", 95));
  image.resize(1 << 20);
  std::vector<uint8_t> record;
  must(append_record(record, test::image_payload(1, 1.0f, image)));
  std::ofstream out(path, std::ios::binary);
  for (int i = 0; i < records; i++) {
    out.write(reinterpret_cast<const char*>(record.data()), static_cast<std::streamsize>(record.size()));
  }
}

int64_t resident_bytes() {
  int64_t pages = 0;
  std::ifstream("/proc/self/statm") >> pages >> pages;
  return pages * 4096;
}

}  // namespace

TEST_CASE("the memory of an epoch does not grow with the size of the file", "[data]") {
  const test::TempDir dir;
  constexpr int kRecords = 64;
  write_long_records(dir.path("a.rec"), kRecords);
  const auto source = must(open_records({.paths = {dir.path("a.rec")}, .index = {}}, Log::silent()));
  const AugmentOptions augment{
      .image = {3, 8, 8}, .mean = std::vector<float>(3, 0.0f), .std = std::vector<float>(3, 1.0f)};
  Loader loader(augmented(source, augment), {.share = {0, kRecords}, .batch_size = 4, .threads = 2}, Log::silent());
  loader.start(0);
  REQUIRE(must(loader.next()) != nullptr);
  const int64_t before = resident_bytes();
  int64_t most = before;
  int batches = 1;
  while (must(loader.next()) != nullptr) {
    most = std::max(most, resident_bytes());
    batches++;
  }
  CHECK(batches == kRecords / 4);
  CHECK(most - before < (int64_t{16} << 20));
}
