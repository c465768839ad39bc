// The run scripts: what each script would run, and that flags given to it override its own.
#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <map>
#include <set>

#include "base/file.h"
#include "support/catch.h"
#include "support/must.h"
#include "support/process.h"
#include "support/temp_dir.h"

namespace dtrain {

using Catch::Matchers::Contains;
using test::Ended;
using test::must;

namespace {

// Files that are not scripts, or do not run a job with fixed flags.
const std::set<std::string> kOthers = {"lib.sh", "run.sh", "kill.sh", "kill_hosts.sh", "pretrain.sh"};

constexpr int kPublishedRuns = 13;  // in configs/published

std::vector<std::string> run_scripts() {
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(DTRAIN_SCRIPTS)) {
    const std::string name = entry.path().filename().string();
    if (entry.path().extension() == ".sh" && !kOthers.contains(name)) names.push_back(name);
  }
  std::sort(names.begin(), names.end());
  return names;
}

bool runs_on_hosts(const std::string& script) {
  return script != "reproduce" && !script.starts_with("train_") && !script.ends_with("_mnist_lenet.sh");
}

// A directory to call scripts from. It has a host file of 40 hosts, and data_sharding files for 12 and for 10 workers.
class Directory {
 public:
  Directory() {
    std::string hosts;
    for (int i = 1; i <= 40; i++) hosts += fmt::format("10.0.0.{}\n", i);
    must(write_file_atomic(dir_.path("hosts"), hosts));
    for (const int workers : {10, 12}) {
      std::string shares;
      for (int i = 0; i < workers; i++) {
        shares += fmt::format("{:.9f} {:.9f}\n", double(i) / workers, double(i + 1) / workers);
      }
      must(write_file_atomic(dir_.path(fmt::format("data_sharding.{}", workers)), shares));
    }
  }
  [[nodiscard]] std::string path(const std::string& name) const { return dir_.path(name); }

  [[nodiscard]] Ended run(const std::string& script, std::vector<std::string> flags,
                          const std::string& program = DTRAIN_EXE) const {
    flags.insert(flags.begin(), std::string(DTRAIN_SCRIPTS) + "/" + script);
    return test::run(flags, {.deadline_s = 60,
                             .directory = dir_.path(),
                             .environment = {"DTRAIN=" + program, "DMLC_ROLE", "DMLC_NUM_WORKER", "DMLC_NUM_SERVER"}});
  }

  // The output of the script's dry run, with the files that it does not bring itself and an interface that every host
  // has.
  [[nodiscard]] std::string dry(const std::string& script, std::vector<std::string> flags = {},
                                const std::vector<std::string>& devices = {"--cpus", "1"}) const {
    flags.insert(flags.end(), devices.begin(), devices.end());
    flags.emplace_back("--dry-run");
    if (runs_on_hosts(script)) flags.insert(flags.end(), {"-i", "lo"});
    if (script.starts_with("gsp_")) flags.insert(flags.end(), {"--ungrouped", "own"});
    if (script == "gsp_cifar10_inception_small.sh") flags.push_back(sharding_of(12));
    if (script == "gsp_cifar10_inception_small_withPretrain.sh") flags.push_back(sharding_of(10));
    const Ended ended = run(script, flags);
    INFO(script << "\n" << ended.output);
    REQUIRE(ended.code == 0);
    return ended.output;
  }

 private:
  static std::string sharding_of(int workers) { return fmt::format("--data-sharding-file=data_sharding.{}", workers); }
  test::TempDir dir_;
};

// The rest of the first line that starts with `beginning`.
std::string line_after(const std::string& text, const std::string& beginning) {
  const size_t at = ("\n" + text).find("\n" + beginning);
  INFO(beginning << " in\n" << text);
  REQUIRE(at != std::string::npos);
  return text.substr(at + beginning.size(), text.find('\n', at) - at - beginning.size());
}

// The JobSpec that a dry run prints.
std::map<std::string, std::string> job_spec(const std::string& output) {
  std::map<std::string, std::string> spec;
  for (size_t begin = 0; begin < output.size();) {
    const size_t end = std::min(output.find('\n', begin), output.size());
    const std::string line = output.substr(begin, end - begin);
    const size_t equals = line.find(" = ");
    if (equals != std::string::npos && line.find(' ') == equals) spec[line.substr(0, equals)] = line.substr(equals + 3);
    begin = end + 1;
  }
  return spec;
}

// What a dry run says about the job, of which it lists the flags that are not as in `plain`.
std::string golden_lines(const std::string& output, const std::map<std::string, std::string>& plain) {
  constexpr size_t kWidth = 120;
  std::string flags = " ";
  size_t line = 0;
  for (const auto& [flag, value] : job_spec(output)) {
    const auto other = plain.find(flag);
    if (other != plain.end() && other->second == value) continue;
    const std::string words = fmt::format(" --{} {}", flag, value);
    if (flags.size() - line + words.size() > kWidth) {
      flags += "\n ";
      line = flags.size() - 1;
    }
    flags += words;
  }
  return fmt::format("{}\n  {}\n  {}\n", flags, line_after(output, "network: "),
                     line_after(output, "learning rate by epoch: "));
}

// One of the flags that the script gives, with another value.
std::vector<std::string> other_value(const std::string& script, size_t choice) {
  const std::string text = must(read_file(std::string(DTRAIN_SCRIPTS) + "/" + script));
  const std::map<std::string, std::string> values = {
      {"--batch-size", "7"}, {"--lr", "0.3"}, {"--lr-factor", "0.5"}, {"--num-epochs", "4"}};
  std::vector<std::vector<std::string>> own;
  for (const auto& [flag, value] : values) {
    if (text.find(" " + flag + " ") != std::string::npos) own.push_back({flag, value});
  }
  if (text.find("run_mnist_lenet") != std::string::npos) own.push_back({"--batch-size", "7"});
  if (own.empty()) return {"--preset", script == "train_cifar10.sh" ? "cifar100" : "cifar10"};
  return own[choice % own.size()];
}

}  // namespace

