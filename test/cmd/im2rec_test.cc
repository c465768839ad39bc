// im2rec as a process: its flags, and what happens if it is killed.
#include <sys/stat.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <thread>

#include "base/file.h"
#include "data/make_images.h"
#include "small_model.h"
#include "support/catch.h"

namespace dtrain {

using test::in_directory;
using test::must;

namespace {

constexpr int kPackedFiles = 8;

// Files of 700 KiB, so that what is written reaches the disk after every second one, and their list.
void write_large_files(const test::TempDir& dir) {
  std::filesystem::create_directory(dir.path("files"));
  std::string list;
  for (int i = 0; i < kPackedFiles; i++) {
    test::write_bytes(dir.path(fmt::format("files/{}", i)),
                      std::vector<uint8_t>((700 << 10) + 3 * i, static_cast<uint8_t>(i)));
    list += fmt::format("{}\t{}\t{}\n", 50 + i, i, i);
  }
  must(write_file_atomic(dir.path("a.lst"), list));
}

const std::vector<std::string> kPacking = {"im2rec", "a.lst", "files", "out/a.rec", "unchanged=1", "num_thread=2"};

// A file that nobody finishes reading: it is replaced by a pipe that has no writer.
void make_endless(const test::TempDir& dir, int file) {
  const std::string path = dir.path(fmt::format("files/{}", file));
  std::filesystem::rename(path, path + ".kept");
  REQUIRE(mkfifo(path.c_str(), 0600) == 0);
}
void make_ordinary(const test::TempDir& dir, int file) {
  const std::string path = dir.path(fmt::format("files/{}", file));
  std::filesystem::rename(path + ".kept", path);
}

// Waits until the journal has lines for `count` files.
void wait_for_journal(const test::TempDir& dir, int count, test::Process& process) {
  const auto lines = [&] {
    const std::string text = read_file(dir.path("out/a.idx.partial")).value_or("");
    return std::count(text.begin(), text.end(), '\n') - 1;
  };
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(20);
  while (lines() < count && process.running() && std::chrono::steady_clock::now() < deadline) std::this_thread::yield();
  REQUIRE(lines() >= count);
}

// Until the process has taken the signal from those that are pending.
void wait_until_taken(int signal, const test::Process& process) {
  const auto is_pending = [&] {
    const std::string status = read_file(fmt::format("/proc/{}/status", process.pid())).value_or("");
    const std::string_view key = "ShdPnd:\t";
    const size_t at = status.find(key);
    return at != std::string::npos &&
           (std::stoull(status.substr(at + key.size(), 16), nullptr, 16) >> (signal - 1) & 1) != 0;
  };
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(20);
  while (is_pending() && std::chrono::steady_clock::now() < deadline) std::this_thread::yield();
  REQUIRE_FALSE(is_pending());
}

std::vector<std::string> program(const std::vector<std::string>& words) {
  std::vector<std::string> all = {DTRAIN_EXE};
  all.insert(all.end(), words.begin(), words.end());
  return all;
}

}  // namespace

TEST_CASE("im2rec that is killed continues when it is started again, and gives the bytes of one run", "[cmd]") {
  const test::TempDir dir;
  write_large_files(dir);
  REQUIRE(in_directory(dir, kPacking).code == 0);
  std::filesystem::rename(dir.path("out"), dir.path("one_run"));
  for (const int stuck : {2, 5, 7}) {
    make_endless(dir, stuck);
    test::Process process(program(kPacking), {.directory = dir.path(), .environment = {}});
    wait_for_journal(dir, stuck / 2 * 2, process);
    process.signal(SIGKILL);
    CHECK(process.wait(20).signal == SIGKILL);
    make_ordinary(dir, stuck);
    CHECK(!std::filesystem::exists(dir.path("out/a.rec")));
  }
  const test::Ended ended = in_directory(dir, kPacking);
  INFO(ended.output);
  CHECK(ended.code == 0);
  CHECK_THAT(ended.output, Catch::Contains("an earlier run packed 6 of 8 images"));
  for (const char* name : {"a.rec", "a.idx"}) {
    CHECK(must(read_file(dir.path(std::string("out/") + name))) ==
          must(read_file(dir.path(std::string("one_run/") + name))));
  }
  CHECK(std::distance(std::filesystem::directory_iterator(dir.path("out")), {}) == 2);
}

TEST_CASE("im2rec that is asked to end keeps what it has, ends with code 75 and continues later", "[cmd]") {
  const test::TempDir dir;
  write_large_files(dir);
  for (const int signal : {SIGTERM, SIGINT}) {
    make_endless(dir, 5);
    test::Process process(program(kPacking), {.directory = dir.path(), .environment = {}});
    wait_for_journal(dir, 4, process);
    process.signal(signal);
    wait_until_taken(signal, process);
    std::ofstream(dir.path("files/5")) << "x";  // the pipe: the thread that reads it can end
    const test::Ended ended = process.wait(20);
    INFO(ended.output);
    CHECK(ended.code == 75);
    CHECK_THAT(ended.output, Catch::Contains("The same command continues"));
    make_ordinary(dir, 5);
    std::filesystem::remove_all(dir.path("out"));
  }
}

TEST_CASE("im2rec takes the spellings of all versions of MXNet", "[cmd]") {
  const test::TempDir dir;
  std::filesystem::create_directories(dir.path("images/cat"));
  test::write_bytes(dir.path("images/cat/a.png"),
                    must(images::encode_image(test::gradient_image(9, 7, 3, 1), ".png", 3)));
  test::write_bytes(dir.path("images/cat/b.jpg"),
                    must(images::encode_image(test::gradient_image(9, 7, 3, 1), ".jpg", 3)));
  test::write_text(dir.path("images/cat/c.gif"), "no image");
  const test::Ended listed = in_directory(dir, {"im2rec", "--list", "True", "--recursive", "1", "--exts", ".png",
                                                ".gif", "--shuffle", "False", "--train_ratio", "1.0", "set", "images"});
  INFO(listed.output);
  CHECK(listed.code == 0);
  CHECK_THAT(listed.output, Catch::StartsWith("cat 0\n") || Catch::Contains("\ncat 0\n"));
  CHECK(must(read_file(dir.path("set.lst"))) == "0\t0.000000\tcat/a.png\n1\t0.000000\tcat/c.gif\n");
  const test::Ended packed =
      in_directory(dir, {"im2rec", "--num_thread", "2", "--center_crop", "1", "--resize", "8", "set", "images"});
  INFO(packed.output);
  CHECK(packed.code == 0);
  CHECK_THAT(packed.output, Catch::Contains("skipped an image") && Catch::Contains("images/cat/c.gif") &&
                                Catch::Contains("packed 1 images") && Catch::Contains("skipped 1"));
  const test::Ended none = in_directory(dir, {"im2rec", "set", "elsewhere"});
  CHECK(none.code == 7);
  const test::Ended refused = in_directory(dir, {"im2rec", "set", "images", "--raw", "--quality", "90"});
  CHECK(refused.code == 2);
  CHECK_THAT(refused.output, Catch::Contains("--raw stores pixels without encoding them"));
}

}  // namespace dtrain
