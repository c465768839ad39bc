#include "bench/dlbs/benchmark.h"

#include <fmt/ranges.h>
#include <regex>

#include "base/file.h"
#include "bench/dlbs/report.h"
#include "bench/dlbs_log.h"
#include "support/catch.h"
#include "support/must.h"
#include "support/temp_dir.h"

using namespace dtrain;
using namespace dtrain::bench;
using Catch::Matchers::Contains;
using dtrain::test::must;
using dtrain::test::parsed_log;
using dtrain::test::TempDir;

namespace {

std::optional<std::string> bench_root(const std::string& name) {
  return name == "BENCH_ROOT" ? std::optional<std::string>("/bench") : std::nullopt;
}

// The parameters of the documented configuration, and those of `settings` over them.
Result<DlbsParameters> documented(const std::vector<std::string>& settings) {
  std::vector<DlbsSetting> parsed;
  for (const std::string& setting : settings) parsed.push_back(must(parse_dlbs_setting(setting)));
  return DlbsParameters::make(must(read_file(DTRAIN_CONFIGS "/dlbs/config.json")), parsed, bench_root);
}

Result<DlbsBenchmark> benchmark_with(std::vector<std::string> settings) {
  settings.insert(settings.begin(), {"mxnet.rank=0", "mxnet.rendezvous=eth1:10.0.0.1:29500"});
  DT_TRY(const DlbsParameters parameters, documented(settings));
  return dlbs_benchmark(parameters);
}

std::string flags_of(const std::vector<std::string>& settings) {
  const DlbsParameters parameters = must(documented(settings));
  return fmt::format("{}", fmt::join(training_flags_of(must(dlbs_benchmark(parameters)), parameters), " "));
}

}  // namespace

TEST_CASE("the documented configuration makes a job of two nodes with all of their GPUs", "[bench][dlbs]") {
  const std::vector<std::string> node = {"mxnet.rank=1", "mxnet.rendezvous=eth1:10.0.0.1:29500"};
  CHECK(flags_of(node) ==
        "--network resnet-v1.5-50 --num-classes 1000 --image-shape 3,224,224 --batch-size 1024 --kv-store "
        "dist_device_sync --dtype float16 --gpus 0,1,2,3,4,5,6,7 --mom 0 --wd 0 --lr 1e-6 --num-epochs 1 "
        "--save-period 0 --time-batches-after 100 --benchmark 1 --num-batches 500 -n 2 -s 2 -i eth1");
  const DlbsBenchmark benchmark = must(benchmark_with({}));
  CHECK(benchmark.rank == 0);
  CHECK(benchmark.nodes == 2);
  CHECK(benchmark.distributed());
  CHECK(benchmark.rendezvous.scheduler == net::Endpoint{"10.0.0.1", 29500});
}

TEST_CASE("real records are read as often as the benchmark needs them", "[bench][dlbs]") {
  CHECK_THAT(flags_of({"mxnet.rank=1", "mxnet.rendezvous=10.0.0.1:29500", "exp.gpus=\"\"", "exp.dtype=float32",
                       "mxnet.data_dir=/data", "exp.num_warmup_batches=2", "exp.num_batches=3"}),
             Contains("--data-train /data/train.rec --num-examples 1280 --data-nthreads 4 --prefetch-buffer 10") &&
                 !Contains("--benchmark"));
}

TEST_CASE("one node needs no others, unless the store has servers", "[bench][dlbs]") {
  const std::vector<std::string> cpu = {"exp.num_nodes=1", "exp.gpus=\"\"", "exp.dtype=float"};
  const auto with = [&cpu](const std::string& store) {
    std::vector<std::string> all = cpu;
    all.push_back("mxnet.kv_store=" + store);
    return must(benchmark_with(all)).distributed();
  };
  CHECK_FALSE(with("device"));
  CHECK_FALSE(with("local"));
  CHECK(with("dist_sync"));
}

TEST_CASE("each model of the list has its network and the size of its images", "[bench][dlbs]") {
  CHECK(must(dlbs_model("inception3")).image == std::vector<int64_t>{3, 299, 299});
  CHECK(must(dlbs_model("alexnet")).image == std::vector<int64_t>{3, 227, 227});
  CHECK(must(dlbs_model("vgg19")).network == "vgg-19");
  CHECK(must(dlbs_model("resnet269")).title == "ResNet269");
  for (const char* id : {"alexnet_owt", "inception4", "inception_resnet_v2", "overfeat", "deep_mnist", "sensor_net",
                         "acoustic_model", "deep_speech2", "resnet-50"}) {
    CHECK_THAT(dlbs_model(id).error().message, Contains(id) && Contains("alexnet, googlenet, inception3, resnet18"));
  }
}

