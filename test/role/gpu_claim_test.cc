#include "role/setup/gpu_claim.h"

#include <fmt/core.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include <csignal>
#include <filesystem>

#include "base/file.h"
#include "support/catch.h"
#include "support/temp_dir.h"

namespace dtrain::role {

namespace {

constexpr const char* kGpu = "0000:3B:00.0";

// A process that claims a GPU until it is killed.
class Claimant {
 public:
  Claimant(const std::string& directory, const std::string& gpu) {
    int ends[2] = {};
    REQUIRE(::pipe(ends) == 0);
    UniqueFd ready(ends[0]), tell(ends[1]);
    pid_ = ::fork();
    REQUIRE(pid_ >= 0);
    if (pid_ == 0) {
      const GpuClaim claim(directory, gpu);
      (void)!::write(tell.get(), "x", 1);
      while (true) ::pause();
    }
    tell.close();
    char byte = 0;
    REQUIRE(::read(ready.get(), &byte, 1) == 1);
  }
  ~Claimant() { kill(); }
  void kill() {
    if (pid_ <= 0) return;
    ::kill(pid_, SIGKILL);
    ::waitpid(pid_, nullptr, 0);
    pid_ = 0;
  }
  [[nodiscard]] pid_t pid() const { return pid_; }

 private:
  pid_t pid_ = 0;
};

std::string file_in(const std::string& directory) {
  return fmt::format("{}/dtrain-{}-gpu-{}", directory, ::geteuid(), kGpu);
}

}  // namespace

TEST_CASE("a process sees another one that uses the same GPU, until that one ends", "[role][gpus]") {
  const test::TempDir dir;
  const GpuClaim own(dir.path(), kGpu);
  CHECK_FALSE(own.other_process());  // the own claim does not count
  Claimant first(dir.path(), kGpu), second(dir.path(), kGpu);
  const std::optional<pid_t> other = own.other_process();
  CHECK((other == first.pid() || other == second.pid()));
  first.kill();
  CHECK(own.other_process() == second.pid());
  second.kill();
  CHECK_FALSE(own.other_process());
  CHECK(std::filesystem::file_size(file_in(dir.path())) == 0);
}

TEST_CASE("processes with different GPUs do not see each other", "[role][gpus]") {
  const test::TempDir dir;
  const Claimant other(dir.path(), "0000:5E:00.0");
  CHECK_FALSE(GpuClaim(dir.path(), kGpu).other_process());
}

// In /tmp, everyone can make files with any name.
TEST_CASE("a claim ignores a file that may not be the user's own", "[role][gpus]") {
  const test::TempDir dir;
  const std::string file = file_in(dir.path()), elsewhere = dir.path("elsewhere");
  REQUIRE(write_file_atomic(elsewhere, "precious"));
  const auto ignores = [&] {
    const Claimant other(dir.path(), kGpu);
    return !GpuClaim(dir.path(), kGpu).other_process();
  };
  std::filesystem::create_symlink(elsewhere, file);
  CHECK(ignores());
  std::filesystem::remove(file);
  REQUIRE(::mkfifo(file.c_str(), 0600) == 0);  // opening a pipe waits for its other end, unless asked not to
  CHECK(ignores());
  std::filesystem::remove(file);
  CHECK(read_file(elsewhere).value() == "precious");
  if (::geteuid() == 0) {
    REQUIRE(write_file_atomic(file, ""));
    REQUIRE(::chown(file.c_str(), 12345, 12345) == 0);
    CHECK(ignores());
    std::filesystem::remove(file);
  }
  CHECK_FALSE(ignores());
  struct stat status {};
  REQUIRE(::stat(file.c_str(), &status) == 0);
  CHECK((status.st_mode & 0777) == 0600);
}

TEST_CASE("a claim without a directory has no effect", "[role][gpus]") {
  const test::TempDir dir;
  CHECK_FALSE(GpuClaim(dir.path("none"), kGpu).other_process());
  CHECK_FALSE(GpuClaim("", kGpu).other_process());
  CHECK_FALSE(std::filesystem::exists(file_in("")));
}

}  // namespace dtrain::role
