// Mistakes of the user, with the built program: the exit code, the time, and the words that must appear.
#include <fmt/core.h>

#include <filesystem>
#include <regex>

#include "base/file.h"
#include "support/catch.h"
#include "support/process.h"
#include "support/temp_dir.h"

namespace dtrain {

using test::Ended;

namespace {

struct Refusal {
  std::vector<std::string> arguments;
  int code;
  std::vector<std::string> words;
  std::vector<std::string> environment = {};
};

// Runs the program without the variables of a tracker that may have started the tests, and in a directory of its own
// unless one is given.
Ended dtrain(std::vector<std::string> arguments, std::vector<std::string> environment = {},
             const std::string& directory = "") {
  const test::TempDir own;
  arguments.insert(arguments.begin(), DTRAIN_EXE);
  for (const char* name : {"DMLC_ROLE", "DMLC_NUM_WORKER", "DMLC_NUM_SERVER", "DTRAIN_TOKEN"}) {
    environment.insert(environment.begin(), name);
  }
  return test::run(
      arguments,
      {.deadline_s = 60, .directory = directory.empty() ? own.path() : directory, .environment = environment});
}

std::string joined(const std::vector<std::string>& words) {
  std::string text;
  for (const std::string& word : words) text += " " + word;
  return text;
}

}  // namespace

// /dev/full fails every write, as a full disk does.
TEST_CASE("a result that cannot be printed is an error", "[cmd]") {
  for (const char* words : {"man", "--help", "data stat --help", "completion bash"}) {
    INFO(words);
    const std::string command = fmt::format("{} {} > /dev/full", DTRAIN_EXE, words);
    const Ended ended = test::run({"/bin/sh", "-c", command}, {.deadline_s = 30, .directory = {}, .environment = {}});
    CHECK(ended.code == 2);
    CHECK_THAT(ended.output, Catch::Contains("standard output"));
  }
}

TEST_CASE("wrong flags are refused with the documented exit code and a helpful message", "[cmd]") {
  const std::vector<Refusal> refusals = {
      {{"--num-epoc", "3", "--benchmark", "1"}, 2, {"unknown flag '--num-epoc'", "did you mean '--num-epoch'?"}},
      {{"train", "--kvstore", "local"}, 2, {"did you mean '--kv-store'?"}},
      {{"--kv-store", "dist_sycn", "-n", "2"}, 2, {"no store 'dist_sycn'", "did you mean 'dist_sync'?", "local"}},
      {{"--kv-store", "dist_asnc", "-n", "2"}, 2, {"no store 'dist_asnc'", "did you mean 'dist_async'?"}},
      {{"--kv-store", "local", "-n", "2"}, 2, {"train independently", "dist_sync"}},
      {{"-n", "0", "--benchmark", "1"}, 2, {"-n: 0 is less than 1"}},
      {{"-n", "2", "-s", "0", "--benchmark", "1"}, 2, {"at least one server"}},
      {{"--gpus", "99", "--benchmark", "1", "--num-batches", "1"}, 8, {"GPU", "leave out --gpus"}},
      {{"--gpus", "all", "--benchmark", "1", "--num-batches", "1"}, 8, {"GPU", "leave out --gpus"}},
      {{"--dtype", "float16", "--benchmark", "1"}, 2, {"--dtype float16 needs a GPU", "float32", "bfloat16"}},
      {{"-p", "2"}, 2, {"--placement"}},
      {{"--hostname", "a"}, 2, {"--advertise"}},
      {{"--cluster1-begin", "0"}, 2, {"--data-sharding-file"}},
      {{"--workspace", "512"}, 2, {"--dry-run"}},
      {{"--staleness", "1", "-n", "2", "--benchmark", "1"},
       2,
       {"--staleness 1", "the store dist_sync does not use this flag", "dist_ssync"}},
      {{"-n", "2", "--kv-store", "dist_gsync", "--network", "mlp", "--benchmark", "1"},
       2,
       {"dist_gsync needs the groups", "--groups-file", "--ungrouped own"}},
      {{"-n", "2", "--data-allocator", "1", "--network", "mlp", "--benchmark", "1"}, 2, {"--data-sharding-file"}},
      {{"--launcher", "kubernetes", "-n", "2", "--benchmark", "1"}, 2, {"--image IMAGE"}},
      {{"--launcher", "ssh", "-n", "2", "--benchmark", "1"}, 2, {"the list of hosts is missing (-H FILE)"}},
      {{"-i", "eth9", "-n", "2", "--network", "mlp", "--benchmark", "1"}, 3, {"no interface 'eth9'", "lo 127.0.0.1"}},
      {{"--env", "A", "--benchmark", "1"}, 2, {"--env is for processes that a launcher starts"}},
      {{"kill", "no/job"}, 2, {"'no/job' is not the name of a job", "dtrain ps"}},
      {{"--lr-factor", ".5", "--lr-step-epochs", "3", "--lr-factor-epoch", "2", "--benchmark", "1"},
       2,
       {"--lr-step-epochs", "--lr-factor-epoch", "one of them"}},
      {{"--heartbeat-interval", "50ms", "--benchmark", "1"}, 2, {"--heartbeat-interval: 50ms is less than 0.1 s"}},
      {{"--role", "worker", "-n", "2"}, 2, {"--scheduler HOST:PORT"}},
      {{"--role", "boss"}, 2, {"no 'boss'", "scheduler, server, worker"}},
      {{"-n", "2", "python", "train_mnist.py"}, 2, {"'python'", "README.md"}},
      {{"--preset", "cifar1000"}, 2, {"no 'cifar1000'", "did you mean 'cifar100'?"}},
      {{"-network", "lenet", "--benchmark", "1"}, 2, {"unknown flag '-network'", "did you mean '--network'?"}},
      {{"-network=lenet", "--benchmark", "1"}, 2, {"unknown flag '-network'", "did you mean '--network'?"}},
      {{"--network", "lenet", "--benchmark", "1", "--load-epoch", "3"}, 2, {"PREFIX-0003.params", "--run-dir"}},
      {{"--network", "lenet", "--data-dir", "/dev/null"}, 7, {"/dev/null: this is a file", "directory"}},
      {{"--network", "lenet", "--data-dir", "data/mnist"},
       7,
       {"data/mnist: no such directory in /", "'dtrain data get mnist'", "build/quickstart-data"}},
      {{"-n", "2", "--network", "mlp", "--data-dir", "data/mnist", "--data-type", "mnist"},
       7,
       {"are missing for the data set mnist", "while looking for the data"}},
      {{"--network", "mlp", "--benchmark", "1", "--config", ""}, 2, {"--config: the value is empty"}},
      {{"--network", "mlp", "--benchmark", "1"}, 2, {"DMLC_ROLE=worker from the environment"}, {"DMLC_ROLE=worker"}},
      {{}, 2, {"--data-dir", "--help"}},
      {{"--network", "lenet"}, 2, {"no training data", "'dtrain data get mnist'", "build/quickstart-data"}},
      {{"--benchmark", "1"}, 2, {"DMLC_ROLE", "no 'boss'"}, {"DMLC_ROLE=boss"}},
  };
  for (const Refusal& refusal : refusals) {
    const Ended ended = dtrain(refusal.arguments, refusal.environment);
    INFO("dtrain" << joined(refusal.arguments) << "\n" << ended.output);
    CHECK_FALSE(ended.timed_out);
    CHECK(ended.code == refusal.code);
    for (const std::string& word : refusal.words) {
      INFO(word);
      CHECK(ended.output.find(word) != std::string::npos);
    }
  }
}

// Numbers that once made the program hang, divide by zero or use up the host's memory. Each has a process of its own,
// which it may end.
TEST_CASE("absurd numbers are refused at once", "[cmd]") {
  const test::TempDir dir;
  const std::vector<std::vector<std::string>> lines = {{"--batch-size", "4294967296"},
                                                       {"--batch-size", "1M"},
                                                       {"--threads", "1000000"},
                                                       {"--data-nthreads", "100000"},
                                                       {"--num-classes", "9223372036854775807"},
                                                       {"--network", "resnet", "--num-layers", "1000000000"},
                                                       {"--network", "resnet-1000000000"},
                                                       {"--image-shape", "3,16384,16384"},
                                                       {"-n", "200000"}};
  for (std::vector<std::string> arguments : lines) {
    if (arguments.front() != "--network") arguments.insert(arguments.begin(), {"--network", "lenet"});
    arguments.insert(arguments.end(), {"--benchmark", "1", "--dry-run"});
    const Ended ended = dtrain(arguments, {}, dir.path());
    INFO("dtrain" << joined(arguments) << "\n" << ended.output);
    CHECK(ended.code == 2);
  }
  const Ended epochs =
      dtrain({"--network", "lenet", "--benchmark", "1", "--dry-run", "--num-epochs", "1000000000", "--num-examples",
              "1000000000000", "--lr-factor", "0.5", "--lr-factor-epoch", "300", "--lr", "0.1"},
             {}, dir.path());
  CHECK(epochs.code == 0);
  CHECK_THAT(epochs.output, Catch::Contains("0.1, 0.05 from 300, 0.025 from 600, 0.0125 from 900, ..."));
}

// The tools' own flags that take numbers, as their --help lists them.
TEST_CASE("the flags of the tools have ranges", "[cmd]") {
  const test::TempDir dir;
  const std::vector<std::vector<std::string>> tools = {{"im2rec"},      {"data", "synth"}, {"bench", "train"},
                                                       {"bench", "kv"}, {"plan"},          {"simulate"}};
  const std::regex line("\n  --([a-z-]+)[^\n]* (N|W|S|B|X|P|MS|GBPS|L|LR)\\b");
  size_t flags = 0;
  for (const std::vector<std::string>& tool : tools) {
    std::vector<std::string> asked = tool;
    asked.emplace_back("--help");
    const std::string help = dtrain(asked).output;
    for (std::sregex_iterator i(help.begin(), help.end(), line), end; i != end; ++i, flags++) {
      if ((*i)[1] == "seed") continue;  // any number is a valid seed
      std::vector<std::string> arguments = tool;
      arguments.push_back("--" + (*i)[1].str() + "=9223372036854775807");
      const Ended ended = dtrain(arguments, {}, dir.path());
      INFO("dtrain" << joined(arguments) << "\n" << ended.output);
      CHECK(ended.code == 2);
    }
  }
  CHECK(flags > 25);
}

TEST_CASE("missing files and hosts are named before any process is started", "[cmd]") {
  const test::TempDir dir;
  REQUIRE(make_directories(dir.path("empty")));
  REQUIRE(write_file_atomic(dir.path("groups"), "127.0.0.1 127.0.0.1\nnode9\n"));
  REQUIRE(write_file_atomic(dir.path("of-one"), "127.0.0.1\n"));
  REQUIRE(write_file_atomic(dir.path("data_sharding"), "0 0.5\n0.4 1\n"));
  REQUIRE(write_file_atomic(dir.path("hosts"), "node1 slots=1\n"));
  const std::vector<std::string> gsp = {"-n", "2", "--kv-store", "dist_gsync", "--benchmark", "1", "--network", "mlp"};
  const auto gsp_with = [&gsp](std::vector<std::string> more) {
    more.insert(more.begin(), gsp.begin(), gsp.end());
    return more;
  };
  const std::vector<Refusal> refusals = {
      // An unknown group member.
      {gsp_with({}), 2, {"groups:2: no worker runs on 'node9'"}},
      {gsp_with({"--groups-file", "of-one"}), 2, {"of-one: worker 1", "is in no group", "--ungrouped own"}},
      {gsp_with({"--groups-file", "of-none"}), 2, {"of-none: no such file"}},
      {gsp_with({"--ungrouped", "own", "--data-allocator", "1"}),
       2,
       {"data_sharding:2: the share begins at 0.4, but another share that begins earlier ends at 0.5"}},
      {gsp_with({"-H", "hosts", "--launcher", "local"}), 2, {"hosts: there is no slot for server 1 (of 2)"}},
      {gsp_with({"-H", "no-hosts", "--launcher", "local"}),
       2,
       {"no-hosts: no such file", "one per line", "instead of -H"}},
      {{"--data-dir", dir.path("nowhere"), "--network", "lenet"}, 7, {"nowhere", "no such directory"}},
      {{"-n", "2", "--data-dir", dir.path("nowhere"), "--network", "lenet"}, 7, {"nowhere", "no such directory"}},
      {{"-n", "2", "--data-dir", dir.path("empty"), "--network", "lenet"},
       7,
       {"empty", "--data-train", "'dtrain data get mnist'", "build/quickstart-data"}},
      {{"--config", dir.path("none.toml")}, 7, {"none.toml"}},
      {{"-n", "2", "--benchmark", "1", "--network", "lennet"}, 2, {"lennet", "lenet"}},
      {{"-n", "2", "--benchmark", "1", "--network", "vgg-12"}, 2, {"vgg", "11, 13, 16 or 19"}},
      {{"-n", "2", "--benchmark", "1", "--network", "lenet", "--initializer", "xavier(sideways)"}, 2, {"xavier"}},
      {{"-n", "2", "--benchmark", "1", "--network", "lenet", "--pretrained-model", "pre"}, 7, {"no pre-NNNN.params"}},
  };
  for (const Refusal& refusal : refusals) {
    const Ended ended = dtrain(refusal.arguments, {}, dir.path());
    INFO("dtrain" << joined(refusal.arguments) << "\n" << ended.output);
    CHECK_FALSE(ended.timed_out);
    CHECK(ended.code == refusal.code);
    CHECK(ended.output.find("dtrain: job ") == std::string::npos);
    for (const std::string& word : refusal.words) CHECK(ended.output.find(word) != std::string::npos);
  }
  CHECK_FALSE(std::filesystem::exists(dir.path("runs")));
}

TEST_CASE("unknown subcommands are refused by name", "[cmd]") {
  const std::vector<Refusal> refusals = {
      {{"parse-lgo", "x"}, 2, {"no sub-command 'parse-lgo'", "did you mean 'parse-log'?"}},
      {{"data", "get"}, 2, {"usage: dtrain data get mnist|cifar10|cifar100|imagenet [FLAGS]\n"}},
      {{"data", "stat"}, 2, {"usage: dtrain data stat FILE.rec|DIRECTORY ... [FLAGS] [TRAINING-FLAGS]\n"}},
      {{"data", "stat", "a.rec", "--out", "x"}, 2, {"--out has an effect only with --sheet N or --npy N"}},
      {{"data", "stat", "a.rec", "--npy", "1", "--json"}, 2, {"--json is for printing statistics", "leave out --npy"}},
      {{"data", "stat", "a.rec", "--sheet", "1", "--decode"}, 2, {"--decode is for printing statistics"}},
      // A PNG in a file that is called a JPEG would be opened by the wrong program.
      {{"data", "stat", "a.rec", "--sheet", "1", "--out", "x.jpg"}, 2, {"--out x.jpg: the name must end in .png"}},
      {{"data", "stat", "a.rec", "--npy", "1", "--out", "x.png"}, 2, {"--out x.png: the name must end in .npy"}},
      {{"report", "runs/a", "--out", "x.pdf"}, 2, {"--out x.pdf: the name must end in .html or .htm"}},
      {{"bench", "input", "a.rec"}, 2, {"'a.rec' is neither a flag", "--data-train a.rec"}},
      {{"lenet.py"}, 2, {"neither a flag nor a sub-command"}},
      {{"plan"}, 2, {"no training data"}},
      {{"plan", "--benchmark", "1", "--network", "lenet"}, 2, {"the number of workers to measure is missing", "-n"}},
      {{"plan", "-n", "2", "--benchmark", "1", "--network", "lenet", "--probe-batches", "1G"}, 2, {"more than 100000"}},
      {{"plan", "-n", "2", "--probe-batchs", "3"}, 2, {"did you mean '--probe-batches'?"}},
      {{"plan", "-n", "2", "--group-criterion", "vcr"}, 2, {"--group-criterion", "did you mean 'vrc'?"}},
      {{"plan", "-n", "2", "--inflight-bytes", "3"}, 2, {"--inflight-bytes is not in this version"}},
      {{"plan", "--benchmark", "1", "--network", "lenet", "--from-log", "/nowhere/at/all"}, 7, {"/nowhere/at/all"}},
      {{"simulate", "--scheme", "bps"}, 2, {"--scheme", "bsp"}},
      {{"simulate", "--workers", "0"}, 2, {"--workers", "less than 1"}},
      {{"simulate", "--speed", "100x4"}, 2, {"--speeds"}},
      {{"simulate", "--inject", "dorp=0.1"}, 2, {"--inject"}},
      {{"simulate", "--mtbf", "-1"}, 2, {"--mtbf", "less than 0"}},
      {{"simulate", "--policy", "wait"}, 2, {"--mtbf HOURS"}},
      {{"simulate", "--snapshot-every", "100"}, 2, {"--snapshot-every 100", "--mtbf HOURS"}},
      {{"simulate", "--mtbf", "1", "--snapshot-every", "-1"}, 2, {"--snapshot-every", "less than 0"}},
      {{"simulate", "x"}, 2, {"usage: dtrain simulate"}},
      {{"simulate", "--replay", "/nowhere/at/all"}, 7, {"/nowhere/at/all"}},
      {{"data", "get"}, 2, {"usage: dtrain data get mnist|cifar10|cifar100|imagenet"}},
      {{"data", "get", "mnits"}, 2, {"there is no such data set; choose from: mnist, cifar10, cifar100, imagenet"}},
      {{"data", "get", "imagenet"}, 2, {"these images are licensed", "https://image-net.org", "--url"}},
      {{"data", "get", "mnist", "--url", "/data"}, 2, {"--url /data: give the address of a directory"}},
      {{"data", "stat"}, 2, {"usage: dtrain data stat FILE.rec|DIRECTORY"}},
      {{"data", "stat", "/nowhere/at/all.rec"}, 7, {"/nowhere/at/all.rec: no such file"}},
      {{"data", "stat", "--decode", "/nowhere/at/all.rec"}, 7, {"/nowhere/at/all.rec: no such file"}},
      {{"data", "stat", "--decode", "1", "/nowhere/at/all.rec", "--json"}, 7, {"/nowhere/at/all.rec: no such file"}},
      {{"data", "stat", "--image-shape", "3,8,8", "--sheet", "2", "/nowhere/at/all.rec"}, 7, {"/nowhere/at/all.rec"}},
      {{"data", "stat", "--decode"}, 2, {"usage: dtrain data stat FILE.rec|DIRECTORY"}},
      {{"data", "stat", "--colour", "a.rec"}, 2, {"'--colour'"}},
      {{"data", "stat", "a.rec", "--random-mirror", "1"},
       2,
       {"training flags have an effect only with --sheet N or --npy N"}},
      {{"--benchmark", "1", "--path-imglist", "a.lst"}, 2, {"--path-imglist gives labels to records"}},
      {{"bench"}, 2, {"dtrain bench must be followed by one of", "kv"}},
      {{"plot"}, 2, {"usage: dtrain plot RUN-DIRECTORY|LOG..."}},
      {{"plot", "a", "--out", "a.gif"}, 2, {"--out a.gif: the name must end in .png or .svg"}},
      {{"plot", "a", "--x", "epochs"}, 2, {"--x", "did you mean 'epoch'?"}},
      {{"plot", "/nowhere/at/all"}, 7, {"/nowhere/at/all: there is no such run directory or log"}},
      {{"report"}, 2, {"usage: dtrain report RUN-DIRECTORY|LOG..."}},
      {{"report", "/nowhere/at/all"}, 7, {"/nowhere/at/all: there is no such run directory or log"}},
      {{"report", "/proc"}, 7, {"/proc: the directory is not a run directory"}},
      {{"doctor", "--perff"}, 2, {"did you mean '--perf'?"}},
      {{"doctor", "--role", "worker", "-n", "1", "--scheduler", "a:1"},
       2,
       {"--role: dtrain doctor examines a whole job"}},
      {{"doctor", "--dry-run"}, 2, {"--dry-run: dtrain doctor starts no process of the job"}},
      {{"doctor", "-H", "/nowhere/at/all"}, 2, {"-H: /nowhere/at/all"}},
      {{"doctor", "--launcher", "mpi"}, 2, {"the number of workers is missing (-n)"}},
      {{"examine-host"}, 2, {"is started by dtrain doctor"}},
      {{"data", "sinth"}, 2, {"synth"}},
      {{"parse-log"}, 2, {"usage: dtrain parse-log FILE"}},
      {{"parse-log", "a", "b"}, 2, {"usage"}},
      {{"parse-log", "a", "--formt", "none"}, 2, {"did you mean '--format'?"}},
      {{"set-rate", "runs/a"}, 2, {"usage: dtrain set-rate RUN-DIRECTORY"}},
      {{"set-rate", "runs/a", "fast"}, 2, {"'fast' is not a learning rate above 0, as in 0.01, nor a factor"}},
      {{"set-rate", "/nowhere/at/all", "0.1"}, 2, {"no run is training in '/nowhere/at/all'"}},
      {{"parse-log", "/nowhere/at/all"}, 7, {"/nowhere/at/all"}},
      {{"bench", "train", "--network", "lennet"}, 2, {"lennet"}},
      {{"bench", "train", "--gpus", "0"}, 8, {"the CPU is measured"}},
      {{"bench", "train", "--gpus", "all"}, 8, {"leave out --gpus"}},
  };
  for (const Refusal& refusal : refusals) {
    const Ended ended = dtrain(refusal.arguments);
    INFO("dtrain" << joined(refusal.arguments) << "\n" << ended.output);
    CHECK_FALSE(ended.timed_out);
    CHECK(ended.code == refusal.code);
    for (const std::string& word : refusal.words) CHECK(ended.output.find(word) != std::string::npos);
  }
}

TEST_CASE("parse-log reads the workers' logs of a run directory", "[cmd]") {
  const test::TempDir dir;
  CHECK_THAT(dtrain({"parse-log", dir.path()}).output, Catch::Contains("no logs of workers"));
  REQUIRE(write_file_atomic(dir.path("worker-0.log"), "Node[0] Epoch[0] Train-accuracy=0.25"));
  REQUIRE(write_file_atomic(dir.path("worker-1.log"), "Node[1] Epoch[0] Train-accuracy=0.75\n"));
  REQUIRE(write_file_atomic(dir.path("server-0.log"), "Node[server 0] Epoch[0] Train-accuracy=1\n"));
  const Ended ended = dtrain({"parse-log", dir.path(), "--format", "none"});
  CHECK(ended.code == 0);
  CHECK_THAT(ended.output, Catch::Contains(" 1\t0.500000"));
}

TEST_CASE("report and plot write files and name them", "[cmd]") {
  const test::TempDir dir;
  REQUIRE(write_file_atomic(dir.path("old.log"),
                            "INFO:root:Epoch[0] Time cost=9.5\nINFO:root:Epoch[0] Validation-accuracy=0.25\n"));
  const auto run = [&](std::vector<std::string> arguments) { return dtrain(arguments, {}, dir.path()); };
  CHECK(run({"report", "old.log"}).output == "wrote report.html\n");
  CHECK_THAT(*read_file(dir.path("report.html")), Catch::StartsWith("<!DOCTYPE html>") && Catch::Contains("old.log"));
  CHECK(run({"plot", "old.log", "--x", "epoch"}).output == "wrote plot.png\n");
  CHECK_THAT(*read_file(dir.path("plot.png")), Catch::StartsWith("\x89PNG"));
  CHECK(run({"plot", "old.log", "--x", "time", "--metric", "epoch_s", "--out", "a.svg"}).code == 0);
  CHECK_THAT(*read_file(dir.path("a.svg")), Catch::StartsWith("<svg ") && Catch::Contains("time of an epoch"));
  const Ended unknown = run({"plot", "old.log", "--metric", "loss"});
  CHECK(unknown.code == 2);
  CHECK_THAT(unknown.output,
             Catch::Contains("no run has the metric 'loss'; the runs have: epoch_s, validation_accuracy"));
  const Ended no_directory = run({"report", "old.log", "--out", "none/a.html"});
  CHECK(no_directory.code != 0);
  CHECK_THAT(no_directory.output, Catch::Contains("none/a.html"));
}

// An error message with such a path was once lost when it was written to a file.
TEST_CASE("an error with a path that is not UTF-8 shows the path and keeps its exit code", "[cmd]") {
  const test::TempDir dir;
  for (const char* workers : {"1", "2"}) {
    const Ended ended =
        dtrain({"--network", "lenet", "-n", workers, "--data-dir", dir.path("caf\xe9")}, {}, dir.path());
    INFO(ended.output);
    CHECK(ended.code == 7);
    CHECK_THAT(ended.output, Catch::Contains("caf\\xe9: no such directory"));
  }
}

// Training refuses such a batch before it starts, and `dtrain bench train` does too.
TEST_CASE("a batch that does not fit into memory is refused at once", "[cmd]") {
  const std::vector<std::vector<std::string>> lines = {{"bench", "train"},
                                                       {"bench", "train", "--phase", "inference"},
                                                       {"--benchmark", "1"},
                                                       {"--benchmark", "1", "-n", "2"}};
  for (std::vector<std::string> arguments : lines) {
    arguments.insert(arguments.end(), {"--network", "resnet-50", "--batch-size", "1M", "--image-shape", "3,1024,1024"});
    const Ended ended = dtrain(arguments);
    INFO("dtrain" << joined(arguments) << "\n" << ended.output);
    CHECK(ended.code == 2);
    const bool is_bench = arguments.front() == "bench";
    CHECK_THAT(ended.output, Catch::Contains("network 'resnet-50' at --batch-size 1048576") &&
                                 Catch::Contains(is_bench ? "make the batch, the image or the network smaller"
                                                          : "the largest batch size that fits"));
  }
}

// OpenBLAS retries forever to map the buffer of a thread, and oneDNN crashes if an allocation of a step fails.
TEST_CASE("a run under an address space limit works or ends with an error", "[cmd]") {
  const test::TempDir dir;
  size_t refused = 0;
  for (const char* kib : {"700000", "900000", "1000000", "1180000", "1250000", "1300000", "1400000"}) {
    const std::string line = fmt::format(
        "ulimit -v {} && exec '{}' bench train --network mlp --threads 4 --batch-size 256 --num-warmup-batches 1 "
        "--num-batches 1",
        kib, DTRAIN_EXE);
    const Ended ended = test::run({"bash", "-c", line}, {.deadline_s = 30, .directory = dir.path(), .environment = {}});
    INFO(line << "\n" << ended.output);
    CHECK_FALSE(ended.timed_out);
    if (ended.code == 0) continue;
    CHECK_THAT(ended.output, Catch::Contains("not enough memory"));
    refused++;
  }
  CHECK(refused > 0);
}

TEST_CASE("a run under a limit of file sizes ends with an error that names the file and the limit", "[cmd]") {
  const test::TempDir dir;
  const std::string line =
      fmt::format("ulimit -f 1 && exec '{}' --network mlp --benchmark 1 --num-epochs 1 --run-dir run", DTRAIN_EXE);
  const Ended ended = test::run({"bash", "-c", line}, {.deadline_s = 30, .directory = dir.path(), .environment = {}});
  INFO(ended.output);
  CHECK(ended.code == 7);
  CHECK_THAT(ended.output, Catch::Contains("cannot write 'run/jobspec': write: File too large (ulimit -f limits"));
}

TEST_CASE("a note about more threads than cores is printed once", "[cmd]") {
  const auto notes = [](std::vector<std::string> arguments) {
    const std::string output = dtrain(std::move(arguments)).output, note = "note: --threads 1024: ";
    size_t count = 0;
    for (size_t at = output.find(note); at != std::string::npos; at = output.find(note, at + 1)) count++;
    return count;
  };
  const std::vector<std::string> job = {"--network", "lenet", "--benchmark", "1", "--dry-run", "--threads"};
  const auto job_with = [&](std::vector<std::string> more) {
    more.insert(more.begin(), job.begin(), job.end());
    return more;
  };
  CHECK(notes(job_with({"1024"})) == 1);
  CHECK(notes(job_with({"1"})) == 0);
  CHECK(notes(job_with({"1024", "-n", "2"})) == 1);
  CHECK(notes({"bench", "train", "--network", "lennet", "--threads", "1024"}) == 1);
}

TEST_CASE("help, version and a dry run print text and start no process", "[cmd]") {
  const test::TempDir dir;
  CHECK(dtrain({"--help"}).code == 0);
  CHECK(dtrain({"train", "--help"}).output.find("--kv-store NAME") != std::string::npos);
  CHECK(dtrain({"parse-log", "--help"}).output.find("--metric-names") != std::string::npos);
  CHECK(dtrain({"--version"}).output.find("dtrain 0.9.0-") == 0);

  const Ended dry =
      dtrain({"-n", "2", "-s", "1", "--network", "lenet", "--benchmark", "1", "--dry-run"}, {}, dir.path());
  INFO(dry.output);
  CHECK(dry.code == 0);
  for (const char* words :
       {"batch-size = 128\n", "kv-store = dist_sync\n", "num-classes = 10\n", "seed = auto\n", "scheduler", "server",
        "worker", "network: lenet, 10 classes, images 1,28,28: 431080 parameters in 8 arrays, 0 statistics in 0\n",
        "learning rate by epoch: 0.05; 100 epochs\n", "memory of a worker", "memory of 1 server: weights",
        "weights are updated on the servers\n"}) {
    INFO(words);
    CHECK(dry.output.find(words) != std::string::npos);
  }
  const Ended rates = dtrain(
      {"--network", "mlp", "--benchmark", "1", "--lr-factor", "0.5", "--num-epochs", "9", "--dry-run"}, {}, dir.path());
  CHECK(rates.output.find(
            "learning rate by epoch: 0.05, 0.025 from 1, 0.0125 from 2, 0.00625 from 3, ..., 0.000195313 from 8; "
            "9 epochs\n") != std::string::npos);
  const auto updates = [&](const std::vector<std::string>& flags) {
    std::vector<std::string> all = {"--network", "lenet", "--benchmark", "1", "--dry-run"};
    all.insert(all.end(), flags.begin(), flags.end());
    const std::string output = dtrain(all, {}, dir.path()).output;
    const size_t at = output.find("weights are updated");
    return at == std::string::npos ? output : output.substr(at);
  };
  CHECK(updates({}) == "weights are updated on cpu(0), in the host's memory\n");
  CHECK(updates({"--cpus", "2", "--kv-store", "nccl"}) ==
        "weights are updated on each of 2 devices, its part of the weights, in the host's memory\n");
  CHECK(updates({"--gpus", "1", "--kv-store", "nccl"}) == "weights are updated on gpu(1), in its own memory\n");
  CHECK(updates({"--gpus", "0,1", "--kv-store", "local"}) == "weights are updated on gpu(0), in its own memory\n");
  CHECK(updates({"--gpus", "0,1", "--kv-store", "nccl", "-n", "4", "-s", "0"}) ==
        "weights are updated on each of 2 devices, all of its weights, in its own memory\n");
  CHECK(updates({"--gpus", "0,1", "--kv-store", "allreduce", "-n", "4", "-s", "0"}) ==
        "weights are updated on each of 2 devices, all of its weights, in the host's memory\n");
  CHECK(dry.output.find("--dry-run") == std::string::npos);  // prints the commands that would run
  CHECK_FALSE(std::filesystem::exists(dir.path("runs")));
}

TEST_CASE("a dry run shows hosts, scheme, groups and shares", "[cmd]") {
  const test::TempDir dir;
  REQUIRE(write_file_atomic(dir.path("hosts"), "10.0.0.1 gpus=0,1\n10.0.0.2\n"));
  REQUIRE(write_file_atomic(dir.path("groups"), "10.0.0.2\n10.0.0.1\n"));
  REQUIRE(write_file_atomic(dir.path("data_sharding"), "0 0.3\n0.3 1\n"));
  const std::vector<std::string> job = {"-n",        "2",   "-s",          "2", "-H",       "hosts",
                                        "--network", "mlp", "--benchmark", "1", "--dry-run"};
  const auto dry_with = [&](std::vector<std::string> more) {
    more.insert(more.begin(), job.begin(), job.end());
    const Ended ended = dtrain(more, {}, dir.path());
    INFO(ended.output);
    CHECK(ended.code == 0);
    return ended.output;
  };
  using Catch::Matchers::Contains;
  const std::string gsp = dry_with({"--kv-store", "dist_gsync", "--data-allocator", "1", "--gsp-weight", "floor:0.1"});
  CHECK_THAT(gsp, Contains("1     worker     10.0.0.2"));
  CHECK_THAT(gsp, Contains("--role worker --rank 0 --run-dir") && Contains("--gpus 0,1"));
  CHECK_THAT(gsp, Contains("scheme: GSP") && Contains("weight floor:0.1, groups do not wait"));
  CHECK_THAT(gsp, Contains("group 0: workers 1 (10.0.0.2)\ngroup 1: workers 0 (10.0.0.1)\n"));
  CHECK_THAT(gsp, Contains("share of worker 0: 0 to 0.3 of the data\nshare of worker 1: 0.3 to 1 of the data\n"));
  const std::string ssp = dry_with({"--kv-store", "dist_ssync", "--staleness", "3", "--lr", "0.1"});
  CHECK_THAT(ssp, Contains("scheme: SSP, no worker is more than 3 steps ahead of the slowest"));
  CHECK_THAT(ssp, Contains("shares: each worker 1/2 of the records") && Contains("--lr 0.05 (lr/W)"));
  CHECK_THAT(dry_with({"--backup", "1"}), Contains("scheme: BSP, a round waits for all workers except the last 1"));
}

}  // namespace dtrain
