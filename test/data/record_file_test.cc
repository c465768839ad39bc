#include "data/record_file.h"

#include <catch2/catch.hpp>
#include <filesystem>

#include "make_images.h"
#include "support/temp_dir.h"

using namespace dtrain;
using namespace dtrain::data;
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
            "a.rec: not a RecordIO file, or too damaged to be read: the scan stopped at offset") != std::string::npos);
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
