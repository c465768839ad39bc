// The commands of --sync-dst-dir, with real tar and rsync. A script takes the place of ssh and runs the commands here.
#include "launch/host_copy.h"

#include <fmt/ranges.h>
#include <sys/stat.h>

#include <algorithm>
#include <filesystem>
#include <fstream>

#include "base/file.h"
#include "launch/copy_progress.h"
#include "package/staged.h"
#include "proc/lines.h"
#include "proc/run.h"
#include "support/catch.h"
#include "support/must.h"
#include "support/process.h"
#include "support/temp_dir.h"
#include "support/text.h"

using namespace dtrain;
using namespace dtrain::launch;
using dtrain::test::contains;
using dtrain::test::must;
using dtrain::test::TempDir;

namespace {

namespace fs = std::filesystem;

// A host whose directory DIR is `dir`/"the copy".
HostCopy copy_in(const TempDir& dir, const std::vector<std::string>& exclude = {}) {
  const std::string shell = dir.path("ssh");
  std::ofstream(shell) << "#!/bin/sh\nshift\nexec sh -c \"$*\"\n";
  REQUIRE(::chmod(shell.c_str(), 0755) == 0);
  HostCopy copy = host_copy({.host = "h"}, dir.path("the copy"), exclude);
  copy.ssh = {shell, "h"};
  const auto remote_shell = std::find(copy.rsync.begin(), copy.rsync.end(), "-e");
  remote_shell[1] = shell;
  return copy;
}

dtrain::test::Ended run_in(const std::string& directory, const std::vector<std::string>& command) {
  return dtrain::test::run(command, {.deadline_s = 30, .directory = directory, .environment = {}});
}

std::string archive_of(const TempDir& dir, const std::string& program, std::string& id) {
  proc::SignalQueue signals;
  package::Contents contents{.name = "dtrain-9-x86_64", .build_id = "9-test", .glibc = "2.34"};
  contents.files = {{.name = "bin/dtrain", .source = {}, .content = "#!/bin/sh\n" + program, .executable = true}};
  const package::StagedPackage staged = must(package::StagedPackage::create(contents, dir.path(), signals));
  id = staged.id();
  const std::string archive = dir.path(id + ".tar.gz");
  must(staged.write_archive(archive, signals));
  return archive;
}

// All files and directories below `directory`, in order.
std::vector<std::string> names_in(const std::string& directory) {
  std::vector<std::string> names;
  for (const auto& entry : fs::recursive_directory_iterator(directory)) {
    names.push_back(fs::relative(entry.path(), directory).string());
  }
  std::sort(names.begin(), names.end());
  return names;
}

}  // namespace

TEST_CASE("a host keeps the three newest programs, and the last one is the current one", "[launch][copy]") {
  const TempDir dir;
  const HostCopy copy = copy_in(dir);
  std::vector<std::string> ids(5);
  for (size_t i = 0; i < ids.size(); i++) {
    const std::string archive = archive_of(dir, "echo program " + std::to_string(i), ids[i]);
    const dtrain::test::Ended end = run_in(dir.path(), program_command(copy, ids[i], archive));
    INFO(end.output);
    REQUIRE(end.code == 0);
    CHECK(contains(run_in("/", {copied_program(copy.directory)}).output, "program " + std::to_string(i)));
    // The files' times decide which ones are the newest.
    const auto time = fs::last_write_time(copy.directory) + std::chrono::seconds(i) - std::chrono::hours(1);
    fs::last_write_time(copy.directory + "/.dtrain/" + ids[i], time);
  }
  for (size_t i = 0; i < ids.size(); i++) CHECK(fs::exists(copy.directory + "/.dtrain/" + ids[i]) == (i >= 2));
  CHECK(names_in(copy.directory + "/.dtrain").size() == 1 + 3 * 4);  // nothing but `current` and the programs

  SECTION("an older one becomes the current one without being sent again") {
    const dtrain::test::Ended end = run_in(dir.path(), ask_command(copy, ids[2]));
    CHECK(parse_copy_state({"welcome", "dtrain-copy program"}).has_program);
    CHECK(contains(end.output, "dtrain-copy program\n"));
    CHECK(contains(end.output, "dtrain-copy architecture "));
    CHECK(contains(run_in("/", {copied_program(copy.directory)}).output, "program 2"));
    CHECK_FALSE(contains(run_in(dir.path(), ask_command(copy, ids[0])).output, "dtrain-copy program"));
  }
  SECTION("two hosts that share the directory may send the same one") {
    const dtrain::test::Ended end = run_in(dir.path(), program_command(copy, ids[4], dir.path(ids[4] + ".tar.gz")));
    CHECK(end.code == 0);
    CHECK(names_in(copy.directory + "/.dtrain").size() == 1 + 3 * 4);
  }
}