TEST_CASE("parameters that dtrain cannot follow are refused by name", "[bench][dlbs]") {
  const std::vector<std::pair<std::vector<std::string>, std::string>> cases = {
      {{"exp.model="}, "exp.model: the model is missing; choose from alexnet"},
      {{"exp.framework=tensorflow"}, "exp.framework: \"tensorflow\" is not possible"},
      {{"exp.phase=test"}, "exp.phase: there is no \"test\"; choose from training, inference"},
      {{"exp.rerun=often"}, "exp.rerun: there is no \"often\""},
      {{"exp.num_nodes=0"}, "exp.num_nodes: 0 is not a number from 1 to"},
      {{"exp.num_batches=0"}, "exp.num_batches: 0 is not a number from 1"},
      {{"exp.num_warmup_batches=-1"}, "exp.num_warmup_batches: -1"},
      {{"exp.replica_batch=0"}, "exp.replica_batch: 0"},
      {{"exp.replica_batch=1000000"},
       "exp.replica_batch: 1000000 for each of 8 GPUs makes a batch of 8000000 samples, more than the limit of"},
      {{"exp.num_batches=400000000", "exp.replica_batch=10000"}, "have 64000016000000 samples, more than"},
      {{"mxnet.rank=2"}, "mxnet.rank: '2' is not a number from 0 to 1, the ranks of 2 nodes"},
      {{"mxnet.rank=first"}, "mxnet.rank: 'first'"},
      {{"mxnet.scheduler=false"}, "mxnet.scheduler: the scheduler runs only on the node with rank 0"},
      {{"mxnet.rank=1", "mxnet.scheduler=true"}, "mxnet.scheduler: the scheduler runs only on the node with rank 0"},
      {{"exp.gpus=\"0:1\""}, "exp.gpus: '0:1': a replica on several GPUs"},
      {{"exp.gpus=\"0,x\""}, "exp.gpus: '0,x' is not a list of numbers"},
      {{"exp.effective_batch=512"},
       "exp.effective_batch: 512 contradicts the other parameters, from which 2048 follows"},
      {{"exp.dtype=int8"}, "exp.dtype: int8 is not possible"},
      {{"exp.dtype=float64"}, "exp.dtype: there is no \"float64\""},
      {{"exp.gpus=\"\""}, "exp.dtype: float16 needs GPUs"},
      {{"mxnet.kv_store=horovod"}, "nccl_allreduce sums the gradients of all nodes on GPUs, and allreduce on CPUs"},
      {{"mxnet.kv_store=device"}, "mxnet.kv_store: device is for one node, but exp.num_nodes is 2"},
      {{"mxnet.kv_store=dist_sycn"}, "did you mean 'dist_sync'?"},
      {{"mxnet.rendezvous=10.0.0.1"}, "mxnet.rendezvous: '10.0.0.1' is not HOST:PORT"},
      {{"mxnet.rendezvous=10.0.0.1:0"}, "is not HOST:PORT"},
      {{"mxnet.rendezvous=INTERFACE:IP_ADDRESS:29500"}, "is the placeholder of the template"},
      {{"exp.phase=inference"}, "exp.phase: inference is measured on one node"},
      {{"exp.phase=inference", "exp.num_nodes=1"}, "inference is measured on one GPU, and exp.gpus names"},
      {{"mxnet.use_dali=true"}, "mxnet.use_dali: true is not possible: dtrain decodes images on the CPU"},
      {{"mxnet.input_layout=NHWC"}, "mxnet.input_layout: \"NHWC\" is not possible"},
      {{"mxnet.args=x"}, "mxnet.args is for DLBS's own scripts"},
      {{"runtime.env.X=1"}, "runtime.env.X: dtrain's processes inherit its environment"},
      {{"monitor.frequency=1"}, "monitor.frequency: 1 is not possible"},
  };
  for (const auto& [settings, why] : cases) {
    INFO(why);
    const Result<DlbsBenchmark> benchmark = benchmark_with(settings);
    REQUIRE_FALSE(benchmark);
    CHECK_THAT(benchmark.error().message, Contains(why));
  }
}