// The expected table is scripts.txt; DTRAIN_REWRITE_GOLDEN=1 writes it again, and the change is then read as a diff.
// Each script is also run with one of its own flags given again, a GPU, and fewer epochs, under other names of these
// flags.
TEST_CASE("each script runs the job that it documents, and flags given to it override its own", "[scripts]") {
  const Directory directory;
  const auto plain =
      job_spec(directory.run("train_mnist.sh", {"--preset", "none", "--benchmark", "1", "--dry-run"}).output);
  REQUIRE(plain.size() > 50);
  std::string table;
  const std::vector<std::string> scripts = run_scripts();
  for (size_t i = 0; i < scripts.size(); i++) {
    const std::string own = directory.dry(scripts[i]);
    table += scripts[i] + "\n" + golden_lines(own, plain);
    const std::vector<std::string> again = other_value(scripts[i], i);
    const std::string changed = directory.dry(scripts[i], {again[0], again[1], "--num-epoch", "3"}, {"--gpu", "0"});
    table +=
        fmt::format(" with {} {} --num-epoch 3 --gpu 0\n", again[0], again[1]) + golden_lines(changed, job_spec(own));
    CHECK_THAT(changed, Contains(" --gpu 0") || Contains(" gpu(0)"));
  }
  for (int row = 1; row <= kPublishedRuns; row++) {
    table +=
        fmt::format("reproduce {}\n", row) + golden_lines(directory.dry("reproduce", {std::to_string(row)}), plain);
  }
  const std::string path = std::string(DTRAIN_CMD_TEST_DIR) + "/scripts.txt";
  if (std::getenv("DTRAIN_REWRITE_GOLDEN") != nullptr) REQUIRE(write_file_atomic(path, table));
  CHECK(table == must(read_file(path)));
}

// docs/arithmetic.md, "Networks", lists them.
TEST_CASE("the scripts' networks have the published numbers of parameters", "[scripts]") {
  const std::string table = must(read_file(std::string(DTRAIN_CMD_TEST_DIR) + "/scripts.txt"));
  const std::vector<std::pair<std::string, int64_t>> published = {
      {"inception-bn-28-small, 10 classes, images 3,28,28", 1652826},
      {"inception-bn-28-small, 100 classes, images 3,28,28", 1683156},
      {"3conv, 10 classes, images 3,28,28", 96682},
      {"resnet@mxnet-g with 20 layers, 10 classes, images 3,32,32", 272544},
      {"resnet@mxnet-g with 164 layers, 10 classes, images 3,32,32", 1703264},
      {"cross, 100 classes, images 3,28,28", 892084},
      {"inception-bn@mxnet-g, 1000 classes, images 3,224,224", 11295240},
      {"resnet-50@mxnet-g with 34 layers, 1000 classes, images 3,224,224", 21800110},
      {"resnet-50@mxnet-g with 50 layers, 1000 classes, images 3,224,224", 25549486},
      {"inception-bn-28-small@v0.7, 10 classes, images 3,28,28", 1652826},
      {"inception-bn@v0.7, 1000 classes, images 3,224,224", 11295240},
      {"lenet, 10 classes, images 1,28,28", 431080},
      {"mlp, 10 classes, images 1,28,28", 109386},
      {"resnet-110, 10 classes, images 3,28,28", 1730784},
      {"resnet-110, 100 classes, images 3,28,28", 1730784 + 90 * 65},  // 90 more classes, each 64 weights and a bias
      {"resnet-50, 1000 classes, images 3,224,224", 25549486},
  };
  size_t lines = 0;
  for (const auto& [network, parameters] : published) {
    const std::string line = fmt::format("  {}: {} parameters in ", network, parameters);
    INFO(line);
    CHECK_THAT(table, Contains(line));
    for (size_t at = table.find(line); at != std::string::npos; at = table.find(line, at + 1)) lines++;
  }
  // No script has a network outside the list. Each of them has two entries.
  CHECK(lines == 2 * run_scripts().size() + kPublishedRuns);
}