TEST_CASE("a program that does not arrive or does not start leaves the present one", "[launch][copy]") {
  const TempDir dir;
  const HostCopy copy = copy_in(dir);
  std::string good, bad;
  const std::string good_archive = archive_of(dir, "echo good", good);
  REQUIRE(run_in(dir.path(), program_command(copy, good, good_archive)).code == 0);
  const std::string archive = archive_of(dir, "echo old glibc >&2; exit 1", bad);
  SECTION("it does not start") {
    const dtrain::test::Ended end = run_in(dir.path(), program_command(copy, bad, archive));
    CHECK(end.code == 1);
    CHECK(contains(end.output, "old glibc"));
  }
  SECTION("half of it arrives") {
    fs::resize_file(archive, fs::file_size(archive) / 2);
    const dtrain::test::Ended end = run_in(dir.path(), program_command(copy, bad, archive));
    CHECK(end.code == 1);
    CHECK(contains(end.output, "unexpected end of file"));
  }
  CHECK(names_in(copy.directory + "/.dtrain").size() == 5);
  CHECK(contains(run_in("/", {copied_program(copy.directory)}).output, "good"));
}

// rsync's manual page defines the patterns.
TEST_CASE("tar leaves out the same files as rsync", "[launch][copy]") {
  const TempDir dir;
  for (const char* name : {"big", "sub/big", "a.o", "sub/b.o", "runs/r", "sub/runs/q", "keep/deep/f",
                           "keep/deep/more/f", ".dtrain/x/y", "sub/.dtrain", "with space/f"}) {
    must(make_directories(fs::path(dir.path("here/") + name).parent_path().string()));
    must(write_file_atomic(dir.path("here/") + name, name));
  }
  const std::vector<std::vector<std::string>> cases = {
      {},        {"big"},      {"/big"},      {"*.o"},        {"/*.o"},       {"runs/"},
      {"/runs"}, {"keep/*/f"}, {"keep/**/f"}, {"/keep/deep"}, {"with space"}, {"big", "/sub"}};
  for (const std::vector<std::string>& exclude : cases) {
    const HostCopy copy = copy_in(dir, exclude);
    INFO(fmt::format("{}", fmt::join(exclude, " ")));
    std::vector<std::vector<std::string>> names;
    for (const std::vector<std::string>& command : {copy.rsync, tar_command(copy)}) {
      fs::remove_all(copy.directory);
      fs::create_directory(copy.directory);
      const dtrain::test::Ended end = run_in(dir.path("here"), command);
      INFO(end.output);
      REQUIRE(end.code == 0);
      names.push_back(names_in(copy.directory));
    }
    CHECK(names[0] == names[1]);
    CHECK(std::find(names[1].begin(), names[1].end(), ".dtrain") == names[1].end());
  }
}

// The last number of bytes that the command prints.
static int64_t bytes_copied(const std::string& directory, const std::vector<std::string>& command) {
  const dtrain::test::Ended end = run_in(directory, command);
  INFO(end.output);
  REQUIRE(end.code == 0);
  int64_t bytes = -1;
  proc::LineSplitter splitter(proc::LineEnds::kReturnToo);
  const auto take = [&](const std::string& line) { bytes = copied_bytes(line).value_or(bytes); };
  splitter.add(end.output, take);
  splitter.finish(take);
  return bytes;
}

static std::optional<int64_t> bytes_announced(const std::string& directory, const std::vector<std::string>& command) {
  const dtrain::test::Ended end = run_in(directory, command);
  INFO(end.output);
  REQUIRE(end.code == 0);
  proc::Finished finished;
  proc::LineSplitter().add(end.output, [&](const std::string& line) { finished.output.push_back(line); });
  return bytes_to_copy(finished);
}