TEST_CASE("a node without a number is only the one that runs the scheduler", "[bench][dlbs]") {
  const std::string here = "mxnet.rendezvous=10.0.0.1:1";
  const std::string log = "exp.log_file=log";
  CHECK(must(dlbs_benchmark(must(documented({here, log, "mxnet.scheduler=true"})))).rank == 0);
  CHECK_THAT(
      dlbs_benchmark(must(documented({here, log}))).error().message,
      Contains("mxnet.rank: the rank of this node is missing; give each of the 2 nodes a different rank, from 0"));
}

TEST_CASE("a rendezvous is an address, and an interface in front of it", "[bench][dlbs]") {
  const auto check = [](const std::string& text, const std::string& interface, const std::string& host, uint16_t port) {
    INFO(text);
    const Rendezvous rendezvous = must(parse_rendezvous(text));
    CHECK(rendezvous.interface == interface);
    CHECK(rendezvous.scheduler == net::Endpoint{host, port});
  };
  check("127.0.0.1:4000", "", "127.0.0.1", 4000);
  check("node1:29500", "", "node1", 29500);
  check("ib0:10.0.0.1:29500", "ib0", "10.0.0.1", 29500);
  check("[fe80::1]:29500", "", "fe80::1", 29500);
  check("ib0:[fe80::1]:29500", "ib0", "fe80::1", 29500);
  for (const char* bad : {"", ":", "host", ":1", "host:", "host:port", "host:70000", "a:b:c:1", "[::1]", "a:[::1]"}) {
    INFO(bad);
    CHECK_FALSE(parse_rendezvous(bad));
  }
}

TEST_CASE("rank 0 must have the address of the rendezvous", "[bench][dlbs]") {
  CHECK(check_owns_rendezvous({"", {"127.0.0.1", 4000}}));
  const Error error = check_owns_rendezvous({"", {"192.0.2.1", 4000}}).error();
  CHECK(error.code == Code::kUsage);
  CHECK_THAT(error.message, Contains("192.0.2.1, which is not an address of this host ("));
}

TEST_CASE("docker's command has the image, the log's directory and the given parameters", "[bench][dlbs]") {
  const DlbsParameters parameters =
      must(documented({"mxnet.rank=0", "mxnet.rendezvous=eth1:10.0.0.1:29500", "exp.docker=true",
                       "exp.docker_image=dtrain:1", "exp.docker_args=--rm --net=host", "mxnet.data_dir=data"}));
  const std::vector<std::string> command = must(docker_command(parameters, "/home/me"));
  const std::string line = fmt::format("{}", fmt::join(command, " "));
  INFO(line);
  CHECK_THAT(line, Catch::Matchers::StartsWith(
                       "docker run --gpus=all --rm --net=host --env=DTRAIN_TOKEN --volume=/bench/logs:/bench/logs "
                       "--workdir=/bench/logs --volume=/home/me/data:/home/me/data:ro --entrypoint=dtrain dtrain:1 "
                       "bench dlbs -Pexp.framework=\"mxnet\" -Pexp.model=\"resnet50\""));
  CHECK_THAT(line, Contains("-Pexp.log_file=\"/bench/logs/rank_0.log\"") && Contains("-Pmxnet.rank=0") &&
                       Contains("-Pmxnet.data_dir=\"/home/me/data\"") && !Contains("-Pexp.docker"));
  CHECK_FALSE(docker_command(must(documented({"mxnet.rank=0", "exp.docker_image="})), "/"));
}

