#include <algorithm>

#include "data/records/recordio.h"

#include "base/random.h"
#include "data/records/record_file.h"
#include "make_images.h"
#include "support/catch.h"
#include "support/temp_dir.h"

using namespace dtrain;
using namespace dtrain::data;
using dtrain::test::must;

namespace {

std::vector<uint8_t> from_hex(std::string_view hex) {
  std::vector<uint8_t> bytes;
  for (size_t i = 0; i < hex.size();) {
    if (hex[i] == ' ') {
      i++;
      continue;
    }
    bytes.push_back(static_cast<uint8_t>(std::stoi(std::string(hex.substr(i, 2)), nullptr, 16)));
    i += 2;
  }
  return bytes;
}

std::vector<uint8_t> encode(const std::vector<uint8_t>& payload) {
  std::vector<uint8_t> out;
  must(append_record(out, payload));
  return out;
}

// The payload of the record at `offset`, as a file's reader gives it.
Result<std::vector<uint8_t>> read_at(const std::string& path, int64_t offset, int64_t end) {
  DT_TRY(const RecordFile file, RecordFile::open(path));
  std::vector<uint8_t> buffer;
  DT_TRY(const Bytes payload, file.read(offset, end, buffer));
  return std::vector<uint8_t>(payload.begin(), payload.end());
}

// Words of which every third is the magic, sometimes shifted by a byte, so that it also stands unaligned.
std::vector<uint8_t> salted_payload(RandomStream& random) {
  std::vector<uint8_t> payload(static_cast<size_t>(random.below(4)));
  const int64_t words = random.below(12);
  for (int64_t i = 0; i < words; i++) {
    uint8_t word[4];
    store_u32(word, random.below(3) == 0 ? kRecordMagic : static_cast<uint32_t>(random.next()));
    payload.insert(payload.end(), word, word + 4);
    if (random.below(8) == 0) payload.push_back(static_cast<uint8_t>(random.next()));
  }
  return payload;
}

}  // namespace

// The bytes are those of MXNet's writer (docs/formats.md, "RecordIO").
TEST_CASE("the seven worked examples of RecordIO are written and read byte for byte", "[data]") {
  const struct {
    const char* payload;
    const char* record;
  } examples[] = {
      {"616263", "0a23d7ce 03000000 616263 00"},
      {"", "0a23d7ce 00000000"},
      {"41424344 0a23d7ce 4546", "0a23d7ce 04000020 41424344 0a23d7ce 02000060 4546 0000"},
      {"0a23d7ce 5859", "0a23d7ce 00000020 0a23d7ce 02000060 5859 0000"},
      {"0a23d7ce", "0a23d7ce 00000020 0a23d7ce 00000060"},
      {"41424344 0a23d7ce 0a23d7ce 5a", "0a23d7ce 04000020 41424344 0a23d7ce 00000040 0a23d7ce 01000060 5a 000000"},
      {"41 0a23d7ce", "0a23d7ce 05000000 41 0a23d7ce 000000"},
  };
  const test::TempDir dir;
  for (const auto& example : examples) {
    INFO(example.record);
    CHECK(encode(from_hex(example.payload)) == from_hex(example.record));
    test::write_bytes(dir.path("a.rec"), from_hex(example.record));
    CHECK(must(read_at(dir.path("a.rec"), 0, 0)) == from_hex(example.payload));
  }
}

// Files of several random records: each is read back, with and without knowing where the next one begins; a scan finds
// exactly them; and from every position the next start is the next record's.
TEST_CASE("records with the magic anywhere inside round-trip", "[data]") {
  const test::TempDir dir;
  const std::string path = dir.path("a.rec");
  for (uint64_t seed = 0; seed < 200; seed++) {
    INFO("seed " << seed);
    RandomStream random(seed, Use::kTest);
    std::vector<uint8_t> bytes;
    std::vector<std::vector<uint8_t>> payloads;
    std::vector<int64_t> offsets;
    for (int64_t i = 1 + random.below(6); i > 0; i--) {
      payloads.push_back(salted_payload(random));
      offsets.push_back(static_cast<int64_t>(bytes.size()));
      must(append_record(bytes, payloads.back()));
    }
    test::write_bytes(path, bytes);
    const RecordFile file = must(RecordFile::open(path));
    const RecordScan scan = must(scan_records(file));
    REQUIRE(scan.offsets == offsets);
    REQUIRE(scan.broken.empty());
    for (size_t i = 0; i < offsets.size(); i++) {
      const int64_t end = i + 1 < offsets.size() ? offsets[i + 1] : file.size();
      REQUIRE(must(read_at(path, offsets[i], end)) == payloads[i]);
      REQUIRE(must(read_at(path, offsets[i], 0)) == payloads[i]);
    }
    for (int64_t p = 0; p <= file.size(); p++) {
      const auto next = std::lower_bound(offsets.begin(), offsets.end(), p);
      REQUIRE(find_record_start(bytes, p) == (next == offsets.end() ? file.size() : *next));
    }
  }
}