TEST_CASE("the learning rates of the first script are 0.1, 0.094 and 0.08836", "[scripts]") {
  const std::string output = Directory().dry("gsp_cifar10_inception_small.sh", {"--num-epochs", "3"});
  CHECK(line_after(output, "learning rate by epoch: ") == "0.1, 0.094 from 1, 0.08836 from 2; 3 epochs");
  CHECK_THAT(output, Contains("1     worker     10.0.0.14"));  // comes after the 12 servers
  CHECK_THAT(output, Contains("-i eth1") && Contains("share of worker 11: 0.916666667 to 1"));
}

TEST_CASE("flags given to a script override its own, and a local job ignores its hosts", "[scripts]") {
  const Directory directory;
  REQUIRE(std::filesystem::remove(directory.path("hosts")));
  const std::string one = directory.dry("bsp_cifar10_3conv.sh", {"--launcher", "local", "-n", "2", "--batch-size=7"});
  CHECK(line_after(one, "batch-size = ") == "7");
  CHECK(line_after(one, "num-workers = ") == "2");
  CHECK(line_after(one, "num-servers = ") == "1");
  CHECK_THAT(one, !Contains("-H hosts") && !Contains("ib0"));
  const std::string rate = directory.dry("asp_mnist_lenet.sh", {"-n5"});
  CHECK(line_after(rate, "learning rate by epoch: ") == "0.01, 0.001 from 8; 10 epochs");
  const std::string companion = directory.dry("bsp_mnist_lenet.sh", {"--lr-factor-epoch", "4"});
  CHECK(line_after(companion, "learning rate by epoch: ") == "0.05, 0.005 from 4, 0.0005 from 8; 10 epochs");
}

// A user may try a script on another host before taking it to the cluster.
TEST_CASE("a dry run in an empty directory lists the missing files and continues", "[scripts]") {
  const test::TempDir empty;
  const auto dry = [&](const std::string& script, std::vector<std::string> flags = {}) {
    flags.insert(flags.begin(), std::string(DTRAIN_SCRIPTS) + "/" + script);
    flags.insert(flags.end(), {"--cpus", "1", "--dry-run"});
    const Ended ended = test::run(flags, {.deadline_s = 60,
                                          .directory = empty.path(),
                                          .environment = {std::string("DTRAIN=") + DTRAIN_EXE, "DMLC_ROLE"}});
    INFO(script << "\n" << ended.output);
    REQUIRE(ended.code == 0);
    return ended.output;
  };
  for (const char* script : {"gsp_cifar10_inception_small.sh", "gsp_cifar10_inception_small_withPretrain.sh"}) {
    const std::string output = dry(script);
    INFO(output);
    CHECK_THAT(output, Contains("missing on this host: the host file 'hosts'") &&
                           Contains("missing on this host: the scheduler's address"));
    CHECK_THAT(output, Contains("groups: no such file") && Contains("data_sharding: no such file"));
    CHECK_THAT(output, Contains("0     server     HOST  ") && Contains("network: inception-bn-28-small"));
  }
  CHECK_THAT(dry("pretrain.sh"),
             Contains("missing on this host: the host file 'hosts'") && Contains("0     worker     HOST  "));
  CHECK_THAT(dry("bsp_cifar10_3conv.sh", {"-H", "elsewhere"}), Contains("the host file 'elsewhere'"));
  REQUIRE(write_file_atomic(empty.path("hosts"), "10.0.0.1\n"));
  CHECK_THAT(dry("bsp_cifar10_3conv.sh"), !Contains("the host file") && Contains("no interface 'ib0'"));
  CHECK_THAT(dry("bsp_mnist_lenet.sh"), !Contains("missing here"));
  CHECK(std::distance(std::filesystem::directory_iterator(empty.path()), {}) == 1);
}

