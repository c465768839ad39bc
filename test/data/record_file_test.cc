#include "data/record_file.h"

#include <catch2/catch.hpp>
#include <filesystem>

#include "make_images.h"
#include "support/temp_dir.h"

using namespace dtrain;
using namespace dtrain::data;
using dtrain::test::must;

TEST_CASE("an index is written as MXNet reads it, and read back whatever the blanks", "[data]") {
  CHECK(index_text({{54, 0}, {586, 37680}, {497, 80148}}) == "54\t0\n586\t37680\n497\t80148\n");
  CHECK(index_path("a/train.rec") == "a/train.idx");
  const test::TempDir dir;
  const std::string path = dir.path("a.idx");
  test::write_text(path, "54\t80148\n586   0\r\n\nimage/7.jpg\t37680");
  CHECK(must(read_index(path, 100000)) == std::vector<int64_t>{0, 37680, 80148});
}

TEST_CASE("an index that cannot be true names its line", "[data]") {
  const test::TempDir dir;
  const std::string path = dir.path("a.idx");
  CHECK(read_index(path, 100).error().code == Code::kNotFound);
  for (const char* text :
       {"0\t0\n1\t2\n", "0\t0\n1\t-4\n", "0\t0\n1\t96\n", "0\t0\n1\n", "0\t0\n1\tx\n", "0\t0\n1\t8 9\n"}) {
    INFO(text);
    test::write_text(path, text);
    const auto refused = read_index(path, 100);
    REQUIRE(!refused);
    CHECK(refused.error().code == Code::kData);
    CHECK(refused.error().message.find("line 2") != std::string::npos);
  }
  test::write_text(path, "0\t8\n1\t8\n");
  CHECK(read_index(path, 100).error().code == Code::kData);
}

// Truncated and flipped: an index is text, so most of this is some other index; nothing may crash.
TEST_CASE("a damaged index is an answer", "[data]") {
  const test::TempDir dir;
  const std::string path = dir.path("a.idx");
  const std::string text = "0\t0\n1\t16\n2\t44\n";
  for (size_t bit = 0; bit < 8 * text.size(); bit++) {
    std::string flipped = text;
    flipped[bit / 8] = static_cast<char>(flipped[bit / 8] ^ 1 << bit % 8);
    test::write_text(path, flipped);
    if (const auto offsets = read_index(path, 100)) CHECK(offsets->size() <= 6);
  }
}

TEST_CASE("a record file without an index is scanned once", "[data]") {
  const test::TempDir dir;
  const std::string path = dir.path("train.rec");
  const std::vector<int64_t> offsets = test::write_record_file(path, 5, 4, 4, 3, 2);
  const RecordFile file = must(RecordFile::open(path));
  CHECK(must(record_offsets(file, "", Log::silent())) == offsets);
  // Written beside it, and believed from now on: an index may leave records out.
  CHECK(must(read_index(dir.path("train.idx"), file.size())) == offsets);
  test::write_text(dir.path("train.idx"), fmt::format("0\t{}\n", offsets[2]));
  CHECK(must(record_offsets(file, "", Log::silent())) == std::vector<int64_t>{offsets[2]});
  // A file that the user names must be there.
  CHECK(record_offsets(file, dir.path("other.idx"), Log::silent()).error().code == Code::kNotFound);
}

TEST_CASE("where no index can be written it stays in memory", "[data]") {
  const test::TempDir dir;
  const std::string path = dir.path("train.rec");
  const std::vector<int64_t> offsets = test::write_record_file(path, 3, 4, 4, 3, 2);
  std::filesystem::create_directories(dir.path("locked"));
  const std::string moved = dir.path("locked/train.rec");
  std::filesystem::rename(path, moved);
  const RecordFile there = must(RecordFile::open(moved));
  std::filesystem::remove_all(dir.path("locked"));  // the file is open still, its directory is gone
  CHECK(must(record_offsets(there, "", Log::silent())) == offsets);
}

TEST_CASE("broken places are in the scanned order, so that readers count them, and no index is written", "[data]") {
  const test::TempDir dir;
  const std::string path = dir.path("train.rec");
  const std::vector<int64_t> offsets = test::write_record_file(path, 3, 4, 4, 3, 2);
  std::vector<uint8_t> bytes = test::read_bytes(path);
  bytes[static_cast<size_t>(offsets[1])] ^= 1;
  test::write_bytes(path, bytes);
  const RecordFile file = must(RecordFile::open(path));
  CHECK(must(record_offsets(file, "", Log::silent())) == offsets);
  CHECK(!std::filesystem::exists(dir.path("train.idx")));
}

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
TEST_CASE("a file made to be walked again and again is given up in time", "[data]") {
  const test::TempDir dir;
  std::vector<uint8_t> bytes;
  constexpr uint32_t kParts = 125'000;
  for (uint32_t i = 0; i < kParts; i++) put_part(bytes, 1, 8 * (kParts - i - 1));
  for (uint32_t i = 0; i < kParts; i++) put_part(bytes, 2, 0);
  test::write_bytes(dir.path("a.rec"), bytes);
  const auto scan = scan_records(must(RecordFile::open(dir.path("a.rec"))));
  REQUIRE(!scan);
  CHECK(scan.error().code == Code::kData);
  CHECK(scan.error().message.find("a.rec: not a record file, or damaged beyond use: given up at offset") !=
        std::string::npos);
}

TEST_CASE("a file of broken places alone is scanned to its end", "[data]") {
  const test::TempDir dir;
  std::vector<uint8_t> bytes;
  for (int i = 0; i < 100'000; i++) put_part(bytes, 1, 0);
  test::write_bytes(dir.path("a.rec"), bytes);
  const RecordScan scan = must(scan_records(must(RecordFile::open(dir.path("a.rec")))));
  CHECK(scan.offsets.empty());
  CHECK(scan.broken.size() == 100'000);
}
