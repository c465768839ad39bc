#include "dataset/packing/packed_records.h"

#include <algorithm>
#include <filesystem>

#include "data/make_images.h"
#include "support/catch.h"
#include "support/must.h"
#include "support/temp_dir.h"

using namespace dtrain;
using namespace dtrain::data;
using namespace dtrain::dataset;
using dtrain::test::must;

namespace {

constexpr int kItems = 7;

PackedRecords open_packed(const test::TempDir& dir, const PackedRecords::Fault& fault = nullptr,
                          const std::string& settings = "resize=1") {
  return must(PackedRecords::open(dir.path("a.rec"), settings, Log::silent(), fault));
}

// Item 2 is left out; item 4 is larger than what is written at once.
Result<> add_item(PackedRecords& records, int item) {
  if (item == 2) return records.leave_out();
  const std::vector<uint8_t> payload(item == 4 ? 1 << 20 : 9 + item, static_cast<uint8_t>(item));
  return records.append(static_cast<uint64_t>(100 + item), payload);
}

Result<> pack_rest(PackedRecords& records, int end = kItems) {
  for (auto item = static_cast<int>(records.items()); item < end; item++) {
    DT_TRY_VOID(add_item(records, item));
    if (item == 1 || item == 5) DT_TRY_VOID(records.sync());
  }
  return records.commit();
}

struct PackedFiles {
  std::vector<uint8_t> records, index;
  bool operator==(const PackedFiles&) const = default;
};
PackedFiles files_of(const test::TempDir& dir) {
  return {test::read_bytes(dir.path("a.rec")), test::read_bytes(dir.path("a.idx"))};
}

// In memory, where syncing takes no time.
std::string quick_directory() {
  return std::filesystem::exists("/dev/shm") ? "/dev/shm" : std::filesystem::temp_directory_path();
}

PackedFiles files_of_one_run(int items = kItems) {
  const test::TempDir dir(quick_directory());
  PackedRecords records = open_packed(dir);
  must(pack_rest(records, items));
  return files_of(dir);
}

// What a process that was killed leaves behind: the partial files with these items.
void leave_partial(const test::TempDir& dir, int items) {
  PackedRecords records = open_packed(dir);
  for (int item = 0; item < items; item++) must(add_item(records, item));
  must(records.sync());
}

void append_bytes(const std::string& path, const std::string& more) {
  auto bytes = test::read_bytes(path);
  bytes.insert(bytes.end(), more.begin(), more.end());
  test::write_bytes(path, bytes);
}

}  // namespace

TEST_CASE("a run continues after any number of items, and gives the files of one run", "[data]") {
  const PackedFiles expected = files_of_one_run();
  CHECK(std::string(expected.index.begin(), expected.index.end()).starts_with("100\t0\n101\t20\n103\t40\n"));
  for (int items = 0; items <= kItems; items++) {
    INFO(items);
    const test::TempDir dir(quick_directory());
    leave_partial(dir, items);
    CHECK(!std::filesystem::exists(dir.path("a.rec")));
    PackedRecords records = open_packed(dir);
    CHECK(records.items() == items);
    CHECK(records.left_out() == (items > 2 ? 1 : 0));
    must(pack_rest(records));
    CHECK(files_of(dir) == expected);
    PackedRecords::forget(dir.path("a.rec"));
    CHECK(!std::filesystem::exists(dir.path("a.idx.partial")));
    CHECK(!std::filesystem::exists(dir.path("a.rec.partial")));
  }
}

TEST_CASE("whichever call fails, the next run continues and gives the files of one run", "[data]") {
  const PackedFiles expected = files_of_one_run();
  int calls = 0;
  {
    const test::TempDir dir(quick_directory());
    PackedRecords records = open_packed(dir, [&](const char*) { return calls++, 0; });
    must(pack_rest(records));
  }
  REQUIRE(calls > 10);
  for (int failing = 0; failing < calls; failing++) {
    INFO(failing);
    const test::TempDir dir(quick_directory());
    int call = 0;
    {
      auto records = PackedRecords::open(dir.path("a.rec"), "resize=1", Log::silent(),
                                         [&](const char*) { return call++ == failing ? ENOSPC : 0; });
      const auto done = records ? pack_rest(*records) : tl::unexpected(records.error());
      REQUIRE(!done);
      CHECK(done.error().code == Code::kData);
      CHECK_THAT(done.error().message, Catch::Contains("the disk is full") && Catch::Contains("continue"));
    }
    PackedRecords records = open_packed(dir);
    must(pack_rest(records));
    CHECK(files_of(dir) == expected);
  }
}