TEST_CASE("a record longer than a part can be is refused", "[data]") {
  std::vector<uint8_t> out;
  const uint8_t byte = 0;
  // Only the length is looked at before the answer.
  const auto refused = append_record(out, Bytes(&byte, size_t{1} << 29));
  REQUIRE(!refused);
  CHECK(refused.error().code == Code::kData);
  CHECK(out.empty());
}

namespace {

// Reads all records that a scan finds and all that an undamaged index lists. Whatever the bytes are, nothing may crash
// and no record may have more bytes than the file.
void read_everything(const std::string& path, const std::vector<int64_t>& offsets) {
  const RecordFile file = must(RecordFile::open(path));
  const RecordScan scan = must(scan_records(file));
  std::vector<uint8_t> buffer;
  for (const int64_t offset : scan.offsets) REQUIRE(file.read(offset, file.size(), buffer));
  for (const RecordScan::Broken& broken : scan.broken) {
    REQUIRE(broken.offset <= file.size());
    (void)file.read(broken.offset, file.size(), buffer);
  }
  for (size_t i = 0; i < offsets.size(); i++) {
    const auto payload = file.read(offsets[i], i + 1 < offsets.size() ? offsets[i + 1] : file.size(), buffer);
    if (payload) {
      REQUIRE(static_cast<int64_t>(payload->size()) <= file.size());
    } else {
      REQUIRE(payload.error().code == Code::kData);
    }
  }
}

struct SmallFile {
  std::vector<uint8_t> bytes;
  std::vector<int64_t> offsets;

  SmallFile() {
    for (const char* payload : {"616263", "41424344 0a23d7ce 0a23d7ce 5a", "", "0a23d7ce 5859", "01020304"}) {
      offsets.push_back(static_cast<int64_t>(bytes.size()));
      must(append_record(bytes, from_hex(payload)));
    }
  }
};

}  // namespace

TEST_CASE("a record file truncated at any length is read or refused, without a crash", "[data]") {
  const test::TempDir dir;
  const SmallFile small;
  for (size_t length = 0; length < small.bytes.size(); length++) {
    INFO("length " << length);
    test::write_bytes(dir.path("a.rec"), {small.bytes.begin(), small.bytes.begin() + static_cast<long>(length)});
    read_everything(dir.path("a.rec"), small.offsets);
  }
}

TEST_CASE("a record file with any bit flipped is read or refused, and the scan recovers behind the damage", "[data]") {
  const test::TempDir dir;
  const SmallFile small;
  int last_lost = 0;
  for (size_t bit = 0; bit < 8 * small.bytes.size(); bit++) {
    INFO("bit " << bit);
    std::vector<uint8_t> bytes = small.bytes;
    bytes[bit / 8] ^= static_cast<uint8_t>(1 << bit % 8);
    test::write_bytes(dir.path("a.rec"), bytes);
    read_everything(dir.path("a.rec"), small.offsets);
    const auto scan = must(scan_records(must(RecordFile::open(dir.path("a.rec")))));
    if (scan.offsets.empty() || scan.offsets.back() != small.offsets.back()) last_lost++;
  }
  // The last record is lost if its own header is damaged, except for the bit that makes it shorter, and if a false
  // length before it happens to end with the file, which one bit here causes.
  CHECK(last_lost == 63 + 1);
}

TEST_CASE("a scan names the broken place and continues at the next record", "[data]") {
  const test::TempDir dir;
  SmallFile small;
  small.bytes[static_cast<size_t>(small.offsets[1])] ^= 0xff;
  test::write_bytes(dir.path("a.rec"), small.bytes);
  const auto scan = must(scan_records(must(RecordFile::open(dir.path("a.rec")))));
  CHECK(scan.offsets == std::vector<int64_t>{small.offsets[0], small.offsets[2], small.offsets[3], small.offsets[4]});
  REQUIRE(scan.broken.size() == 1);
  CHECK(scan.broken[0].offset == small.offsets[1]);
}