TEST_CASE("a log has every parameter and the results where DLBS's parser looks for them", "[bench][dlbs]") {
  const DlbsTimes times{.job = {.samples = 40, .seconds = 2, .batches_ms = {100, 400, 300, 200, 1000}},
                        .own = {.samples = 20, .seconds = 1.5, .batches_ms = {300, 300, 300, 300, 300}},
                        .wait_data_s = 0.25,
                        .wait_network_s = 0.5,
                        .bytes_sent = 1000,
                        .bytes_received = std::nullopt};
  const DlbsParameters parameters = must(documented({"mxnet.rank=0"}));
  auto log = parsed_log("Running\n[worker 0 x] __a__=b\n" + dlbs_header(parameters) + dlbs_results(times));
  for (const DlbsParameters::Parameter& parameter : parameters.all()) {
    if (parameter.name == "exp.effective_batch") continue;
    INFO(parameter.name);
    CHECK(log[parameter.name] == parameter.value);
  }
  CHECK(log["exp.effective_batch"] == 8);  // of the samples that were processed, not of the parameters
  CHECK(log["results.time"] == 400.0);
  CHECK(log["results.throughput"] == 20);
  CHECK(log["results.time_data"] == std::vector<double>{100, 400, 300, 200, 1000});
  CHECK(log["results.time_min"] == 100.0);
  CHECK(log["results.time_median"] == 300.0);
  CHECK(log["results.time_p95"] == 1000.0);
  CHECK(log["results.time_max"] == 1000.0);
  CHECK(log["results.local.time"] == 300.0);
  CHECK(log["results.local.throughput"] == 13);
  CHECK(log["results.comm_time"] == 100.0);
  CHECK(log["results.data_time"] == 50.0);
  CHECK(log["results.compute_time"] == 150.0);
  CHECK(log["results.bytes_sent"] == 1000);
  CHECK(log["results.bytes_received"].is_null());
  CHECK(log["results.status"] == "ok");
}

TEST_CASE("a rate below 1 is a fraction, because 0 means a failure", "[bench][dlbs]") {
  const DlbsTimes::Part slow{.samples = 1, .seconds = 4, .batches_ms = {4000}};
  CHECK_THAT(dlbs_results({.job = slow, .own = slow}), Contains("__results.throughput__=0.25\n"));
}

TEST_CASE("a failed benchmark is recognized by its log", "[bench][dlbs]") {
  const DlbsTimes::Part part{.samples = 8, .seconds = 2, .batches_ms = {2000}};
  const std::string good = dlbs_line("exp.status", "ok") + dlbs_results({.job = part, .own = part});
  CHECK(dlbs_succeeded(good));
  CHECK_FALSE(dlbs_succeeded(""));
  CHECK_FALSE(dlbs_succeeded(dlbs_line("exp.status", "ok")));
  CHECK_FALSE(dlbs_succeeded(good + dlbs_failure("it broke")));
  auto log = parsed_log(good + dlbs_failure("it \"broke\"\nhere"));
  CHECK(log["exp.status"] == "failure");
  CHECK(log["exp.status_msg"] == "it \"broke\"\nhere");
}

TEST_CASE("the times of a node are read from its run directory", "[bench][dlbs]") {
  const TempDir dir;
  const std::string file = dir.path("batch-times-1.json");
  const std::string good =
      R"({"rank":1,"samples":8,"seconds":2.5,"batches_ms":[1000,1500],"wait_data_s":0.1,"wait_network_s":0.2,)"
      R"("bytes_sent":null,"bytes_received":5,"workers":2,"job_samples":16,"job_seconds":3,"slowest":0,)"
      R"("slowest_batches_ms":[1200,1800]})";
  must(write_file_atomic(file, good));
  const DlbsTimes times = must(read_dlbs_times(dir.path(""), 1));
  CHECK(times.job.samples == 16);
  CHECK(times.own.batches_ms == std::vector<double>{1000, 1500});
  CHECK_FALSE(times.bytes_sent);
  CHECK(times.bytes_received == 5.0);
  CHECK_FALSE(read_dlbs_times(dir.path(""), 0));
  for (size_t length = 0; length < good.size(); length++) {
    must(write_file_atomic(file, good.substr(0, length)));
    CHECK_FALSE(read_dlbs_times(dir.path(""), 1));
  }
  must(write_file_atomic(file, std::regex_replace(good, std::regex("1200,1800"), "")));
  CHECK_THAT(read_dlbs_times(dir.path(""), 1).error().message, Contains("no batch was measured"));
}

TEST_CASE("the log's file is made with its directory, and one that cannot be written is an error", "[bench][dlbs]") {
  const TempDir dir;
  DlbsLog log = must(DlbsLog::create(dir.path("logs/rank_0.log")));
  must(log.write("one\n"));
  must(log.write("two\n"));
  CHECK(must(read_file(dir.path("logs/rank_0.log"))) == "one\ntwo\n");
  CHECK_FALSE(DlbsLog::create(dir.path("logs")));
  DlbsLog full = must(DlbsLog::create("/dev/full"));
  CHECK(full.write("three\n").error().code == Code::kData);
}
