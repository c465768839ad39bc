// Record files without an index: worker 0 makes the index while the job waits. --start-timeout does not limit this
// time.
#include <algorithm>
#include <filesystem>
#include <fstream>

#include "cluster/loopback_job.h"
#include "support/catch.h"
#include "support/command_line.h"
#include "support/text.h"

using namespace dtrain;
using dtrain::test::contains;
using namespace dtrain::test;

namespace {

constexpr double kJobSeconds = 90;

// Images from `dtrain data synth` in train.rec and test.rec. train.rec has no index.
class Images {
 public:
  Images() {
    make_images(dir_.path("data"));
    std::filesystem::remove(index());
  }
  [[nodiscard]] std::string directory() const { return dir_.path("data"); }
  [[nodiscard]] std::string records() const { return dir_.path("data/train.rec"); }
  [[nodiscard]] std::string index() const { return dir_.path("data/train.idx"); }
  // Makes a second copy, as another host would have, and returns its path.
  [[nodiscard]] std::string copy() const {
    std::filesystem::copy(dir_.path("data"), dir_.path("copy"), std::filesystem::copy_options::recursive);
    return dir_.path("copy");
  }

 private:
  TempDir dir_;
};

// Flags for one epoch of lenet. All processes must join within a few seconds.
std::vector<std::string> training(const std::string& directory, const std::string& inject) {
  return command_line("--network lenet --data-dir", directory,
                      "--image-shape 3,28,28 --num-classes 10 --batch-size 20 --lr 0.01 --num-epochs 1 "
                      "--kv-store dist_sync --threads 1 --start-timeout 8 --heartbeat-interval 1 "
                      "--heartbeat-timeout 3 --inject",
                      inject);
}

JobSetting setting_of(const std::vector<std::string>& flags) {
  return {.workers = 2, .servers = 1, .flags = flags, .start_all = false};
}

size_t count(const std::string& text, const std::string& part) {
  size_t found = 0;
  for (size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) found++;
  return found;
}

constexpr const char* kIndexing = "; indexing ";

void start_all(LoopbackJob& job, const std::vector<std::string>& flags_of_worker_1 = {}) {
  job.start("server", 0);
  job.start("worker", 0);
  job.start("worker", 1, flags_of_worker_1);
}

}  // namespace

TEST_CASE("only worker 0 indexes, for longer than the start timeout", "[index]") {
  const Images images;
  LoopbackJob job(setting_of(training(images.directory(), "index-ms=11000@worker:0")));
  start_all(job);
  const bool ended = job.await_end(kJobSeconds);
  INFO(job.output());
  REQUIRE(ended);
  for (const char* role : {"scheduler", "server", "worker"}) CHECK(job.codes(role) == "0");
  CHECK(count(job.member("worker", 0).process->output(), kIndexing) == 1);
  CHECK(count(job.member("worker", 1).process->output(), kIndexing) == 0);
  CHECK(std::filesystem::exists(images.index()));
}

TEST_CASE("a worker on another host is sent the offsets for its own copy", "[index]") {
  const Images images;
  const std::string copy = images.copy();
  LoopbackJob job(setting_of(training(images.directory(), "none")));
  start_all(job, {"--data-dir", copy});
  const bool ended = job.await_end(kJobSeconds);
  INFO(job.output());
  REQUIRE(ended);
  for (const char* role : {"scheduler", "server", "worker"}) CHECK(job.codes(role) == "0");
  CHECK(contains(job.member("worker", 1).process->output(), "worker 0 has sent the offsets of"));
  CHECK_FALSE(contains(job.member("worker", 1).process->output(), kIndexing));
  CHECK_FALSE(std::filesystem::exists(copy + "/train.idx"));
}

TEST_CASE("a different copy ends the job with an error that names worker, path and sizes", "[index]") {
  const Images images;
  const std::string copy = images.copy();
  std::filesystem::resize_file(copy + "/train.rec", std::filesystem::file_size(copy + "/train.rec") - 400);
  LoopbackJob job(setting_of(training(images.directory(), "none")));
  start_all(job, {"--data-dir", copy});
  const bool ended = job.await_end(kJobSeconds);
  INFO(job.output());
  REQUIRE(ended);
  CHECK(contains(job.member("worker", 1).process->output(), copy + "/train.rec: the file has "));
  for (const char* role : {"scheduler", "server"}) {
    CHECK(contains(job.member(role).process->output(), "worker 1 failed: " + copy + "/train.rec: the file has "));
  }
  CHECK_FALSE(contains(job.codes("worker"), "0"));
}

TEST_CASE("other workers say what they waited for if worker 0 dies while it indexes", "[index]") {
  const Images images;
  LoopbackJob job(setting_of(training(images.directory(), "index-ms=600000@worker:0")));
  start_all(job);
  REQUIRE(job.member("worker", 0).process->wait_for_output("indexed", 30));
  job.member("worker", 0).process->signal(SIGKILL);
  const bool ended = job.await_end(kJobSeconds);
  INFO(job.output());
  REQUIRE(ended);
  CHECK(job.codes("worker") == "-9 5");
  CHECK(job.codes("server") == "5");
  CHECK(job.codes("scheduler") == "5");
  const std::string& output = job.member("worker", 1).process->output();
  CHECK(contains(output, "worker 0 was lost"));
  CHECK(contains(output, "waiting for worker 0 to index '" + images.records() + "'"));
}

TEST_CASE("a job that is stopped while worker 0 indexes ends at once", "[index]") {
  const Images images;
  LoopbackJob job(setting_of(training(images.directory(), "index-ms=600000@worker:0")));
  start_all(job);
  REQUIRE(job.member("worker", 0).process->wait_for_output("indexed", 30));
  job.member("worker", 1).process->signal(SIGTERM);
  const bool ended = job.await_end(kJobSeconds);
  INFO(job.output());
  REQUIRE(ended);
  for (const char* role : {"scheduler", "server", "worker"}) CHECK(job.codes(role) == "75");
}

// The paths may differ; the labels may not.
TEST_CASE("workers with different lists of labels end the job with an error that names them", "[index]") {
  const TempDir dir;
  make_images(dir.path("data"));
  std::string list;
  for (int id = 0; id < 100'000; id++) list += std::to_string(id) + "\t0\tx\n";
  std::ofstream(dir.path("zeros.lst")) << list;
  std::ofstream(dir.path("other.lst")) << list << "100000\t1\tx\n";
  LoopbackJob job(
      setting_of(command_line(training(dir.path("data"), "none"), "--path-imglist", dir.path("zeros.lst"))));
  start_all(job, {"--path-imglist", dir.path("other.lst")});
  const bool ended = job.await_end(kJobSeconds);
  INFO(job.output());
  REQUIRE(ended);
  const std::string wrong = "other.lst: the list of worker 1 differs from that of worker 0";
  CHECK(contains(job.member("worker", 1).process->output(), wrong));
  CHECK(contains(job.member("scheduler").process->output(), wrong));
  CHECK_FALSE(contains(job.codes("worker"), "0"));
}
