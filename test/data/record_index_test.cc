#include "data/records/record_index.h"

#include <algorithm>
#include <filesystem>

#include "base/file.h"
#include "data/loading/open.h"
#include "make_images.h"
#include "support/catch.h"
#include "support/temp_dir.h"

using namespace dtrain;
using namespace dtrain::data;
using dtrain::test::must;

TEST_CASE("an index is written as MXNet reads it, and read back with any blanks", "[data]") {
  CHECK(index_text({{54, 0}, {586, 37680}, {497, 80148}}) == "54\t0\n586\t37680\n497\t80148\n");
  CHECK(index_path("a/train.rec") == "a/train.idx");
  const test::TempDir dir;
  const std::string path = dir.path("a.idx");
  test::write_text(path, "54\t80148\n586   0\r\n\nimage/7.jpg\t37680");
  CHECK(must(read_index(path, 100000)) == std::vector<int64_t>{0, 37680, 80148});
}

TEST_CASE("the error of an impossible index names its line", "[data]") {
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
    CHECK_THAT(refused.error().message, Catch::Contains("line 2") && Catch::Contains("dtrain data index"));
  }
  test::write_text(path, "0\t8\n1\t16\n2\t8\n");
  const auto twice = read_index(path, 100);
  CHECK(twice.error().code == Code::kData);
  CHECK_THAT(twice.error().message, Catch::Contains("lines 1 and 3 both have the offset 8; rebuild the index"));
}

// Truncated and flipped: an index is text, so most of this is some other index; nothing may crash.
TEST_CASE("a damaged index is read or refused, without a crash", "[data]") {
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
  // The index was written next to the file and is used from now on; an index may leave records out.
  CHECK(must(read_index(dir.path("train.idx"), file.size())) == offsets);
  test::write_text(dir.path("train.idx"), fmt::format("0\t{}\n", offsets[2]));
  CHECK(must(record_offsets(file, "", Log::silent())) == std::vector<int64_t>{offsets[2]});
  // A file that the user names must be there.
  CHECK(record_offsets(file, dir.path("other.idx"), Log::silent()).error().code == Code::kNotFound);
}

TEST_CASE("an index of another file, or one without records, is refused", "[data]") {
  const test::TempDir dir;
  const std::string path = dir.path("train.rec");
  const std::vector<int64_t> offsets = test::write_record_file(path, 40, 4, 4, 3, 2);
  const RecordFile file = must(RecordFile::open(path));
  const auto read_with = [&](const std::string& index) {
    test::write_text(dir.path("train.idx"), index);
    return record_offsets(file, "", Log::silent());
  };
  std::string other;
  for (const int64_t offset : offsets) other += fmt::format("0\t{}\n", offset / 8 * 4 + 4);
  const auto refused = read_with(other);
  REQUIRE(!refused);
  CHECK(refused.error().code == Code::kData);
  CHECK_THAT(refused.error().message, Catch::Contains("train.idx: this is not the index of") &&
                                          Catch::Contains("dtrain data index") && Catch::Contains("of 16 offsets"));
  const auto empty = read_with("\n");
  REQUIRE(!empty);
  CHECK_THAT(empty.error().message, Catch::Contains("train.idx: the index lists no records"));
  // A single place without a record is a broken record, which training skips and counts.
  auto bytes = test::read_bytes(path);
  bytes[0] = 0;
  test::write_bytes(path, bytes);
  std::string sound;
  for (const int64_t offset : offsets) sound += fmt::format("0\t{}\n", offset);
  CHECK(must(read_with(sound)) == offsets);
}

// The log has one warning if records before the first or behind the last one of the index are left out.
TEST_CASE("an index that was cut off is used with a warning", "[data]") {
  const test::TempDir dir;
  const std::string path = dir.path("train.rec");
  const std::vector<int64_t> offsets = test::write_record_file(path, 5, 4, 4, 3, 2);
  const RecordFile file = must(RecordFile::open(path));
  const auto warnings_with = [&](size_t begin, size_t end) {
    std::string index;
    for (size_t i = begin; i < end; i++) index += fmt::format("{}\t{}\n", i, offsets[i]);
    test::write_text(dir.path("train.idx"), index);
    std::filesystem::remove(dir.path("log"));
    Log log = Log::silent();
    must(log.add_file(dir.path("log")));
    CHECK(must(record_offsets(file, "", log)).size() == end - begin);
    return must(read_file(dir.path("log")));
  };
  CHECK(warnings_with(0, 5).empty());
  CHECK_THAT(warnings_with(0, 3),
             Catch::Contains(fmt::format("the first 0 and the last {} bytes of {}", file.size() - offsets[3], path)));
  CHECK_THAT(warnings_with(1, 5), Catch::Contains(fmt::format("the first {} and the last 0 bytes of", offsets[1])));
}

