#include "rpc/state_file.h"

#include <cerrno>
#include <filesystem>
#include <future>

#include "rpc/job.h"
#include "support/catch.h"
#include "support/temp_dir.h"

namespace dtrain::rpc::test {
namespace {

using Catch::Contains;
using dtrain::test::TempDir;
using Texts = StateFile::Texts;

StateFile::Options first(const TempDir& dir) {
  return {.directory = dir.path("state"), .job = "/runs/a"};
}
StateFile::Options again(const TempDir& dir) {
  StateFile::Options options = first(dir);
  options.comes_back = true;
  return options;
}
std::string file_of(const TempDir& dir) {
  return dir.path("state/scheduler.state");
}

// Opens the file, adds these records, one after the other, and returns what was reported about the last one.
Result<uint64_t> write(const StateFile::Options& options, const std::vector<Texts>& records) {
  DT_TRY(const std::unique_ptr<StateFile> file, StateFile::open(options));
  std::promise<Result<uint64_t>> promise;
  file->begin([&](const Result<uint64_t>& written) {
    if (!written || *written == records.size()) promise.set_value(written);
  });
  uint64_t number = 0;
  for (const Texts& record : records) file->append(++number, record);
  Result<uint64_t> last = within(promise.get_future());
  file->end();
  return last;
}

void write_bytes(const std::string& path, const std::string& bytes) {
  REQUIRE(write_file_atomic(path, bytes));
}

}  // namespace

TEST_CASE("a scheduler that comes back reads what the one before has written", "[rpc][state]") {
  const TempDir dir;
  const std::string bytes("\0\xff\n", 3);
  CHECK(write(first(dir), {{{"view", "1"}, {"hold", "1"}}, {{"view", bytes}}}).value() == 2);
  {
    const auto file = StateFile::open(again(dir)).value();
    CHECK(file->term() == 2);
    CHECK(file->texts() == Texts{{"hold", "1"}, {"view", bytes}});
  }
  const auto third = StateFile::open(again(dir)).value();
  CHECK(third->term() == 3);
  CHECK(third->texts().size() == 2);
}

TEST_CASE("the same job that starts anew forgets what it had decided, and a later term begins", "[rpc][state]") {
  const TempDir dir;
  CHECK(write(first(dir), {{{"view", "1"}}}));
  const auto file = StateFile::open(first(dir)).value();
  CHECK(file->term() == 2);
  CHECK(file->texts().empty());
}

TEST_CASE("a last record that is cut does not count", "[rpc][state]") {
  const TempDir dir;
  CHECK(write(first(dir), {{{"view", "1"}}}));
  CHECK(write(again(dir), {{{"view", "2"}, {"hold", "1"}}}));
  const std::string whole = read_file(file_of(dir)).value();
  size_t cut = 0;
  for (size_t size = whole.size() - 1; size > 0; size--) {
    write_bytes(file_of(dir), whole.substr(0, size));
    const auto file = StateFile::open(again(dir));
    INFO(size << " of " << whole.size() << " bytes");
    if (!file) {  // not even the first record is whole
      CHECK(file.error().code == Code::kData);
      continue;
    }
    cut++;
    CHECK((*file)->texts() == Texts{{"view", "1"}});
  }
  CHECK(cut > 10);
}

TEST_CASE("a damaged file is refused and named, whichever bit is wrong", "[rpc][state]") {
  const TempDir dir;
  CHECK(write(first(dir), {{{"view", "1"}}, {{"hold", "1"}}}));
  const std::string whole = read_file(file_of(dir)).value();
  for (size_t bit = 0; bit < 8 * whole.size(); bit++) {
    std::string damaged = whole;
    damaged[bit / 8] = static_cast<char>(damaged[bit / 8] ^ (1 << bit % 8));
    write_bytes(file_of(dir), damaged);
    const auto file = StateFile::open(again(dir));
    INFO("bit " << bit);
    REQUIRE_FALSE(file);
    CHECK(file.error().code == Code::kData);
    REQUIRE_THAT(file.error().message, Contains(file_of(dir)) && Contains("is damaged"));
  }
}

TEST_CASE("a second scheduler, another job and a missing file are refused with words", "[rpc][state]") {
  const TempDir dir;
  {
    const auto file = StateFile::open(first(dir)).value();
    const auto second = StateFile::open(again(dir));
    REQUIRE_FALSE(second);
    CHECK(second.error().code == Code::kUsage);
    CHECK_THAT(second.error().message, Contains("another scheduler uses this directory"));
  }
  StateFile::Options other = first(dir);
  other.job = "/runs/b";
  for (const bool comes_back : {false, true}) {
    other.comes_back = comes_back;
    const auto refused = StateFile::open(other);
    REQUIRE_FALSE(refused);
    CHECK(refused.error().code == Code::kUsage);
    CHECK_THAT(refused.error().message, Contains("belongs to the job in '/runs/a', which has not ended"));
  }
  StateFile::open(first(dir)).value()->remove();
  CHECK_FALSE(std::filesystem::exists(file_of(dir)));
  const auto missing = StateFile::open(other);
  REQUIRE_FALSE(missing);
  CHECK(missing.error().code == Code::kSchedulerLost);
  other.comes_back = false;
  CHECK(StateFile::open(other));
}

// A host that was suspended may wake when another one has taken its place.
TEST_CASE("a scheduler whose lock is gone touches no file of the next one", "[rpc][state]") {
  const TempDir dir;
  const auto old = StateFile::open(first(dir)).value();
  std::filesystem::remove(dir.path("state/scheduler.lock"));
  CHECK(write(again(dir), {{{"view", "2"}}}));
  std::promise<Result<uint64_t>> promise;
  old->begin([&](const Result<uint64_t>& written) { promise.set_value(written); });
  old->append(1, {{"view", "1"}});
  const Result<uint64_t> written = within(promise.get_future());
  REQUIRE_FALSE(written);
  CHECK_THAT(written.error().message, Contains("scheduler.lock' was removed"));
  old->remove();
  const auto third = StateFile::open(again(dir)).value();
  CHECK(third->term() == 3);
  CHECK(third->texts() == Texts{{"view", "2"}});
}

TEST_CASE("a full disk ends the start, and later removes the file that would contradict the job", "[rpc][state]") {
  const TempDir dir;
  for (const std::string call : {"open", "write", "fsync"}) {
    StateFile::Options options = first(dir);
    options.fault = [&](const char* name) { return name == call ? ENOSPC : 0; };
    const auto refused = StateFile::open(options);
    REQUIRE_FALSE(refused);
    CHECK(refused.error().code == Code::kData);
    CHECK_THAT(refused.error().message, Contains(file_of(dir)) && Contains("No space left on device"));
  }
  for (const std::string call : {"write", "fsync"}) {
    bool is_full = false;
    StateFile::Options options = first(dir);
    options.fault = [&](const char* name) { return is_full && name == call ? ENOSPC : 0; };
    const auto file = StateFile::open(options).value();
    is_full = true;
    std::promise<Result<uint64_t>> promise;
    file->begin([&](const Result<uint64_t>& written) { promise.set_value(written); });
    file->append(1, {{"view", "1"}});
    const Result<uint64_t> written = within(promise.get_future());
    REQUIRE_FALSE(written);
    CHECK(written.error().code == Code::kData);
    CHECK_THAT(written.error().message, Contains(file_of(dir)) && Contains("No space left on device"));
    CHECK_FALSE(std::filesystem::exists(file_of(dir)));
    file->append(2, {{"view", "2"}});  // is dropped
  }
}

TEST_CASE("a file of obsolete records is written anew", "[rpc][state]") {
  const TempDir dir;
  std::vector<Texts> records;
  for (int i = 0; i < 100; i++) records.push_back({{"barrier", std::string(1 << 20, static_cast<char>('a' + i % 26))}});
  // One record after the other, because records that wait together are written together.
  {
    const auto file = StateFile::open(first(dir)).value();
    std::atomic<uint64_t> number = 0;
    std::promise<void> done;
    file->begin([&](const Result<uint64_t>& written) {
      REQUIRE(written);
      if (*written == records.size()) return done.set_value();
      file->append(*written + 1, records[*written]);
    });
    file->append(1, records[0]);
    within(done.get_future());
    file->end();
  }
  CHECK(std::filesystem::file_size(file_of(dir)) < 70 << 20);
  CHECK(StateFile::open(again(dir)).value()->texts().at("barrier") == records.back().at("barrier"));
}

}  // namespace dtrain::rpc::test