// A megabyte in two files. dd and rsync print a last line at their end, however short the copy is.
TEST_CASE("a copy prints how many bytes it has copied, and a comparison how many it will", "[launch][copy]") {
  const TempDir dir;
  const HostCopy copy = copy_in(dir, {"left out"});
  const std::string here = dir.path("here");
  must(make_directories(here));
  must(write_file_atomic(here + "/a", std::string(700'000, 'a')));
  must(write_file_atomic(here + "/b", std::string(300'000, 'b')));
  must(write_file_atomic(here + "/left out", std::string(5'000'000, 'c')));
  CHECK(bytes_announced(here, rsync_size_command(copy)) == 1'000'000);
  CHECK_FALSE(fs::exists(copy.directory + "/a"));
  CHECK(bytes_copied(here, rsync_command(copy)) == 1'000'000);
  must(write_file_atomic(here + "/b", std::string(400'000, 'd')));
  CHECK(bytes_announced(here, rsync_size_command(copy)) == 400'000);
  CHECK(bytes_copied(here, rsync_command(copy)) == 400'000);
  CHECK(bytes_announced(here, rsync_size_command(copy)) == 0);
  CHECK(must(read_file(copy.directory + "/b")) == must(read_file(here + "/b")));
  // tar rounds up to blocks and writes headers.
  const std::optional<int64_t> by_tar = bytes_announced(here, tar_size_command(copy));
  REQUIRE(by_tar);
  CHECK(*by_tar > 1'100'000);
  CHECK(*by_tar < 1'200'000);
  CHECK(bytes_copied(here, tar_command(copy)) == by_tar);
  std::string id;
  const std::string archive = archive_of(dir, "echo program", id);
  CHECK(bytes_copied(here, program_command(copy, id, archive)) == static_cast<int64_t>(fs::file_size(archive)));
}

TEST_CASE("only lines of rsync and dd say how many bytes have been copied", "[launch][copy]") {
  CHECK(copied_bytes("         32768   0%    0.00kB/s    0:00:00  ") == 32768);
  CHECK(copied_bytes("      30000003 100%  793.86MB/s    0:00:00 (xfr#2, to-chk=0/4)") == 30'000'003);
  CHECK(copied_bytes("30000000 bytes (30 MB, 29 MiB) copied, 0.0067 s, 4.5 GB/s") == 30'000'000);
  CHECK(copied_bytes("99 bytes copied, 0.0067 s, 15 kB/s") == 99);
  for (const char* line : {"", " ", "457+1 records in", "12", "1,234 5%", "12 files", "-5 7%", "12 bytes left",
                           "99999999999999999999 5%", "dtrain-copy architecture x86_64"}) {
    INFO(line);
    CHECK(copied_bytes(line) == std::nullopt);
  }
  CHECK(bytes_to_copy({.output = {"Total file size: 5 bytes", "Total transferred file size: 3 bytes"}}) == 3);
  CHECK(bytes_to_copy({.errors = {"Total bytes written: 10240 (10KiB, 12MiB/s)"}}) == 10240);
  CHECK(bytes_to_copy({.output = {"Total transferred file size: many bytes"}}) == std::nullopt);
  CHECK(bytes_to_copy({}) == std::nullopt);
}

TEST_CASE("tar's failures are failures of the copy", "[launch][copy]") {
  const TempDir dir;
  const HostCopy copy = copy_in(dir);
  must(make_directories(dir.path("here")));
  must(write_file_atomic(dir.path("here/f"), "x"));
  const dtrain::test::Ended end = run_in(dir.path("here"), tar_command(copy));  // the directory is not there
  CHECK(end.code != 0);
  CHECK(contains(end.output, "the copy"));
}

TEST_CASE("a host that shares the current directory is recognized", "[launch][copy]") {
  const TempDir dir;
  HostCopy copy = copy_in(dir);
  copy.directory = fs::current_path().string();
  const auto answer = [&] {
    proc::SignalQueue signals;
    return parse_copy_state(must(proc::output_of({.arguments = ask_command(copy, "id")}, signals)));
  };
  CHECK(answer().directory == this_directory());
  copy.directory = dir.path();
  CHECK(answer().directory != this_directory());
  CHECK_FALSE(answer().directory.empty());
  copy.directory = dir.path("not there");
  CHECK(answer().directory.empty());
}