TEST_CASE("an index that cannot be written is kept in memory", "[data]") {
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

TEST_CASE("the offsets of a file with broken places are kept until the file is changed", "[data]") {
  const test::TempDir dir;
  const std::string path = dir.path("train.rec");
  const std::vector<int64_t> offsets = test::write_record_file(path, 5, 4, 4, 3, 2);
  const std::vector<uint8_t> good = test::read_bytes(path);
  std::vector<uint8_t> bad = good;
  bad[static_cast<size_t>(offsets[1])] ^= 1;
  test::write_bytes(path, bad);
  int64_t windows = 0;
  const auto make = [&](const std::string& directory) {
    windows = 0;
    Log log = Log::silent();
    must(log.add_file(dir.path("log")));
    const auto found = must(make_index(
        must(RecordFile::open(path)), log,
        [&](int64_t) -> Result<> {
          windows++;
          return {};
        },
        directory));
    log.flush();
    const auto text = test::read_bytes(dir.path("log"));
    std::filesystem::remove(dir.path("log"));
    CHECK_THAT(
        std::string(text.begin(), text.end()),
        Catch::Contains("train.rec: 4 records, 1 broken places, the first at offset") || Catch::Contains("into"));
    return found;
  };
  CHECK(make("") == offsets);
  CHECK(windows > 0);
  CHECK(std::filesystem::exists(dir.path("train.offsets")));
  CHECK(make("") == offsets);
  CHECK(windows == 0);

  // A file of the same size, with the same first and last record, that is whole or broken elsewhere.
  bad = good;
  bad[static_cast<size_t>(offsets[2])] ^= 1;
  test::write_bytes(path, bad);
  std::filesystem::last_write_time(path, std::filesystem::last_write_time(path) + std::chrono::seconds(1));
  CHECK(make("") == offsets);
  CHECK(windows > 0);
  test::write_bytes(path, good);
  std::filesystem::last_write_time(path, std::filesystem::last_write_time(path) + std::chrono::seconds(2));
  CHECK(make("") == offsets);
  CHECK(windows > 0);
  CHECK(std::filesystem::exists(dir.path("train.idx")));
  CHECK(!std::filesystem::exists(dir.path("train.offsets")));

  // If nothing can be written next to the file.
  std::filesystem::remove(dir.path("train.idx"));
  std::filesystem::create_directories(dir.path("train.offsets"));
  std::filesystem::create_directories(dir.path("kept"));
  test::write_bytes(path, bad);
  CHECK(make(dir.path("kept")) == offsets);
  CHECK(windows > 0);
  CHECK(make(dir.path("kept")) == offsets);
  CHECK(windows == 0);
}

namespace {

constexpr int kManyRecords = 300;  // the distances take one, two and three bytes

// Records of very different sizes, in `path`: their offsets.
std::vector<int64_t> write_uneven_records(const std::string& path) {
  std::vector<uint8_t> bytes;
  std::vector<int64_t> offsets;
  for (int i = 0; i < kManyRecords; i++) {
    offsets.push_back(std::ssize(bytes));
    const std::vector<uint8_t> payload(static_cast<size_t>(i % 97 == 0 ? 70'000 : 13 * i), static_cast<uint8_t>(i));
    must(append_record(bytes, payload));
  }
  test::write_bytes(path, bytes);
  return offsets;
}

}  // namespace

TEST_CASE("offsets packed for another process are unpacked there, and a different file is noticed", "[data]") {
  const test::TempDir dir;
  const std::vector<int64_t> offsets = write_uneven_records(dir.path("a.rec"));
  const RecordFile file = must(RecordFile::open(dir.path("a.rec")));
  const std::string packed = must(pack_offsets(file, offsets));
  CHECK(packed.size() < 24 + 3 * kManyRecords);
  CHECK(must(unpack_offsets(file, packed)) == offsets);
  CHECK(must(unpack_offsets(file, must(pack_offsets(file, {offsets[7]})))) == std::vector<int64_t>{offsets[7]});

  const std::vector<uint8_t> bytes = test::read_bytes(dir.path("a.rec"));
  const auto why_not = [&](const std::vector<uint8_t>& other) {
    test::write_bytes(dir.path("b.rec"), other);
    const auto refused = unpack_offsets(must(RecordFile::open(dir.path("b.rec"))), packed);
    REQUIRE(!refused);
    CHECK(refused.error().code == Code::kData);
    CHECK_THAT(refused.error().message, Catch::Contains("b.rec") && Catch::Contains("copy the same file to all hosts"));
    return refused.error().message;
  };
  std::vector<uint8_t> longer = bytes;
  longer.resize(bytes.size() + 8);
  CHECK_THAT(why_not(longer),
             Catch::Contains(std::to_string(longer.size())) && Catch::Contains(std::to_string(bytes.size())));
  for (const int64_t record : {offsets.front(), offsets.back()}) {
    std::vector<uint8_t> changed = bytes;
    changed[static_cast<size_t>(record) + 4] ^= 4;  // its length
    CHECK_THAT(why_not(changed), Catch::Contains("the file differs"));
  }
  CHECK(pack_offsets(file, {}).error().code == Code::kData);
}

TEST_CASE("damaged packed offsets are unpacked or refused, without a crash", "[data]") {
  const test::TempDir dir;
  const std::vector<int64_t> offsets = write_uneven_records(dir.path("a.rec"));
  const RecordFile file = must(RecordFile::open(dir.path("a.rec")));
  const std::string packed = must(pack_offsets(file, offsets));
  const auto check = [&](const std::string& bytes) {
    const auto back = unpack_offsets(file, bytes);
    if (!back) return;
    for (size_t i = 0; i < back->size(); i++) {
      REQUIRE((*back)[i] <= file.size() - PartHeader::kBytes);
      REQUIRE((i == 0 || (*back)[i - 1] < (*back)[i]));
    }
  };
  for (size_t size = 0; size < packed.size(); size++) {
    CHECK_FALSE(unpack_offsets(file, packed.substr(0, size)));  // the last record is another one
  }
  for (size_t bit = 0; bit < 8 * packed.size(); bit++) {
    std::string flipped = packed;
    flipped[bit / 8] = static_cast<char>(flipped[bit / 8] ^ 1 << bit % 8);
    check(flipped);
  }
  check(packed + std::string(20, '\xff'));
  check(packed + std::string(1000, '\0'));
}

TEST_CASE("a scan reports its progress, and ends when it is told to", "[data]") {
  const test::TempDir dir;
  (void)write_uneven_records(dir.path("a.rec"));
  const RecordFile file = must(RecordFile::open(dir.path("a.rec")));
  std::vector<int64_t> reached;
  const auto count = [&](int64_t offset) -> Result<> {
    reached.push_back(offset);
    return {};
  };
  must(make_index(file, Log::silent(), count));
  CHECK(reached.size() >= 5);  // 64 KB at a time
  CHECK(std::ranges::is_sorted(reached));
  const auto stop = [](int64_t offset) -> Result<> {
    if (offset == 0) return {};
    return fail(Code::kPreempted, "enough");
  };
  const auto stopped = make_index(file, Log::silent(), stop);
  REQUIRE(!stopped);
  CHECK(stopped.error().code == Code::kPreempted);
}

TEST_CASE("offsets are kept in another directory if no index can be written next to the file", "[data]") {
  const test::TempDir dir;
  const std::vector<int64_t> offsets = write_uneven_records(dir.path("a.rec"));
  std::filesystem::create_directories(dir.path("a.idx"));  // stands in for a directory that cannot be written to
  std::filesystem::create_directories(dir.path("kept"));
  int64_t windows = 0;
  const auto count = [&](int64_t) -> Result<> {
    windows++;
    return {};
  };
  const auto make = [&] {
    windows = 0;
    return must(make_index(must(RecordFile::open(dir.path("a.rec"))), Log::silent(), count, dir.path("kept")));
  };
  CHECK(make() == offsets);
  CHECK(windows > 0);
  const std::filesystem::path kept = std::filesystem::directory_iterator(dir.path("kept"))->path();
  CHECK_THAT(kept.filename().string(), Catch::StartsWith("a-") && Catch::EndsWith(".offsets"));
  CHECK(make() == offsets);
  CHECK(windows == 0);
  std::filesystem::resize_file(kept, 30);  // damaged
  CHECK(make() == offsets);
  CHECK(windows > 0);
  std::vector<uint8_t> longer = test::read_bytes(dir.path("a.rec"));
  must(append_record(longer, std::vector<uint8_t>(5)));
  test::write_bytes(dir.path("a.rec"), longer);  // another file
  CHECK(make().size() == offsets.size() + 1);
  CHECK(windows > 0);
}

TEST_CASE("record files of a data set are listed once each, and which of them lack an index", "[data]") {
  const test::TempDir dir;
  for (const char* name : {"train.rec", "val.rec"}) (void)test::write_record_file(dir.path(name), 2, 4, 4, 3, 2);
  const auto names = [&](const std::string& train, const std::string& val, const std::string& index) {
    DataOptions options;
    options.data_dir = dir.path();
    options.data_train = train;
    options.data_val = val;
    options.data_val_idx = index;
    std::string text;
    for (const IndexedFile& file : must(record_files(options))) {
      text += std::filesystem::path(file.path).filename().string() + (lacks_index(file) ? "- " : "+ ");
    }
    return text;
  };
  CHECK(names("", "", "") == "train.rec- val.rec- ");
  test::write_text(dir.path("train.idx"), "0\t0\n");
  CHECK(names("", "", "") == "train.rec+ val.rec- ");
  CHECK(names("val.rec;train.rec", "train.rec", "") == "val.rec- train.rec+ ");
  CHECK(names("train.rec", "val.rec", "elsewhere.idx") ==
        "train.rec+ val.rec+ ");  // an index that the user names is never made
}
