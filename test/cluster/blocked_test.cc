// Processes that live but cannot go on, because a file that they write blocks. Nobody may be declared lost, and
// training continues when the file no longer blocks.
#include <fcntl.h>
#include <linux/fs.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <unistd.h>

#include <cstdio>
#include <filesystem>
#include <fstream>
#include <memory>
#include <thread>

#include "cluster/loopback_job.h"
#include "cluster/make_or_skip.h"
#include "support/catch.h"
#include "support/command_line.h"
#include "support/temp_dir.h"
#include "support/terminal.h"

using namespace dtrain;
using namespace dtrain::test;

namespace {

constexpr double kStartSeconds = 60;
constexpr double kBlockedSeconds = 9;  // three times the heartbeat timeout of kShort

// A small disk whose writes can be made to block, as those of a file server that does not answer.
class Disk {
 public:
  static std::unique_ptr<Disk> make(std::string& why_not) {
    if (::geteuid() != 0) {
      why_not = "not root: no disk can be mounted";
      return nullptr;
    }
    auto disk = std::make_unique<Disk>();
    std::ofstream(disk->image()).close();
    std::filesystem::resize_file(disk->image(), 64 << 20);
    std::filesystem::create_directory(disk->path());
    for (const auto& command :
         {command_line("mkfs.ext4 -q", disk->image()), command_line("mount -o loop", disk->image(), disk->path())}) {
      const Ended ended = run(command, {});
      if (ended.code == 0) continue;
      why_not = "no disk can be mounted: " + ended.output;
      return nullptr;
    }
    disk->guard_ =
        ::popen(("cat; fsfreeze -u " + disk->path() + " 2>/dev/null; umount -l " + disk->path()).c_str(), "w");
    disk->fd_ = ::open(disk->path().c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    return disk;
  }
  Disk() = default;
  ~Disk() {
    if (fd_ >= 0) ::close(fd_);
    if (guard_ != nullptr) ::pclose(guard_);
  }
  Disk(const Disk&) = delete;
  Disk& operator=(const Disk&) = delete;

  [[nodiscard]] std::string path() const { return dir_.path("disk"); }
  void block() { REQUIRE(::ioctl(fd_, FIFREEZE, 0) == 0); }
  void unblock() { REQUIRE(::ioctl(fd_, FITHAW, 0) == 0); }

 private:
  [[nodiscard]] std::string image() const { return dir_.path("image"); }

  TempDir dir_;
  int fd_ = -1;
  FILE* guard_ = nullptr;  // unblocks and removes the disk when this process ends, in whatever way
};

// REQUIREs that the job has begun, and that it trains after a time in which something blocks. It may block before the
// workers have reported a step.
template <class Block, class Unblock>
void check_survives(LoopbackJob& job, const Block& block, const Unblock& unblock) {
  bool trains = job.await_step(0, kStartSeconds);
  if (trains) {
    block();
    job.run_for(kBlockedSeconds);
    unblock();
    trains = job.await_step(job.last_step() + 100, kStartSeconds);
  }
  INFO(job.output());
  CHECK(job.running() == "scheduler, server 0, worker 0, worker 1");
  REQUIRE(trains);
  CHECK_THAT(job.output(), !Catch::Contains("lost"));
}

}  // namespace

TEST_CASE("a job whose run directory does not answer loses no process", "[blocked]") {
  const auto disk = make_or_skip<Disk>();
  if (disk == nullptr) return;
  JobSetting setting{.servers = 1, .directory = disk->path()};
  LoopbackJob job(setting);
  const auto block = [&] {
    REQUIRE(job.await_step(1, kStartSeconds));
    disk->block();
  };
  check_survives(job, block, [&] { disk->unblock(); });
}

TEST_CASE("a job whose server writes events to a terminal that nobody reads loses no process", "[blocked]") {
  Terminal terminal;
  JobSetting setting{.servers = 1};
  setting.flags.insert(setting.flags.end(), {"--trace-events", terminal.path()});
  LoopbackJob job(setting);
  std::jthread reader;
  const auto read = [&] {
    CHECK(terminal.take().size() > 2000);  // what a terminal holds
    reader = std::jthread([&](const std::stop_token& stop) {
      while (!stop.stop_requested()) terminal.take();
    });
  };
  check_survives(
      job, [] {}, read);
}

TEST_CASE("with --stall-timeout, a server that cannot go on ends the job, and is named", "[blocked]") {
  const Terminal terminal;
  JobSetting setting{.servers = 1};
  setting.flags.insert(setting.flags.end(), {"--stall-timeout", "5", "--trace-events", terminal.path()});
  LoopbackJob job(setting);
  bool names_it = false;
  for (int i = 0; i < 60 && !names_it; i++) {
    job.run_for(1);
    names_it = job.member("scheduler").process->output().find("server 0 counts as lost (--stall-timeout)") !=
               std::string::npos;
  }
  const bool ended = job.member("scheduler").ended || job.member("worker", 0).ended;
  INFO(job.output());
  CHECK(names_it);
  CHECK(ended);
}
