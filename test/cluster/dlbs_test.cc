// Benchmarks of DLBS on two nodes, each started by its own command. The nodes are network namespaces (hosts.h).
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>
#include <numeric>
#include <sstream>

#include "base/file.h"
#include "bench/dlbs_log.h"
#include "cluster/hosts.h"
#include "cluster/loopback_job.h"
#include "support/catch.h"
#include "support/command_line.h"
#include "support/must.h"
#include "support/text.h"

using namespace dtrain;
using dtrain::test::contains;
using namespace dtrain::test;

namespace {

constexpr double kNodeSeconds = 90;
constexpr double kAfterLossSeconds = 40;
constexpr double kQuietSeconds = 15;  // in which all processes of an ended node must be gone

class Nodes {
 public:
  Nodes() {
    hosts_ = Hosts::make(2, why_not_);
    if (hosts_ == nullptr) WARN("skipped: " << why_not_);
  }
  [[nodiscard]] bool missing() const { return hosts_ == nullptr; }
  [[nodiscard]] const Hosts& hosts() const { return *hosts_; }
  [[nodiscard]] std::string log(int rank) const { return dir_.path("logs/rank_" + std::to_string(rank) + ".log"); }
  // The rendezvous on host 0, through the interface that all hosts have.
  [[nodiscard]] std::string rendezvous() const { return "eth0:" + hosts_->address(0) + ":29500"; }

  // Starts scripts/dlbs/run on the host with this number, with a small network on the CPU.
  [[nodiscard]] std::unique_ptr<Process> start(int rank, const std::vector<std::string>& more,
                                               const std::string& token = "DTRAIN_TOKEN=0123456789abcdef",
                                               std::optional<int> host = std::nullopt) const {
    const char* scripts = std::getenv("DTRAIN_SCRIPTS");
    REQUIRE(scripts != nullptr);
    const std::vector<std::string> command =
        command_line("env", "--chdir=" + dir_.path(), std::string(scripts) + "/dlbs/run", std::to_string(rank),
                     rendezvous(), "--gpus", std::string(),
                     "-Pexp.dtype=\"float32\" --model googlenet --replica-batch 1 --threads 1 "
                     "--start-timeout 60 --heartbeat-interval 1 --heartbeat-timeout 4",
                     more);
    ProcessOptions options = hosts_->options(dir_.path());
    options.environment.push_back(token);
    options.environment.push_back("DTRAIN=" + dtrain_program());
    return std::make_unique<Process>(hosts_->on(host.value_or(rank), command), options);
  }

  // Kills all processes of a rank at once, as a lost node would.
  void kill_rank(int rank) const {
    std::istringstream lines(hosts_->processes());
    for (std::string line; std::getline(lines, line);) {
      const std::string number = std::to_string(rank);
      if (contains(line, "--rank " + number) || contains(line, "-rank-" + number)) ::kill(std::stoi(line), SIGKILL);
    }
  }

 private:
  std::string why_not_;
  std::unique_ptr<Hosts> hosts_;
  TempDir dir_;
};

double sum_of(const nlohmann::json& list) {
  double sum = 0;
  for (const nlohmann::json& one : list) sum += one.get<double>();
  return sum;
}

}  // namespace

TEST_CASE("two nodes run the documented configuration of DLBS, and each log has the job's results", "[dlbs]") {
  const Nodes nodes;
  if (nodes.missing()) return;
  const std::vector<std::string> few = {"--num-warmup-batches", "1", "--num-batches", "4"};
  const auto second = nodes.start(1, few), first = nodes.start(0, few);
  const Ended end0 = first->wait(kNodeSeconds), end1 = second->wait(kNodeSeconds);
  INFO(end0.output << "\n---\n" << end1.output);
  REQUIRE(end0.code == 0);
  REQUIRE(end1.code == 0);
  std::vector<double> throughputs, times;
  double local_rates = 0;
  for (int rank = 0; rank < 2; rank++) {
    auto log = parsed_log(must(read_file(nodes.log(rank))));
    CHECK(log["exp.model"] == "googlenet");
    CHECK(log["exp.num_nodes"] == 2);
    CHECK(log["mxnet.rank"] == rank);
    CHECK(log["exp.effective_batch"] == 2);
    CHECK(log["results.time_data"].size() == 4);
    CHECK(log["results.local.time_data"].size() == 4);
    const double seconds = sum_of(log["results.time_data"]) / 1e3;
    CHECK(log["results.time"].get<double>() == Approx(1e3 * seconds / 4));
    CHECK(log["results.throughput"].get<double>() == Approx(8 / seconds).margin(1));
    CHECK(log["results.local.time"].get<double>() <= log["results.time"].get<double>() * 1.0001);
    CHECK(log["results.bytes_sent"].get<double>() >
          4 * 4e6);  // the gradients of 7 million weights, half to each server
    CHECK(log["exp.status"] == "ok");
    times.push_back(log["results.time"]);
    throughputs.push_back(log["results.throughput"]);
    local_rates += log["results.local.throughput"].get<double>();
  }
  CHECK(times[0] == times[1]);
  CHECK(throughputs[0] == throughputs[1]);
  CHECK(local_rates > 0);
  CHECK(nodes.hosts().all_quiet(kQuietSeconds));
}

TEST_CASE("when a node of DLBS is lost, the other ends with a code and says so", "[dlbs]") {
  const Nodes nodes;
  if (nodes.missing()) return;
  const int lost = GENERATE(0, 1);
  const std::vector<std::string> endless = {"--num-batches", "1000000", "--scheduler-grace", "2"};
  const auto second = nodes.start(1, endless), first = nodes.start(0, endless);
  await_output(*first, "step 0/1000100", kNodeSeconds);
  nodes.kill_rank(lost);
  const Ended end = (lost == 0 ? *second : *first).wait(kAfterLossSeconds);
  INFO(end.output);
  CHECK(end.code == (lost == 0 ? 4 : 5));
  CHECK(contains(end.output, lost == 0 ? "scheduler" : " 1 was lost: "));
  auto log = parsed_log(must(read_file(nodes.log(1 - lost))));
  CHECK(log["exp.status"] == "failure");
  CHECK(contains(log["exp.status_msg"].get<std::string>(), lost == 0 ? "scheduler lost" : "peer lost"));
  CHECK(nodes.hosts().all_quiet(kQuietSeconds));
}

TEST_CASE("a node of DLBS that cannot meet the others ends at once and says why", "[dlbs]") {
  const Nodes nodes;
  if (nodes.missing()) return;
  std::string words;
  int code = 2, rank = 0;
  std::string token = "DTRAIN_TOKEN=0123456789abcdef";
  std::optional<int> host;
  SECTION("rank 0 is not on the host of the rendezvous") {
    host = 1;
    words = "rank 0 runs the scheduler at " + nodes.hosts().address(0) + ", which is not an address of this host (" +
            nodes.hosts().address(1) + ")";
  }
  SECTION("there is no token") {
    rank = GENERATE(0, 1);
    token = "DTRAIN_TOKEN";
    code = 6;
    words = "--token-file FILE or the environment variable DTRAIN_TOKEN";
  }
  const Ended end = nodes.start(rank, {}, token, host)->wait(kQuietSeconds);
  INFO(end.output);
  CHECK(end.code == code);
  CHECK(contains(end.output, words));
  CHECK_FALSE(std::filesystem::exists(nodes.log(rank)));
  CHECK(nodes.hosts().all_quiet(kQuietSeconds));
}
