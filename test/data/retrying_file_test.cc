// A fault of the disk or of a file server: reads are tried again, and a record that cannot be read is not broken.
#include "data/records/retrying_file.h"

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <memory>
#include <mutex>
#include <numeric>
#include <optional>

#include "base/file.h"
#include "data/loading/image_dataset.h"
#include "data/loading/loader.h"
#include "data/loading/mean_image.h"
#include "data/sources/record_source.h"
#include "make_images.h"
#include "support/catch.h"
#include "support/temp_dir.h"

using namespace dtrain;
using namespace dtrain::data;
using namespace dtrain::images;
using dtrain::test::must;
using std::chrono::milliseconds;

namespace {

constexpr int kEndOfFile = -1;  // in a script: the read returns 0

// Calls that fail as a script says and never wait.
class FaultyDisk {
 public:
  // Reads that touch bytes from `first_bad` on fail with these errors, one after the other, then succeed.
  FaultyDisk(int64_t first_bad, std::vector<int> errors, bool for_ever = false)
      : first_bad_(first_bad), errors_(std::move(errors)), for_ever_(for_ever) {}

  FileCalls calls() {
    FileCalls calls = FileCalls::of_system();
    calls.open = [this, open = calls.open](const char* path) {
      opened++;
      return open(path);
    };
    calls.read = [this, read = calls.read](int fd, void* out, size_t bytes, int64_t offset) -> int64_t {
      const std::optional<int> error = next_error(offset + static_cast<int64_t>(bytes));
      if (!error) return read(fd, out, std::min<size_t>(bytes, read_max), offset);
      errno = *error;
      return *error == kEndOfFile ? 0 : -1;
    };
    calls.pause = [this](milliseconds time) {
      const std::lock_guard lock(mutex_);
      pauses.push_back(time.count());
    };
    return calls;
  }

  size_t read_max = 1 << 20;  // of one call
  int opened = 0;
  std::vector<int64_t> pauses;  // in milliseconds

 private:
  std::optional<int> next_error(int64_t end) {
    const std::lock_guard lock(mutex_);
    if (end <= first_bad_ || next_ == errors_.size()) return std::nullopt;
    const int error = errors_[next_++];
    if (for_ever_ && next_ == errors_.size()) next_ = 0;
    return error;
  }

  std::mutex mutex_;
  int64_t first_bad_;
  std::vector<int> errors_;
  bool for_ever_;
  size_t next_ = 0;
};

constexpr int64_t kBytes = 100'000;

std::vector<uint8_t> counting_bytes() {
  std::vector<uint8_t> bytes(kBytes);
  std::iota(bytes.begin(), bytes.end(), uint8_t{0});
  return bytes;
}

// A file, and a log whose lines are read back.
struct Setting {
  Setting() {
    test::write_bytes(path, counting_bytes());
    must(log.add_file(dir.path("log")));
  }
  // Reads everything but the first eight bytes, by which the file is known again.
  Result<> read(FaultyDisk& disk) {
    DT_TRY(const auto file, RetryingFile::open(path, log, disk.calls()));
    std::vector<uint8_t> out(kBytes - 8);
    DT_TRY_VOID(file->read_at(8, out));
    const std::vector<uint8_t> all = counting_bytes();
    CHECK(std::ranges::equal(out, std::span(all).subspan(8)));
    return {};
  }
  std::string logged() {
    log.flush();
    return must(read_file(dir.path("log")));
  }

  test::TempDir dir;
  std::string path = dir.path("a.rec");
  Log log = Log::silent();
};

}  // namespace

