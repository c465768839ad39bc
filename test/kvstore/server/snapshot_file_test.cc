// Tests the file of a snapshot: every value comes back with the same bits, and no damaged or foreign file is accepted.
#include "kvstore/server/snapshot_file.h"

#include <bit>
#include <cerrno>
#include <filesystem>
#include <fstream>

#include "base/bytes.h"
#include "base/crc32c.h"
#include "base/random.h"
#include "support/catch.h"
#include "support/temp_dir.h"

namespace dtrain::kvstore {
namespace {

using Catch::Contains;

LentValues lend(std::vector<float> values) {
  const auto owner = std::make_shared<const std::vector<float>>(std::move(values));
  return {.values = *owner, .owner = owner};
}

SnapshotLayout layout() {
  return {.job = "job 1",
          .server = 1,
          .every = 10,
          .workers = 2,
          .states = 1,
          .slices = {{0, 0, 0, 3, 1}, {2, 1, 5, 2, 1}}};
}

// Snapshot 4, whose values are of all kinds.
std::vector<SnapshotPart> parts() {
  const float denormal = 1e-41F, nan = std::bit_cast<float>(0x7fc12345U);
  std::vector<SnapshotPart> parts;
  parts.push_back({.id = {0, 0},
                   .counters = {.samples = 1234, .updates = 40, .rate_factor = 0.1},
                   .next_rate = RateChange{.factor = 0.3, .from_samples = 99},
                   .group_of = {0, 1},
                   .weights = lend({1.5F, -0.0F, denormal}),
                   .states = {lend({nan, 3, 4})}});
  parts.push_back({.id = {2, 1},
                   .counters = {.samples = 1, .updates = 40},
                   .next_rate = {},
                   .group_of = {1, 1},
                   .weights = lend({7, 8}),
                   .states = {lend({9, 10})}});
  return parts;
}

std::vector<uint32_t> bits(std::span<const float> values) {
  std::vector<uint32_t> bits;
  for (const float value : values) bits.push_back(std::bit_cast<uint32_t>(value));
  return bits;
}

struct File {
  File() {
    REQUIRE(write_snapshot(
        path, layout(), 4, parts(), [] { return false; }, nullptr));
  }
  [[nodiscard]] std::string content() const { return read_file(path).value(); }
  void replace(const std::string& content) const { std::ofstream(path, std::ios::binary) << content; }
  // With a checksum that matches.
  void replace_sealed(std::string content) const {
    content.resize(content.size() - 4);
    const uint32_t crc = crc32c(std::as_bytes(std::span(content)));
    uint8_t bytes[4];
    store_u32(bytes, crc);
    content.append(reinterpret_cast<const char*>(bytes), 4);
    replace(content);
  }
  // Both ways to read it must give the same answer.
  [[nodiscard]] Result<std::vector<SnapshotPart>> read(const SnapshotLayout& as = layout(), uint64_t number = 4) const {
    Result<std::vector<SnapshotPart>> parts = read_snapshot(path, as, number);
    const Result<> verified = verify_snapshot(path, as, number);
    REQUIRE(verified.has_value() == parts.has_value());
    if (!parts) REQUIRE(verified.error().message == parts.error().message);
    return parts;
  }
  [[nodiscard]] std::string refusal(const SnapshotLayout& as = layout(), uint64_t number = 4) const {
    const auto read = this->read(as, number);
    REQUIRE_FALSE(read);
    REQUIRE(read.error().code == Code::kData);
    REQUIRE_THAT(read.error().message, Contains(path));
    REQUIRE_THAT(read.error().message, Contains("can be deleted"));
    return read.error().message;
  }
  test::TempDir dir;
  std::string path = dir.path("snapshot");
};

}  // namespace

TEST_CASE("a snapshot's file has every value, bit by bit", "[kvstore][snapshots]") {
  const File file;
  const auto read = file.read();
  REQUIRE(read);
  const std::vector<SnapshotPart> wanted = parts();
  REQUIRE(read->size() == wanted.size());
  for (size_t i = 0; i < wanted.size(); i++) {
    const SnapshotPart& part = (*read)[i];
    CHECK(part.id == wanted[i].id);
    CHECK(part.counters.samples == wanted[i].counters.samples);
    CHECK(part.counters.updates == 40);
    CHECK(part.counters.rate_factor == wanted[i].counters.rate_factor);
    REQUIRE(part.next_rate.has_value() == wanted[i].next_rate.has_value());
    if (part.next_rate) CHECK(part.next_rate->factor == 0.3);
    if (part.next_rate) CHECK(part.next_rate->from_samples == 99);
    CHECK(part.group_of == wanted[i].group_of);
    CHECK(bits(part.weights.values) == bits(wanted[i].weights.values));
    REQUIRE(part.states.size() == 1);
    CHECK(bits(part.states[0].values) == bits(wanted[i].states[0].values));
  }
  CHECK(file.content().substr(0, 8) == std::string("DTSS\1\0\0\0", 8));
}

TEST_CASE("a snapshot that is cut, longer or damaged is refused", "[kvstore][snapshots]") {
  const File file;
  const std::string whole = file.content();
  for (size_t size = 0; size < whole.size(); size++) {
    INFO("the first " << size << " bytes");
    file.replace(whole.substr(0, size));
    REQUIRE_THAT(file.refusal(), Contains("cut"));
  }
  for (size_t bit = 0; bit < 8 * whole.size(); bit++) {
    INFO("bit " << bit);
    std::string flipped = whole;
    flipped[bit / 8] = static_cast<char>(flipped[bit / 8] ^ 1 << bit % 8);
    file.replace(flipped);
    REQUIRE_THAT(file.refusal(), Contains("damaged"));
  }
  file.replace(whole + '\0');
  CHECK_THAT(file.refusal(), Contains("damaged"));
  file.replace_sealed(whole + '\0');
  CHECK_THAT(file.refusal(), Contains("other slices"));
  file.replace(whole);
  CHECK(file.read());
}

TEST_CASE("a snapshot of something else is refused with what differs", "[kvstore][snapshots]") {
  const File file;
  const auto refusal = [&](const std::function<void(SnapshotLayout&)>& change) {
    SnapshotLayout other = layout();
    change(other);
    return file.refusal(other);
  };
  CHECK_THAT(refusal([](SnapshotLayout& l) { l.job = "job 2"; }), Contains("it is of another job"));
  CHECK_THAT(refusal([](SnapshotLayout& l) { l.job = ""; }), Contains("it is of another job"));
  CHECK_THAT(refusal([](SnapshotLayout& l) { l.server = 0; }), Contains("it is of server 1, not 0"));
  CHECK_THAT(refusal([](SnapshotLayout& l) { l.every = 20; }), Contains("every 10 updates, not 20"));
  CHECK_THAT(refusal([](SnapshotLayout& l) { l.workers = 3; }), Contains("other slices, workers"));
  CHECK_THAT(refusal([](SnapshotLayout& l) { l.states = 2; }), Contains("other slices, workers"));
  CHECK_THAT(refusal([](SnapshotLayout& l) { l.slices.pop_back(); }), Contains("other slices, workers"));
  CHECK_THAT(refusal([](SnapshotLayout& l) { std::swap(l.slices[0].count, l.slices[1].count); }),
             Contains("other slices than this server"));
  CHECK_THAT(file.refusal(layout(), 5), Contains("it is snapshot 4, not 5"));
  CHECK(read_snapshot(file.dir.path("none"), layout(), 4).error().code == Code::kNotFound);
  std::filesystem::create_directory(file.dir.path("directory"));
  CHECK_THAT(read_snapshot(file.dir.path("directory"), layout(), 4).error().message, Contains("not a file"));
}

// The checksum protects against accidents only.
TEST_CASE("bytes that match their checksum are not trusted either", "[kvstore][snapshots]") {
  const File file;
  const std::string whole = file.content();
  const auto with = [&](size_t at, std::string_view bytes) {
    std::string changed = whole;
    changed.replace(at, bytes.size(), bytes);
    file.replace_sealed(changed);
    return file.refusal();
  };
  const std::string_view huge("\xff\xff\xff\xff\xff\xff\xff\xff", 8);
  const std::string_view two("\2\0\0\0", 4);
  constexpr size_t kFirst = 44 + 5;  // the first slice
  CHECK_THAT(with(0, "ABCD"), Contains("not a snapshot"));
  CHECK_THAT(with(4, two), Contains("format 2"));
  CHECK_THAT(with(28, huge.substr(0, 4)), Contains("other slices"));
  CHECK_THAT(with(40, huge.substr(0, 4)), Contains("another job"));
  CHECK_THAT(with(kFirst + 8, huge.substr(0, 4)), Contains("other slices than this server"));
  CHECK_THAT(with(kFirst + 12, two), Contains("impossible"));   // neither 0 nor 1
  CHECK_THAT(with(kFirst + 24, huge), Contains("impossible"));  // the version
  CHECK_THAT(with(kFirst + 32, huge), Contains("impossible"));  // the rate is a NaN
  CHECK_THAT(with(kFirst + 40, std::string(8, '\0')), Contains("impossible"));
  CHECK_THAT(with(kFirst + 56, two), Contains("impossible"));  // the group of a worker
  RandomStream random(1, Use::kTest);
  int accepted = 0;
  for (int i = 0; i < 1000; i++) {
    std::string changed = whole;
    for (int64_t n = random.below(4); n >= 0; n--) {
      changed[static_cast<size_t>(random.below(static_cast<int64_t>(whole.size())))] =
          static_cast<char>(random.below(256));
    }
    if (random.below(8) == 0) changed.resize(4 + static_cast<size_t>(random.below(static_cast<int64_t>(whole.size()))));
    file.replace_sealed(changed);
    const auto read = file.read();
    if (read) accepted++;
    if (read) REQUIRE(read->size() == 2);
  }
  CHECK(accepted > 0);  // values may be anything
  CHECK(accepted < 1000);
}

TEST_CASE("a snapshot that is given up, or does not fit on the disk, leaves no file", "[kvstore][snapshots]") {
  const test::TempDir dir;
  int asked = 0;
  const Result<> abandoned = write_snapshot(
      dir.path("a"), layout(), 4, parts(), [&] { return ++asked == 2; }, nullptr);
  REQUIRE_FALSE(abandoned);
  CHECK(abandoned.error().code == Code::kUnavailable);
  const Result<> full = write_snapshot(
      dir.path("a"), layout(), 4, parts(), [] { return false; },
      [](const char* call) { return std::string_view(call) == "fsync" ? ENOSPC : 0; });
  REQUIRE_FALSE(full);
  CHECK_THAT(full.error().message, Contains("No space left"));
  CHECK(std::filesystem::is_empty(dir.path()));
}

}  // namespace dtrain::kvstore
