// The files with which Grid Engine, YARN and Kubernetes run a job, compared with those in the directory `files`. With
// DTRAIN_WRITE_FILES=1 they are written instead; test/batch/check_files then checks them with other programs.
#include <algorithm>
#include <cstdlib>

#include "base/file.h"
#include "base/json.h"
#include "cluster/batch_job.h"
#include "cluster/kubernetes.h"
#include "cluster/kubernetes_files.h"
#include "cluster/sge_script.h"
#include "cluster/yarn.h"
#include "cluster/yarn_spec.h"
#include "job/flags/flags.h"
#include "support/catch.h"
#include "support/must.h"
#include "support/process.h"
#include "support/temp_dir.h"

namespace dtrain::cluster {
namespace {

using dtrain::test::must;
using dtrain::test::TempDir;
using Words = std::vector<std::string>;

constexpr const char* kToken = "00112233445566778899aabbccddeeff";

Words with_data(const Words& arguments) {
  Words all = {"-n", "3", "-s", "2", "--network", "lenet", "--benchmark", "1"};
  all.insert(all.end(), arguments.begin(), arguments.end());
  return all;
}

// The flags of a job of three workers and two servers.
struct Case {
  explicit Case(const Words& more)
      : arguments(with_data(more)),
        flags(
            must(job::parse_flags(arguments, [](const std::string&) { return std::optional<std::string>(); })).flags) {}
  [[nodiscard]] Result<BatchRequest> request(const std::string& launcher) const {
    return batch_request({.executable = "/opt/dtrain",
                          .arguments = job::without_flags(arguments, batch_flags()),
                          .flags = flags,
                          .directory = "/home/u/job"},
                         {.launcher = launcher, .run_dir = flags.launch.run_dir});
  }

