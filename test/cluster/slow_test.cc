// A job on several hosts, of which one is slow. The scheduler says which worker holds the others up, and why, with
// numbers that are those of the limit.
#include <chrono>
#include <filesystem>
#include <fstream>
#include <memory>
#include <regex>
#include <sstream>

#include "base/file.h"
#include "cluster/hosts.h"
#include "cluster/loopback_job.h"
#include "support/catch.h"
#include "support/command_line.h"
#include "support/must.h"

using namespace dtrain;
using namespace dtrain::test;

namespace {

constexpr double kPatience = 60;  // the scheduler compares the workers every ten seconds

// 300 images of 16 KB, as often as wanted, so that a short job does not read one twice.
void write_records(const std::string& directory, int times) {
  const Ended made =
      run({dtrain_program(), "data", "synth", "--out", directory, "--count", "300", "--size", "128"}, {});
  INFO(made.output);
  REQUIRE(made.code == 0);
  const std::string records = must(read_file(directory + "/train.rec")),
                    index = must(read_file(directory + "/train.idx"));
  std::ofstream more_records(directory + "/train.rec", std::ios::app),
      more_index(directory + "/train.idx", std::ios::app);
  for (int again = 1; again < times; again++) {
    more_records << records;
    std::istringstream entries(index);
    for (size_t key = 0, offset = 0; entries >> key >> offset;) {
      more_index << again * 300 + key << "\t" << again * records.size() + offset << "\n";
    }
  }
}

// What the scheduler has said about a slow process; empty if it has said nothing.
std::string said_in(const std::string& log, const std::string& process) {
  const std::string text = read_file(log).value_or("");
  const size_t begin = text.find("slow: " + process + " ");
  const size_t end = text.find('\n', begin);
  return begin == std::string::npos || end == std::string::npos ? "" : text.substr(begin + 6, end - begin - 6);
}

// Trains with two servers on the first host and one worker on each of the three others, until the scheduler has said
// why this process is slow. Returns the sentence. On a busy host other workers may be slow as well, and named.
std::string sentence_about(const std::string& process, const Hosts& hosts, const TempDir& dir) {
  std::string lines = hosts.address(0) + " role=server\n";
  for (int i = 1; i < hosts.count(); i++) lines += hosts.address(i) + " role=worker\n";
  must(write_file_atomic(dir.path("hosts"), lines));
  Process launcher(command_line(dtrain_program(), "-n 3 -s 2 -H", dir.path("hosts"), "--network 3conv --data-train",
                                dir.path("data/train.rec"),
                                "--image-shape 3,32,32 --num-classes 10 --batch-size 8 --num-epochs 100000 --threads 1 "
                                "--lr 0.01 --kv-store dist_sync --run-dir",
                                dir.path("run")),
                   hosts.options(dir.path()));
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::duration<double>(kPatience);
  while (std::chrono::steady_clock::now() < deadline && launcher.running()) {
    const std::string sentence = said_in(dir.path("run/scheduler-0.log"), process);
    if (!sentence.empty()) return sentence;
    launcher.wait_for_output("a text that does not come", 0.1);
  }
  FAIL(process << " was not called slow:\n" << launcher.output());
  return "";
}

// The numbers of a sentence. REQUIREs that it has this form.
std::vector<double> numbers_of(const std::string& sentence, const std::string& form) {
  INFO(sentence);
  std::smatch found;
  REQUIRE(std::regex_match(sentence, found, std::regex(form)));
  std::vector<double> numbers;
  for (size_t i = 1; i < found.size(); i++) numbers.push_back(std::stod(found[i]));
  return numbers;
}

struct SlowJob {
  TempDir dir;
  std::unique_ptr<Hosts> hosts;  // which mount a directory of `dir`
};

// Three workers on hosts 1 to 3, of which `host` is limited. Null, and the cause is printed, if that is not permitted
// here.
std::unique_ptr<SlowJob> slow_job(int host, int times, std::vector<std::string> limit) {
  auto job = std::make_unique<SlowJob>();
  std::string why_not;
  job->hosts = Hosts::make(4, why_not);
  write_records(job->dir.path("data"), times);
  if (limit[0] == "disk") limit.push_back(job->dir.path("data"));
  if (job->hosts == nullptr || !job->hosts->limit(host, limit, why_not)) {
    WARN("skipped: " << why_not);
    return nullptr;
  }
  return job;
}

}  // namespace

TEST_CASE("a worker whose disk is slow is named, with the disk's speed", "[slow]") {
  const auto job = slow_job(1, 5, {"disk", "500000"});
  if (job == nullptr) return;
  const std::string sentence = sentence_about("worker 0", *job->hosts, job->dir);
  const auto numbers = numbers_of(
      sentence, R"(worker 0 \(node2\) takes (\S+) ms per step, other workers (\S+): its data wait is (\S+) ms \(1 )"
                R"(decode thread; (?:decoding an image takes \S+ ms, on other workers \S+; )?disk (\S+) MB/s\))");
  INFO(sentence);
  CHECK(numbers[0] > 2 * numbers[1]);
  CHECK(numbers[2] > 0.6 * numbers[0]);
  CHECK(numbers[3] == Approx(0.45).margin(0.15));
}

TEST_CASE("a worker that gets too little processor time is named, and not its network or its data", "[slow]") {
  const auto job = slow_job(2, 1, {"cpu", "10"});
  if (job == nullptr) return;
  const std::string sentence = sentence_about("worker 1", *job->hosts, job->dir);
  const auto numbers = numbers_of(
      sentence, R"(worker 1 \(node3\) takes (\S+) ms per step, other workers (\S+): it lacks processor time \((\S+) )"
                R"(cores are busy and (\S+) threads wait for a core; other workers: (\S+) and (\S+)\))");
  INFO(sentence);
  CHECK(numbers[2] == Approx(0.1).margin(0.1));
  CHECK(numbers[3] > numbers[5]);
}

// 20 Mbit/s in each direction. Both directions share a step's time, so the rate may come out as half of that.
TEST_CASE("a worker whose network is slow is named, with about the network's speed", "[slow]") {
  const auto job = slow_job(3, 1, {"network", "2500000"});
  if (job == nullptr) return;
  const std::string sentence = sentence_about("worker 2", *job->hosts, job->dir);
  const auto numbers = numbers_of(
      sentence, R"(worker 2 \(node4\) works (\S+) ms per step, other workers (\S+), but its gradients arrive (\S+) ms )"
                R"(after theirs: its network is slow \((\S+) MB per step, about (\S+) MB/s\))");
  INFO(sentence);
  CHECK(numbers[2] > 3 * numbers[0]);
  CHECK(numbers[4] > 1.1);
  CHECK(numbers[4] < 3);
}