TEST_CASE("files cut at any length are cut back to whole records", "[data]") {
  constexpr int kSmall = 4;
  const PackedFiles expected = files_of_one_run(kSmall);
  for (const char* name : {"a.rec.partial", "a.idx.partial"}) {
    const test::TempDir whole(quick_directory());
    leave_partial(whole, kSmall);
    const auto size = std::filesystem::file_size(whole.path(name));
    for (uintmax_t length = 0; length <= size; length++) {
      INFO(name << " of " << length << " bytes");
      const test::TempDir dir(quick_directory());
      std::filesystem::copy(whole.path(), dir.path(), std::filesystem::copy_options::recursive);
      std::filesystem::resize_file(dir.path(name), length);
      PackedRecords records = open_packed(dir);
      must(pack_rest(records, kSmall));
      CHECK(files_of(dir) == expected);
    }
  }
}

TEST_CASE("bytes behind the last whole record are cut off, as a killed process leaves them", "[data]") {
  const PackedFiles expected = files_of_one_run();
  const test::TempDir dir;
  leave_partial(dir, 4);
  append_bytes(dir.path("a.rec.partial"), "half a record");
  append_bytes(dir.path("a.idx.partial"), "r\t104\t10");
  PackedRecords records = open_packed(dir);
  CHECK(records.items() == 4);
  must(pack_rest(records));
  CHECK(files_of(dir) == expected);
}

TEST_CASE("records that did not reach the disk before a power cut are packed again", "[data]") {
  const PackedFiles expected = files_of_one_run();
  const test::TempDir dir;
  leave_partial(dir, 5);
  auto journal = test::read_bytes(dir.path("a.idx.partial"));
  journal.resize(journal.size() - std::string("synced\n").size());  // the last record is not known to be on disk
  test::write_bytes(dir.path("a.idx.partial"), journal);
  auto bytes = test::read_bytes(dir.path("a.rec.partial"));
  std::fill(bytes.end() - 1000, bytes.end(), uint8_t{0});
  test::write_bytes(dir.path("a.rec.partial"), bytes);
  PackedRecords records = open_packed(dir);
  CHECK(records.items() == 4);
  must(pack_rest(records));
  CHECK(files_of(dir) == expected);
}

TEST_CASE("other settings start again and say so", "[data]") {
  const test::TempDir dir;
  leave_partial(dir, 4);
  Log log = Log::silent();
  must(log.add_file(dir.path("log")));
  PackedRecords records = must(PackedRecords::open(dir.path("a.rec"), "resize=2", log));
  CHECK(records.items() == 0);
  log.flush();
  const auto text = test::read_bytes(dir.path("log"));
  CHECK_THAT(std::string(text.begin(), text.end()),
             Catch::Contains("was started with other options") && Catch::Contains("resize=1"));
  must(pack_rest(records));
  CHECK(files_of(dir) == files_of_one_run());
}

TEST_CASE("complete files are recognized until they are forgotten; after that they are packed again", "[data]") {
  const test::TempDir dir;
  {
    PackedRecords records = open_packed(dir);
    must(pack_rest(records));
  }
  std::filesystem::remove(dir.path("a.idx"));  // killed between the record file's name and the index
  {
    PackedRecords records = open_packed(dir);
    CHECK(records.items() == kItems);
    must(pack_rest(records));
    CHECK(files_of(dir) == files_of_one_run());
  }
  PackedRecords::forget(dir.path("a.rec"));
  PackedRecords records = open_packed(dir);
  CHECK(records.items() == 0);
  CHECK(std::filesystem::exists(dir.path("a.rec")));  // the old file stays until the new one is complete
  must(pack_rest(records));
  CHECK(files_of(dir) == files_of_one_run());
}

TEST_CASE("two processes do not write one file, and a missing directory is made", "[data]") {
  const test::TempDir dir;
  const PackedRecords first = must(PackedRecords::open(dir.path("new/deep/a.rec"), "x", Log::silent()));
  const auto second = PackedRecords::open(dir.path("new/deep/a.rec"), "x", Log::silent());
  REQUIRE(!second);
  CHECK(second.error().code == Code::kUsage);
  CHECK_THAT(second.error().message, Catch::Contains("another process"));
}