  Words arguments;
  job::Flags flags;
};

void check_file(const std::string& name, const std::string& text) {
  const std::string path = std::string(std::getenv("DTRAIN_CLUSTER_FILES")) + "/" + name;
  if (std::getenv("DTRAIN_WRITE_FILES") != nullptr) must(write_file_atomic(path, text));
  CHECK(text == must(read_file(path)));
}

SgeJob sge_job(const Words& more) {
  const Case job(more);
  return {.request = must(job.request(job.flags.launch.launcher_argument.empty() ? "sge" : "")),
          .parallel_environment = job.flags.launch.launcher_argument,
          .processes = 5,
          .output_dir = "/home/u/job"};
}

Result<std::string> manifests(const Words& more) {
  const Case job(more);
  const BatchRequest request = must(job.request(""));
  return kubernetes_manifests({.name = request.name,
                               .token = kToken,
                               .flags = job.flags,
                               .pod = request.node,
                               .stop_time = request.stop_time,
                               .arguments = job.arguments,
                               .network = request.network,
                               .exports = {"NAME=two words"},
                               .worker_exports = {"ONE=1"}});
}

}  // namespace

TEST_CASE("the script for qsub is as stored", "[cluster][files]") {
  check_file("sge_array.sh",
             qsub_script(sge_job({"--launcher", "print", "--run-dir", "/home/u/job/run", "--queue", "all.q",
                                  "--time-limit", "2h", "--worker-memory", "4G", "--submit-option=-P vision"})));
  check_file(
      "sge_parallel.sh",
      qsub_script(sge_job({"--launcher", "sge=mpi", "--worker-cores", "2", "--nodes", "2", "--jobname", "small"})));
}

TEST_CASE("Grid Engine counts cores only in a parallel environment", "[cluster][files]") {
  CHECK(check_sge_job(sge_job({"--launcher", "print", "--worker-cores", "2"})).error().code == Code::kUsage);
  CHECK(check_sge_job(sge_job({"--launcher", "sge=mpi", "--worker-cores", "2"})));
}

TEST_CASE("the manifests for Kubernetes are as stored", "[cluster][files]") {
  check_file("kubernetes.yaml", must(manifests({"--launcher", "print", "--image", "registry.example/dtrain:1"})));
  check_file("kubernetes_gpus.yaml", must(manifests({"--launcher",      "print",
                                                     "--image",         "registry.example/dtrain:1",
                                                     "--volume",        "shared:/data",
                                                     "--gpus",          "0,1",
                                                     "--worker-cores",  "8",
                                                     "--worker-memory", "32G",
                                                     "--server-memory", "4G",
                                                     "--time-limit",    "90m",
                                                     "--jobname",       "night-run",
                                                     "--nodes",         "5",
                                                     "--run-dir",       "runs/night 1"})));
}

TEST_CASE("flags that Kubernetes cannot use are refused", "[cluster][files]") {
  for (const Words& wrong :
       {Words{}, Words{"--image", "i", "--jobname", "Night_Run"}, Words{"--image", "i", "--volume", "shared"},
        Words{"--image", "i", "--volume", "shared:data"}, Words{"--image", "i", "--volume", ":/data"}}) {
    Words all = {"--launcher", "print"};
    all.insert(all.end(), wrong.begin(), wrong.end());
    CHECK(manifests(all).error().code == Code::kUsage);
  }
  CHECK(dns_label("dtrain-Inception_BN") == "dtrain-inception-bn");
  CHECK(dns_label("28--") == "dtrain");
}

// The files for the systems that count GPUs need their number; whole nodes of Slurm have all of their GPUs.
TEST_CASE("a file for --gpus all is made only where it can request all GPUs", "[cluster][files]") {
  const auto file = [](std::string_view system, Words more) {
    Words all = {"--launcher", "print", "--image", "i", "--gpus", "all"};
    all.insert(all.end(), more.begin(), more.end());
    const Case job(all);
    return batch_file(system, {.executable = "/opt/dtrain",
                               .arguments = job.arguments,
                               .flags = job.flags,
                               .environment = [](const std::string&) { return std::optional<std::string>(); },
                               .directory = "/home/u/job"});
  };
  const std::string slurm = must(file("slurm", {}));
  CHECK(slurm.find("--exclusive") != std::string::npos);
  CHECK(slurm.find("--gres") == std::string::npos);
  CHECK(slurm.find("--gpus all") != std::string::npos);
  CHECK(file("slurm", {"--worker-cores", "2", "--submit-option=--gres=gpu:2"}));
  CHECK(file("sge", {}));
  for (const auto& [system, more] :
       {std::pair("slurm", Words{"--worker-cores", "2"}), {"yarn", Words{}}, {"kubernetes", Words{}}}) {
    INFO(system);
    const Result<std::string> refused = file(system, more);
    REQUIRE_FALSE(refused);
    CHECK(refused.error().message.starts_with("--gpus all: "));
    CHECK(refused.error().message.find("give numbers, such as --gpus 0-3 for 4 GPUs") != std::string::npos);
  }
}

TEST_CASE("the specification for YARN is as stored", "[cluster][files]") {
  const Case job({"--launcher", "print", "--queue", "research", "--worker-cores", "4", "--worker-memory", "8G",
                  "--gpus", "0", "--time-limit", "1h"});
  const BatchRequest request = must(job.request(""));
  NodeScript node{.nodes = request.nodes,
                  .servers = 2,
                  .workers = 3,
                  .number = kYarnNumber,
                  .scheduler = kYarnFirstHost,
                  .directory = request.directory,
                  .run_dir = "runs/dtrain-lenet",
                  .command = {"/opt/dtrain", "-n", "3"}};
  check_file("yarn.json", yarn_spec({.name = request.name,
                                     .queue = request.queue,
                                     .containers = request.nodes,
                                     .container = request.node,
                                     .lifetime = request.time_limit,
                                     .image = "registry.example/dtrain:1",
                                     .script = node_script(node),
                                     .environment = {std::string("DTRAIN_TOKEN=") + kToken}}));
}

// A stand-in for dtrain prints what each node starts, in any order.
TEST_CASE("the script of a node starts its part of the job and returns the first failure", "[cluster][files]") {
  const TempDir dir;
  must(write_file_atomic(dir.path("dtrain"),
                         "#!/bin/sh\necho \"$VAR $*\"\ncase $* in *worker*--rank\\ 2*) exit 7;; esac\n"));
  std::filesystem::permissions(dir.path("dtrain"), std::filesystem::perms::owner_all);
  NodeScript node{.nodes = 2,
                  .servers = 1,
                  .workers = 3,
                  .number = "$NODE",
                  .scheduler = "localhost",
                  .run_dir = "run",
                  .command = {dir.path("dtrain"), "-n", "3"},
                  .own = {"--advertise", "\"$IP\""},
                  .worker_exports = {"VAR=a b"}};
  const auto lines = [&](const std::string& number, int code) {
    const dtrain::test::Ended end = dtrain::test::run(
        {"sh", "-c", node_script(node)}, {.directory = {}, .environment = {"NODE=" + number, "IP=10.0.0.1"}});
    CHECK(end.code == code);
    Words all;
    for (size_t at = 0, next = 0; (next = end.output.find('\n', at)) != std::string::npos; at = next + 1)
      all.push_back(end.output.substr(at, next - at));
    std::sort(all.begin(), all.end());
    return all;
  };
  const std::string rest = " --scheduler localhost:9091 --advertise 10.0.0.1";
  CHECK(lines("0", 7) == Words{" -n 3 --run-dir run --role scheduler --bind 0.0.0.0 --port 9091 --advertise localhost",
                               " -n 3 --run-dir run --role server --rank 0" + rest,
                               "a b -n 3 --run-dir run --role worker --rank 0" + rest,
                               "a b -n 3 --run-dir run --role worker --rank 2" + rest});
  CHECK(lines("1", 0) == Words{"a b -n 3 --run-dir run --role worker --rank 1" + rest});
}

TEST_CASE("the address of YARN's web services is a URL", "[cluster][files]") {
  CHECK(to_text(must(parse_yarn_url("http://rm:8088/", "alice"))) == "http://rm:8088?user.name=alice");
  CHECK(to_text(must(parse_yarn_url("https://rm?user.name=bob", "alice"))) == "https://rm?user.name=bob");
  CHECK(must(parse_yarn_url("http://[fe80::1]:8088", "")).host == "fe80::1");
  CHECK(must(parse_yarn_url("https://rm.example/gateway/yarn", "")).host == "rm.example");
  for (const char* wrong : {"", "rm:8088", "ftp://rm", "http://", "http://:8088"})
    CHECK(parse_yarn_url(wrong, "u").error().code == Code::kUsage);
}

TEST_CASE("what kubectl prints about a job is understood", "[cluster][files]") {
  const std::vector<Pod> pods = parse_pods(R"({"items": [
    {"metadata": {"name": "a"}, "status": {"phase": "Pending", "conditions": [
      {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "0/3 nodes are available"}]}},
    {"metadata": {"name": "b"}, "status": {"phase": "Pending", "containerStatuses": [
      {"state": {"waiting": {"reason": "ImagePullBackOff", "message": "Back-off"}}}]}},
    {"metadata": {"name": "c"}, "status": {"phase": "Failed", "containerStatuses": [
      {"state": {"terminated": {"exitCode": 137, "reason": "OOMKilled", "finishedAt": "2026-11-25T01:00:00Z"}}}]}}]})");
  REQUIRE(pods.size() == 3);
  CHECK(pods[0].waits == "Unschedulable: 0/3 nodes are available");
  CHECK_FALSE(pods[0].never);
  CHECK(pods[1].never);
  CHECK(pods[2].code == 137);
  CHECK(pods[2].reason == "OOMKilled");
  CHECK(must(parse_job_state(R"({"kind": "Job", "status": {}})")).complete == false);
  CHECK(must(parse_job_state(
                 R"({"kind": "Job", "status": {"conditions": [{"type": "Failed", "status": "True", "reason": "r"}]}})"))
            .failed);
  CHECK(parse_job_state("Error").error().code == Code::kUnavailable);
  for (const char* odd : {"", "[]", R"({"items": 1})", R"({"items": [1, {"status": {"containerStatuses": 3}}]})"})
    parse_pods(odd);
}

}  // namespace dtrain::cluster
