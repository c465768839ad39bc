#include "base/file.h"

#include <cerrno>
#include <filesystem>

#include "support/catch.h"
#include "support/temp_dir.h"

using namespace dtrain;

// Whichever call fails, a reader sees either the old or the new content, and no other file is left.
TEST_CASE("an atomic file survives the failure of every call", "[base]") {
  const test::TempDir dir;
  const std::string path = dir.path("file");
  REQUIRE(write_file_atomic(path, "old"));
  int calls_needed = 0;
  for (int failing = 0;; failing++) {
    int call = 0;
    const auto write = [&]() -> Result<> {
      DT_TRY(AtomicFile file, AtomicFile::create(path, [&](const char*) { return call++ == failing ? ENOSPC : 0; }));
      DT_TRY_VOID(file.write("new"));
      return file.commit();
    };
    const Result<> result = write();
    const std::string content = *read_file(path);
    CHECK(std::distance(std::filesystem::directory_iterator(dir.path()), {}) == 1);
    if (result) {
      CHECK(content == "new");
      break;
    }
    CHECK(content == "old");
    CHECK_THAT(result.error().message, Catch::Contains(path) && Catch::Contains("No space left"));
    calls_needed++;
  }
  CHECK(calls_needed == 6);  // open, write, fsync, link, close, rename
}

// So a process that is killed at any moment before the commit leaves no file.
TEST_CASE("an atomic file has no name while it is being written", "[base]") {
  const test::TempDir dir;
  Result<AtomicFile> file = AtomicFile::create(dir.path("file"));
  REQUIRE(file);
  REQUIRE(file->write("half"));
  CHECK(std::filesystem::is_empty(dir.path()));
  REQUIRE(file->commit());
  CHECK(*read_file(dir.path("file")) == "half");
  CHECK(std::distance(std::filesystem::directory_iterator(dir.path()), {}) == 1);
}

// Like two hosts that share a directory, where even the process ids may be equal: the second writer writes and commits
// while the first is about to rename.
TEST_CASE("several writers of one file do not disturb each other, and the last one wins", "[base]") {
  const test::TempDir dir;
  const std::string path = dir.path("file");
  const auto write_another = [&](const char* call) {
    if (std::string_view(call) == "rename") REQUIRE(write_file_atomic(path, "second"));
    return 0;
  };
  Result<AtomicFile> first = AtomicFile::create(path, write_another);
  REQUIRE(first);
  REQUIRE(first->write("first"));
  const Result<> committed = first->commit();
  INFO((committed ? "" : committed.error().text()));
  CHECK(committed);
  CHECK(*read_file(path) == "first");
  CHECK(std::distance(std::filesystem::directory_iterator(dir.path()), {}) == 1);
}

TEST_CASE("a missing file is distinguished from one that cannot be read", "[base]") {
  const test::TempDir dir;
  CHECK(read_file(dir.path("absent")).error().code == Code::kNotFound);
  CHECK(read_file(dir.path()).error().code == Code::kData);
}

TEST_CASE("a file is read up to its limit", "[base]") {
  const test::TempDir dir;
  REQUIRE(write_file_atomic(dir.path("file"), std::string(100, 'x')));
  CHECK(read_file(dir.path("file"), 100)->size() == 100);
  const Result<std::string> larger = read_file(dir.path("file"), 99);
  REQUIRE_FALSE(larger);
  CHECK(larger.error().code == Code::kData);
  CHECK(read_file("/proc/self/stat")->size() > 10);  // stat() says that its size is 0
}

TEST_CASE("files without an end and files that do not fit into memory are refused", "[base]") {
  const test::TempDir dir;
  const Result<std::string> endless = read_file("/dev/zero", kDataBytesMax);
  REQUIRE_FALSE(endless);
  CHECK_THAT(endless.error().message, Catch::Contains("/dev/zero: the file is larger than 64 MiB"));
  REQUIRE(write_file_atomic(dir.path("holes"), "x"));
  std::filesystem::resize_file(dir.path("holes"), kTextBytesMax + 1);
  CHECK_THAT(read_file(dir.path("holes")).error().message, Catch::Contains("larger than 64 MiB"));
  std::filesystem::resize_file(dir.path("holes"), kDataBytesMax);
// Under a sanitizer `new` ends the program where otherwise it throws.
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
  CHECK_THAT(read_file(dir.path("holes"), kDataBytesMax).error().message, Catch::Contains("not enough memory"));
#endif
  CHECK_THAT(read_file(dir.path()).error().message, Catch::Contains("Is a directory"));
}