TEST_CASE("a passing fault of the disk is tried again with growing pauses, and logged once", "[data]") {
  for (const int error : {EIO, ETIMEDOUT, ESTALE, kEndOfFile}) {
    Setting setting;
    FaultyDisk disk(8, {error, error, error});
    INFO(error);
    REQUIRE(setting.read(disk));
    CHECK(disk.pauses == std::vector<int64_t>{100, 300, 1'000});
    const std::string lines = setting.logged();
    CHECK(std::ranges::count(lines, '\n') == 1);
    CHECK_THAT(lines, Catch::Contains(setting.path + ": offset 8: ") && Catch::Contains("try 4 succeeded"));
    CHECK_THAT(lines, Catch::Contains("(fault 1 of this file)"));
    CHECK(disk.opened == (error == ESTALE ? 4 : 1));
  }
}

TEST_CASE("interrupted and short reads go on at once", "[data]") {
  Setting setting;
  FaultyDisk disk(8, std::vector<int>(20, EINTR));
  disk.read_max = 1'000;
  REQUIRE(setting.read(disk));
  CHECK(disk.pauses.empty());
  CHECK(setting.logged().empty());
}

TEST_CASE("a lasting fault of the disk is an error, but not one of the data", "[data]") {
  for (const int error : {EIO, ETIMEDOUT, ESTALE, kEndOfFile}) {
    Setting setting;
    FaultyDisk disk(8, {error}, true);
    const auto failed = setting.read(disk);
    REQUIRE(!failed);
    CHECK(failed.error().code == Code::kDevice);
    CHECK_THAT(failed.error().message,
               Catch::Contains(setting.path + ": offset 8: ") && Catch::Contains("after 6 tries"));
    CHECK(disk.pauses == std::vector<int64_t>{100, 300, 1'000, 3'000, 10'000});
    CHECK(setting.logged().empty());
  }
  Setting setting;
  FaultyDisk refusing(8, {EACCES}, true);
  CHECK(setting.read(refusing).error().code == Code::kDevice);
  CHECK(refusing.pauses.empty());
}

TEST_CASE("opening a file is tried again too", "[data]") {
  Setting setting;
  FaultyDisk disk(0, {EIO, ESTALE});
  REQUIRE(setting.read(disk));
  CHECK(disk.opened == 3);
  FaultyDisk dead(0, {EIO}, true);
  CHECK(setting.read(dead).error().code == Code::kDevice);
  CHECK(RetryingFile::open(setting.dir.path("none"), setting.log).error().code == Code::kNotFound);
  CHECK(RetryingFile::open(setting.dir.path(), setting.log).error().code == Code::kUsage);
}

TEST_CASE("a file that was replaced is not read on after a stale handle", "[data]") {
  const auto replace_and_read = [](Setting& setting, const std::vector<uint8_t>& other) {
    FaultyDisk disk(8, {ESTALE});
    const auto file = must(RetryingFile::open(setting.path, setting.log, disk.calls()));
    std::filesystem::remove(setting.path);
    test::write_bytes(setting.path, other);
    std::vector<uint8_t> out(100);
    Result<> read = file->read_at(8, out);
    if (read) CHECK(out[0] == 8);
    return read;
  };
  std::vector<uint8_t> other = counting_bytes();
  Setting same;
  CHECK(replace_and_read(same, other));  // renamed away and back, or on another server
  other[0] = 9;
  Setting changed;
  const auto refused = replace_and_read(changed, other);
  REQUIRE(!refused);
  CHECK(refused.error().code == Code::kUsage);
  CHECK_THAT(refused.error().message, Catch::Contains("the file was replaced during the run"));
  Setting longer;
  other = counting_bytes();
  other.push_back(0);
  CHECK(replace_and_read(longer, other).error().code == Code::kUsage);
}

TEST_CASE("the log names a few of many faults", "[data]") {
  Setting setting;
  FaultyDisk disk(8, {EIO, 0}, true);
  FileCalls calls = disk.calls();
  calls.read = [inner = calls.read, fails = false](int fd, void* out, size_t bytes, int64_t offset) mutable -> int64_t {
    fails = !fails && offset >= 8;
    if (!fails) return FileCalls::of_system().read(fd, out, bytes, offset);
    errno = EIO;
    return -1;
  };
  const auto file = must(RetryingFile::open(setting.path, setting.log, calls));
  std::vector<uint8_t> out(8);
  for (int i = 0; i < 100; i++) REQUIRE(file->read_at(8, out));
  const std::string lines = setting.logged();
  CHECK(std::ranges::count(lines, '\n') == 8 + 3);  // 1 to 8, then 16, 32 and 64
  CHECK_THAT(lines, Catch::Contains("(fault 64 of this file)"));
}

namespace {

// Ten records of a disk that fails from the sixth one on.
class FaultyRecords {
 public:
  FaultyRecords(std::vector<int> errors, bool for_ever)
      : offsets_(test::write_record_file(path(), 10, 4, 4, 3, 2)), disk_(offsets_[5] + 8, std::move(errors), for_ever) {
    test::write_text(dir_.path("a.idx"), index());
  }
  std::shared_ptr<const ImageSource> open() {
    return must(open_records({.paths = {path()}, .index = {}, .calls = disk_.calls()}, Log::silent()));
  }
  [[nodiscard]] std::string path() const { return dir_.path("a.rec"); }

 private:
  [[nodiscard]] std::string index() const {
    std::string text;
    for (const int64_t offset : offsets_) text += fmt::format("0\t{}\n", offset);
    return text;
  }
  test::TempDir dir_;
  std::vector<int64_t> offsets_;
  FaultyDisk disk_;
};

using ByteRange = std::pair<int64_t, int64_t>;  // offset, bytes

AugmentOptions small_images() {
  return {.image = {3, 4, 4}, .mean = std::vector<float>(3, 0.0f), .std = std::vector<float>(3, 1.0f)};
}

}  // namespace

TEST_CASE("a fault of the disk ends the epoch: the loader neither skips nor counts the record", "[data]") {
  FaultyRecords records({EIO}, true);
  Loader loader(augmented(records.open(), small_images()),
                {.share = {0, 10}, .batch_size = 2, .shuffle = false, .threads = 2}, Log::silent());
  loader.start(0);
  REQUIRE(must(loader.next()) != nullptr);
  REQUIRE(must(loader.next()) != nullptr);
  const auto failed = loader.next();
  REQUIRE(!failed);
  CHECK(failed.error().code == Code::kDevice);
  CHECK_THAT(failed.error().message, Catch::Contains("a.rec: offset ") && Catch::Contains("after 6 tries"));
  CHECK(loader.bad_records() == 0);
}

TEST_CASE("an epoch over a disk with passing faults is complete", "[data]") {
  FaultyRecords records({EIO, EIO, ETIMEDOUT}, false);
  Loader loader(augmented(records.open(), small_images()),
                {.share = {0, 10}, .batch_size = 5, .shuffle = false, .threads = 1}, Log::silent());
  loader.start(0);
  for (int batch = 0; batch < 2; batch++) CHECK(must(loader.next())->records.front() == 5 * batch);
  CHECK(must(loader.next()) == nullptr);
  CHECK(loader.bad_records() == 0);
}

TEST_CASE("a mean image is not made of the records that a failing disk returns", "[data]") {
  FaultyRecords records({EIO}, true);
  const test::TempDir dir;
  const auto failed = mean_image(dir.path("mean.bin"), {3, 4, 4}, {}, records.open(), 2, Log::silent());
  REQUIRE(!failed);
  CHECK(failed.error().code == Code::kDevice);
  CHECK_FALSE(std::filesystem::exists(dir.path("mean.bin")));
}

TEST_CASE("records are announced to the system in the order of the file, and in one piece where they follow each other",
          "[data]") {
  const test::TempDir dir;
  const std::vector<int64_t> offsets = test::write_record_file(dir.path("a.rec"), 10, 4, 4, 3, 2);
  (void)test::write_record_file(dir.path("b.rec"), 2, 4, 4, 3, 2);
  std::vector<ByteRange> asked;
  FileCalls calls = FileCalls::of_system();
  calls.will_read = [&](int, int64_t offset, int64_t bytes) { asked.emplace_back(offset, bytes); };
  const auto source =
      must(open_records({.paths = {dir.path("a.rec"), dir.path("b.rec")}, .index = {}, .calls = calls}, Log::silent()));
  source->will_read({});
  CHECK(asked.empty());
  source->will_read(std::vector<int64_t>{7, 10, 3, 0, 4, 5, 9});
  const auto of = [&](int64_t from, int64_t to) { return ByteRange(from, to - from); };
  const auto size = static_cast<int64_t>(std::filesystem::file_size(dir.path("a.rec")));
  REQUIRE(asked.size() == 5);
  CHECK(asked[0] == of(0, offsets[1]));
  CHECK(asked[1] == of(offsets[3], offsets[6]));
  CHECK(asked[2] == of(offsets[7], offsets[8]));
  CHECK(asked[3] == of(offsets[9], size));
  CHECK(asked[4].first == 0);  // of b.rec

  asked.clear();
  must(RetryingFile::open(dir.path("a.rec"), Log::silent(), calls))->will_read(4, 300'000);
  CHECK(asked == std::vector<ByteRange>{{4, 131'072}, {131'076, 131'072}, {262'148, 37'856}});
}