// The number of workers is that of the plan's files.
TEST_CASE("gsp_mnist_lenet.sh uses the number of workers of the written plan", "[scripts]") {
  const Directory directory;
  const std::string three[] = {"#0 #2\n#1\n", "# shares\n0 0.3\n0.3 0.5\n\n0.5 1\n"};
  REQUIRE(write_file_atomic(directory.path("groups"), three[0]));
  REQUIRE(write_file_atomic(directory.path("data_sharding"), three[1]));
  const std::string output = directory.dry("gsp_mnist_lenet.sh");
  CHECK(line_after(output, "num-workers = ") == "3");
  CHECK_THAT(output, Contains("workers: 3, as in the file data_sharding") && Contains("group 1: workers 1"));
  const Ended two = directory.run("gsp_mnist_lenet.sh", {"-n", "2", "--cpus", "1", "--dry-run"});
  CHECK(two.code == 2);
  CHECK_THAT(two.output, Contains("there is no worker #2: the job has 2") && Contains("`dtrain plan`"));
}

TEST_CASE("the first line shows the devices, and requested GPUs must exist", "[scripts]") {
  const Directory directory;
  const Ended chosen = directory.run("train_mnist.sh", {"--dry-run"});
  INFO(chosen.output);
  CHECK(chosen.code == 0);
  CHECK(chosen.output.starts_with("devices: "));
  CHECK(directory.dry("train_mnist.sh").starts_with("devices: as given\n"));
  const Ended absent = directory.run("bsp_mnist_lenet.sh", {"--gpus", "99", "--benchmark", "1", "--num-batches", "1"});
  INFO(absent.output);
  CHECK(absent.code == 8);
  CHECK_THAT(absent.output, Contains("leave out --gpus"));
}

TEST_CASE("a script without its host file or its program says what to do", "[scripts]") {
  const Directory directory;
  REQUIRE(std::filesystem::remove(directory.path("hosts")));
  const Ended hosts = directory.run("bsp_cifar10_3conv.sh", {});
  INFO(hosts.output);
  CHECK(hosts.code == 2);
  CHECK_THAT(hosts.output, Contains("hosts: no such file") && Contains("one per line") && Contains("--launcher local"));
  const Ended program = directory.run("bsp_mnist_lenet.sh", {}, "/nowhere/dtrain");
  CHECK(program.code == 7);
  CHECK_THAT(program.output, Contains("/nowhere/dtrain does not exist") && Contains("scripts/quickstart"));
}

TEST_CASE("the error for a published run without its data or GPU says what is missing", "[scripts]") {
  const Directory directory;
  const Ended list = directory.run("reproduce", {});
  CHECK(list.code == 0);
  CHECK_THAT(list.output, Contains("| 13 ") && Contains("10 hosts, 40 GPUs") && Contains("| no "));
  const Ended data = directory.run("reproduce", {"9", "--cpus", "1"});
  INFO(data.output);
  CHECK(data.code == 7);
  CHECK_THAT(data.output, Contains("data/imagenet/train.rec does not exist") && Contains("image-net.org") &&
                              Contains("dtrain im2rec") && Contains("--data-dir DIR") && !Contains("GPU that"));
  const Ended row = directory.run("reproduce", {"14"});
  CHECK(row.code == 2);
  CHECK_THAT(row.output, Contains("no row '14'"));
}

TEST_CASE("the results of a finished run are printed next to the published figures", "[scripts]") {
  const Directory directory;
  REQUIRE(make_directories(directory.path("runs/published-1")));
  const auto write = [&](const char* name, const std::string& text) {
    must(write_file_atomic(directory.path(std::string("runs/published-1/") + name), text));
  };
  write("summary.json",
        "{\"network\": \"inception-bn-28-small@v0.7\", \"store\": \"local\", \"workers\": 1, \"servers\": 0,"
        " \"devices\": [\"cpu(0)\"], \"epochs\": 10, \"validation_accuracy\": 0.8}");
  write("jobspec", "batch-size = 256\nlr = 0.1\nlr-factor = 0.94\n");
  write("worker-0.log",
        "Node[0] Epoch[9] Train-accuracy=0.900000\nNode[0] Epoch[9] Time cost=12.500\n"
        "Node[0] Epoch[9] Validation-accuracy=0.800000\n");
  CHECK_THAT(directory.run("reproduce", {}).output, Contains("10 epochs, validation 0.8000"));
  const Ended beside = directory.run("reproduce", {"1"});
  INFO(beside.output);
  CHECK(beside.code == 0);
  CHECK_THAT(beside.output, Contains("theirs (cifar10/incept_2)") && Contains("dual Xeon E5-2680 v2, dual GTX 980") &&
                                Contains("instruction set") && Contains("1 x cpu(0)"));
  CHECK_THAT(beside.output, Contains("| 10    | 0.904931      | 0.900000 | 0.867488      | 0.800000 |"));
  CHECK_THAT(beside.output, Contains("| 20    | 0.953142      |          | 0.873598      |"));
  const Ended again = directory.run("reproduce", {"1", "--cpus", "1"});
  CHECK(again.code == 2);
  CHECK_THAT(again.output, Contains("--resume runs/published-1"));
}

}  // namespace dtrain
