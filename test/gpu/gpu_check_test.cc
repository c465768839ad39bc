// Runs gpu_check over the emulator as a process: what it records, how it continues, how it ends. Also tests the script.
#include <fmt/format.h>
#include <sys/stat.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <map>
#include <nlohmann/json.hpp>
#include <sstream>

#include "base/file.h"
#include "support/catch.h"
#include "support/must.h"
#include "support/process.h"
#include "support/temp_dir.h"

using namespace dtrain;
using dtrain::test::Ended;
using dtrain::test::must;
using dtrain::test::TempDir;
using nlohmann::json;

namespace {

constexpr const char* kRelu = "float32: relu";  // also matches the case with odd sizes
const std::string kName = "gpu-emulated-device-0123456789ab";

struct Check {
  TempDir dir;

  [[nodiscard]] std::string path(const std::string& name = kName + ".json") const { return dir.path("a/" + name); }
  [[nodiscard]] Ended run(std::vector<std::string> words) const {
    words.insert(words.begin(), DTRAIN_GPU_CHECK);
    for (const char* directory : {"a", "b"}) words.insert(words.end(), {"--results", dir.path(directory)});
    words.insert(words.end(), {"--commit", "0123456789abcdef", "--driver", "1.2"});
    return test::run(words, {.deadline_s = 100, .directory = {}, .environment = {}});
  }
  [[nodiscard]] json report() const { return json::parse(must(read_file(path()))); }
  [[nodiscard]] json part(const std::string& stage, const std::string& name) const {
    const json all = report();
    for (const json& part : all.at("stages").at(stage).at("parts")) {
      if (part.at("name") == name) return part;
    }
    return {};
  }
  // Sets members of a part of the report.
  void change(const std::string& stage, const std::string& name, const json& members) const {
    json all = report();
    for (json& part : all["stages"][stage]["parts"]) {
      if (part["name"] == name) part.update(members);
    }
    must(write_file_atomic(path(), all.dump()));
  }
};

void write_program(const std::string& path, const std::string& text) {
  must(write_file_atomic(path, text));
  REQUIRE(::chmod(path.c_str(), 0755) == 0);
}

// Runs scripts/gpu-check with its files in `dir`.
Ended run_script(const TempDir& dir, std::vector<std::string> words, std::vector<std::string> environment) {
  words.insert(words.begin(), std::string(DTRAIN_SOURCES) + "/scripts/gpu-check");
  environment.insert(environment.end(),
                     {"DTRAIN_GPU_RESULTS=" + dir.path("results"), "DTRAIN_GPU_DIRECTORY=" + dir.path("work"), "OUT"});
  return test::run(words, {.deadline_s = 60, .directory = {}, .environment = environment});
}

// A directory for PATH whose nvidia-smi lists this many GPUs.
std::string path_with_gpus(const TempDir& dir, int gpus) {
  std::string lines;
  for (int gpu = 0; gpu < gpus; gpu++) lines += fmt::format("echo 'GPU {}: a GPU'\n", gpu);
  must(make_directories(dir.path("bin")));
  write_program(dir.path("bin/nvidia-smi"), "#!/bin/sh\n[ \"$1\" != -L ] || {\n" + lines + "}\n");
  return "PATH=" + dir.path("bin") + ":" + std::getenv("PATH");
}

// Runs several_gpus.py with another program than dtrain, or dtrain on emulated GPUs.
Ended run_several(const TempDir& dir, const std::string& program, std::vector<std::string> words) {
  words.insert(words.begin(), {"python3", std::string(DTRAIN_SOURCES) + "/test/gpu/several_gpus.py", "--program",
                               program, "--directory", dir.path("several"), "--small"});
  return test::run(words, {.deadline_s = 100,
                           .directory = dir.path(),
                           .environment = {"DTRAIN_EMULATED_GPUS=2", "XDG_RUNTIME_DIR=" + dir.path()}});
}

// The parts in the output, by name.
std::map<std::string, json> parts_in(const std::string& output) {
  std::map<std::string, json> parts;
  std::istringstream lines(output);
  for (std::string line; std::getline(lines, line);) {
    const json part = json::parse(line, nullptr, false);
    if (part.is_object()) parts[part["name"]] = part;
  }
  return parts;
}

// Behaves as dtrain does on two GPUs, except with some stores.
constexpr const char* kFakeDtrain = R"sh(#!/bin/sh
case "$*" in data*) mkdir data; exit;; esac
mkdir -p run
echo weights > run/mlp-0002.params
loss=1.5
case "$*" in
  *"--kv-store allreduce "*inject*) exit 0 ;;
  *inject*) echo 'worker 0: error [peer lost] worker 1 was lost'; exit 5 ;;
  *"--kv-store local "*) echo others > run/mlp-0002.params ;;
  *"--kv-store device "*) echo 'error: no device'; exit 8 ;;
  *"--kv-store nccl -n 2 "*) sleep 1000 ;;
  *"--kv-store allreduce "*) loss=9 ;;
  *"--kv-store dist_sync "*) setsid sleep 1000 & ;;
esac
echo "{\"epochs\": 2, \"validation_cross_entropy\": $loss, \"samples\": 9, \"samples_per_s\": 7, \"validation_accuracy\": 1}" > run/summary.json
)sh";

}  // namespace

TEST_CASE("gpu-check writes its results into every directory, and a table", "[gpu]") {
  const Check check;
  const Ended end = check.run({"ops", "--only", kRelu});
  INFO(end.output);
  REQUIRE(end.code == 0);
  const json report = check.report();
  CHECK(report["commit"] == "0123456789abcdef");
  CHECK(report["device"]["name"] == "emulated device");
  CHECK(report["device"]["driver"] == "1.2");
  const json part = check.part("ops", kRelu);
  CHECK(part["status"] == "passed");
  CHECK(part["error"].get<double>() <= part["tolerance"].get<double>());
  CHECK(must(read_file(check.dir.path("b/" + kName + ".json"))) == must(read_file(check.path())));
  const std::string table = must(read_file(check.path(kName + ".txt")));
  CHECK_THAT(table, Catch::Contains("ops: 2 of 2 passed") && Catch::Contains(kRelu));
  CHECK(check.run({"table"}).output == table);
}

TEST_CASE("gpu-check continues an interrupted run", "[gpu]") {
  const Check check;
  REQUIRE(check.run({"ops", "--only", kRelu}).code == 0);
  const std::string other = "float32: relu of odd sizes";
  check.change("ops", kRelu, {{"text", "kept"}});
  check.change("ops", other, {{"status", "running"}, {"begun", 1}});
  REQUIRE(check.run({"ops", "--only", kRelu}).code == 0);
  CHECK(check.part("ops", kRelu)["text"] == "kept");
  CHECK(check.part("ops", other)["status"] == "passed");

  SECTION("a part that crashed the program twice is not tried again") {
    check.change("ops", other, {{"status", "running"}, {"begun", 2}});
    CHECK(check.run({"ops", "--only", kRelu}).code == 1);
    CHECK(check.part("ops", other)["status"] == "failed");
  }
  SECTION("a stage can be repeated") {
    REQUIRE(check.run({"ops", "--only", kRelu, "--again"}).code == 0);
    CHECK(check.part("ops", kRelu).value("text", "") == "");
  }
  SECTION("from whichever directory has the report") {
    REQUIRE(std::rename(check.path().c_str(), check.dir.path("b/" + kName + ".json").c_str()) == 0);
    REQUIRE(check.run({"ops", "--only", kRelu}).code == 0);
    CHECK(check.part("ops", kRelu)["text"] == "kept");
  }
}

TEST_CASE("gpu-check sets aside an invalid or foreign report and begins a new one", "[gpu]") {
  const Check check;
  REQUIRE(check.run({"ops", "--only", kRelu}).code == 0);
  const std::string whole = must(read_file(check.path()));
  json other = json::parse(whole);
  other["device"]["cudnn"] = "9.0.0";
  for (const std::string& text : {std::string(), std::string("{"), std::string("[]"), std::string("{\"format\": 2}"),
                                  std::string("{\"format\": 1, \"stages\": {\"ops\": 3}}"), other.dump()}) {
    INFO(text);
    const Check anew;
    must(make_directories(anew.dir.path("a")));
    must(write_file_atomic(anew.path(), text));
    must(write_file_atomic(anew.path(kName + ".txt"), "table"));
    REQUIRE(anew.run({"table"}).code == 0);
    CHECK(anew.report()["stages"].empty());
    CHECK(anew.report()["device"]["cudnn"] == "none");
    size_t kept = 0;
    for (const auto& file : std::filesystem::directory_iterator(anew.dir.path("a"))) {
      const std::string name = file.path().filename();
      if (!name.starts_with(kName + ".until-")) continue;
      CHECK(must(read_file(file.path())) == (name.ends_with(".json") ? text : "table"));
      kept++;
    }
    CHECK(kept == 2);
  }
}

TEST_CASE("gpu-check runs a failed part once more with launches that block", "[gpu]") {
  const Check check;
  REQUIRE(check.run({"ops", "--only", kRelu}).code == 0);
  check.change("ops", kRelu, {{"status", "failed"}, {"text", "an illegal address"}});
  REQUIRE(check.run({"blocking", "ops", "--only", kRelu}).code == 0);
  CHECK(check.part("ops", kRelu)["status"] == "failed");
  CHECK(check.part("ops", kRelu)["blocking"]["status"] == "passed");
  CHECK_FALSE(check.part("ops", "float32: relu of odd sizes").contains("blocking"));
  CHECK_THAT(check.run({"table"}).output,
             Catch::Contains("an illegal address") && Catch::Contains("with CUDA_LAUNCH_BLOCKING=1: passed"));
}

TEST_CASE("gpu-check merges the reports of several machines", "[gpu]") {
  const Check here, there;
  const std::string other = "float32: relu of odd sizes";
  for (const Check* check : {&here, &there}) REQUIRE(check->run({"ops", "--only", kRelu}).code == 0);
  here.change("ops", kRelu, {{"status", "killed"}});
  there.change("ops", other, {{"date", "2100-01-01T00:00:00Z"}, {"text", "newer"}});
  const auto merge = [&] {
    return test::run({DTRAIN_GPU_CHECK, "merge", there.dir.path("a"), "--results", here.dir.path("a")},
                     {.deadline_s = 20, .directory = {}, .environment = {}});
  };
  const Ended end = merge();
  INFO(end.output);
  REQUIRE(end.code == 0);
  CHECK(here.part("ops", kRelu)["status"] == "passed");
  CHECK(here.part("ops", other)["text"] == "newer");
  CHECK_THAT(must(read_file(here.path(kName + ".txt"))), Catch::Contains("ops: 2 of 2 passed"));
  json foreign = there.report();
  foreign["device"]["driver"] = "2.0";
  must(write_file_atomic(there.path(), foreign.dump()));
  REQUIRE(merge().code == 0);
  CHECK(here.report()["device"]["driver"] == "1.2");
  CHECK(json::parse(must(read_file(here.path(kName + ".2.json"))))["device"]["driver"] == "2.0");
  CHECK(test::run({DTRAIN_GPU_CHECK, "merge", here.dir.path(), "--results", here.dir.path("a")},
                  {.deadline_s = 20, .directory = {}, .environment = {}})
            .code == 7);
}

TEST_CASE("gpu-check keeps to its limits", "[gpu]") {
  const Check check;
  SECTION("a part that does not end is recorded, and the process ends") {
    const Ended end = check.run({"nets", "--only", "inception-bn-28-small 28x28: 3 steps", "--part-seconds", "0.1"});
    CHECK(end.code == 9);
    const json part = check.part("nets", "inception-bn-28-small 28x28: 3 steps");
    CHECK(part["status"] == "killed");
    CHECK_THAT(part["text"].get<std::string>(), Catch::StartsWith("no end after 0.1 s"));
    CHECK_THAT(check.run({"table"}).output, Catch::Contains("1 killed"));
    // It would take as long again, so it is not repeated.
    CHECK_THAT(check.run({"held", "nets"}).output, Catch::Contains("3 steps"));
  }
  SECTION("a part that was killed from outside is recorded and started once more") {
    REQUIRE(check.run({"ops", "--only", kRelu}).code == 0);
    for (const int begun : {1, 2}) {
      check.change("ops", kRelu, {{"status", "running"}, {"begun", begun}});
      REQUIRE(check.run({"killed", "ops"}).code == 0);
      CHECK(check.part("ops", kRelu)["status"] == "killed");
      CHECK(check.run({"ops", "--only", kRelu}).code == (begun == 1 ? 0 : 1));
      CHECK(check.part("ops", kRelu)["status"] == (begun == 1 ? "passed" : "killed"));
    }
  }
  SECTION("parts that were not reached in time are listed") {
    CHECK(check.run({"ops", "--only", kRelu, "--seconds", "1e-9"}).code == 1);
    CHECK(check.report()["stages"]["ops"]["not_done"].size() == 2);
    CHECK_THAT(check.run({"table"}).output, Catch::Contains("not done: 2 parts, from 'float32: relu' on"));
  }
}

TEST_CASE("gpu-check records parts that other programs measured", "[gpu]") {
  const Check check;
  const std::string lines =
      R"({"name": "a", "status": "passed", "text": "7 images/s", "images_per_s": 7}
not a part
{"name": "b", "status": "missing", "text": "no PyTorch"}
{"name": "c", "status": "killed", "text": "its time was over"})";
  must(write_file_atomic(check.dir.path("lines"), lines));
  const std::string record = std::string(DTRAIN_GPU_CHECK) + " record peers --results " + check.dir.path("a") +
                             " --commit 0123456789abcdef --driver 1.2 < " + check.dir.path("lines");
  const Ended end = test::run({"sh", "-c", record});
  CHECK(end.code == 1);
  CHECK(end.output == "not a part\n");
  CHECK(check.part("peers", "a")["images_per_s"] == 7);
  CHECK(check.part("peers", "b")["status"] == "missing");
  CHECK(check.run({"held", "peers"}).output == "a\nb\n");
  CHECK(test::run({"sh", "-c", record}).code == 1);  // killed a second time
  CHECK(check.run({"held", "peers"}).output == "a\nb\nc\n");
}

TEST_CASE("gpu-check refuses unknown arguments", "[gpu]") {
  const Check check;
  for (const std::vector<std::string>& words : {std::vector<std::string>{},
                                                {"--results"},
                                                {"opps"},
                                                {"ops", "--only", "no such part"},
                                                {"ops", "--plan-seconds", "0"},
                                                {"ops", "--threads", "0"}}) {
    CHECK(check.run(words).code == 2);
  }
}

// The path of dtrain itself: its loader, its trainer, and the module that it loads, here the one over the emulator.
TEST_CASE("gpu-check quick loads and trains as dtrain does", "[gpu]") {
  const Check check;
  const Ended pixels = check.run({"quick", "--only", "pixels"});
  INFO(pixels.output);
  REQUIRE(pixels.code == 0);
  CHECK(check.part("quick", "a step from pixels, by the loaded module")["float16_error"].get<double>() > 0);
  REQUIRE(check.run({"quick", "--only", "convolution 1x1"}).code == 0);
  CHECK(check.part("quick", "convolution 1x1")["status"] == "passed");
}

TEST_CASE("gpu-check times the calls of a step", "[gpu]") {
  const Check check;
  const std::string name = "calls of a step: lenet float16 batch 8";
  REQUIRE(check.run({"quick", "--only", name}).code == 0);
  const json part = check.part("quick", name);
  double ms = 0;
  bool convolution = false;
  for (const json& call : part["calls"]) {
    ms += call["ms"].get<double>();
    convolution = convolution || (call["name"] == "convolution1" && call["bytes"] > 0);
  }
  CHECK(part["calls"].size() > 20);
  CHECK(convolution);
  CHECK(ms == Approx(part["ms"].get<double>()));
  CHECK_THAT(check.run({"table"}).output, Catch::Contains("GB/s") && Catch::Contains("convolution1"));
}

TEST_CASE("gpu-check traces steps, and reads how the device is used", "[gpu]") {
  const Check check;
  const Ended trace = check.run({"quick", "--only", "a trace of steps"});
  INFO(trace.output);
  REQUIRE(trace.code == 0);
  const json part = check.part("quick", "a trace of steps");
  CHECK(part["steps"] >= 3);
  CHECK(part["updates"] == part["steps"]);
  CHECK(part["operators"] > 20);
  REQUIRE(check.run({"quick", "--only", "use of the GPU"}).code == 0);
  CHECK(check.part("quick", "use of the GPU")["gpu_busy_share"] == 0.75);
}

TEST_CASE("gpu-check lists without a device what it would run", "[gpu]") {
  const Ended end = test::run({DTRAIN_GPU_CHECK, "plan"});
  CHECK(end.code == 0);
  CHECK_THAT(end.output, Catch::Contains("quick") && Catch::Contains("resnet-50 float16 batch 256"));
}

TEST_CASE("gpu-check compares networks with the reference", "[gpu]") {
  const Check check;
  const Ended end = check.run({"nets", "--only", "lenet", "--threads", "2"});
  INFO(end.output);
  REQUIRE(end.code == 0);
  CHECK(check.report()["stages"]["nets"]["parts"].size() == 5);
  CHECK(check.part("nets", "lenet 28x28: 3 steps")["float16_error"].get<double>() > 0);
}

TEST_CASE("scripts/gpu-check runs a stage and prints the report", "[gpu]") {
  const TempDir dir;
  const auto script = [&](const std::vector<std::string>& words, const std::string& program) {
    return run_script(dir, words, {"DTRAIN_GPU_CHECK" + (program.empty() ? "" : "=" + program)});
  };
  SECTION("as far as the time goes") {
    const Ended end = script({"--seconds", "3", "ops"}, DTRAIN_GPU_CHECK);
    CHECK(end.code == 1);
    CHECK_THAT(end.output, Catch::Contains("gpu-check on emulated device") && Catch::Contains("not done: ") &&
                               Catch::Contains("== report: " + dir.path()));
  }
  SECTION("quick, with what is installed and PyTorch too") {
    // Only one of its parts, because the others take too long on the host.
    const std::string program = dir.path("program");
    write_program(program, "#!/bin/sh\nexec " DTRAIN_GPU_CHECK " \"$@\" --only \"by the trainer\"\n");
    const Ended end = script({"quick"}, program);
    INFO(end.output);
    CHECK_THAT(end.output, Catch::Contains("== preflight") && Catch::Contains("passed  mlp by the trainer") &&
                               Catch::Contains("missing pytorch") && Catch::Contains("pytorch"));
  }
  SECTION("plan, without a device") {
    const Ended end = script({"plan"}, DTRAIN_GPU_CHECK);
    CHECK(end.code == 0);
    CHECK_THAT(end.output, Catch::Contains("expected") && Catch::Contains("compiled") && Catch::Contains("120 s"));
    // What `all` takes on a new host fits into its calls, and measuring plans fits into the time of quick.
    const std::string sums = end.output.substr(end.output.find("all: "));
    int all = 0, calls = 0, call = 0, measuring = 0, quick = 0;
    REQUIRE(std::sscanf(sums.c_str(), "all: %d s the first time, in %d calls of %d s; quick: %d s of its %d s", &all,
                        &calls, &call, &measuring, &quick) == 5);
    CHECK(all <= calls * call);
    constexpr int kCallMax_s = 600, kQuickOtherParts_s = 20;
    CHECK(call <= kCallMax_s);
    CHECK(measuring + kQuickOtherParts_s <= quick);
  }
  SECTION("without a GPU it says what to do") {
    if (std::ifstream("/dev/nvidiactl")) {
      std::cout << "skipped: there is a CUDA device\n";
      return;
    }
    const Ended end = script({"ops"}, "");
    CHECK(end.code == 8);
    CHECK_THAT(end.output, Catch::Contains("this host has no GPU") && Catch::Contains("scripts/gpu-check build"));
  }
  SECTION("an unknown stage") {
    CHECK(script({"opps"}, DTRAIN_GPU_CHECK).code == 2);
  }
}

TEST_CASE("gpu-check trains with dtrain itself on several GPUs, in every store", "[gpu]") {
  const TempDir dir;
  const Ended jobs = run_several(dir, DTRAIN_EMULATED_PROGRAM, {"--gpus", "2", "--only", "float32 2 workers"});
  INFO(jobs.output);
  CHECK(jobs.code == 0);
  const auto parts = parts_in(jobs.output);
  CHECK(parts.size() == 4);
  for (const auto& [name, part] : parts) CHECK(part["status"] == "passed");
  const Ended killed = run_several(dir, DTRAIN_EMULATED_PROGRAM, {"--gpus", "2", "--only", "killed worker nccl_all"});
  INFO(killed.output);
  CHECK(parts_in(killed.output).at("2 GPUs float32 a killed worker nccl_allreduce")["status"] == "passed");
}

TEST_CASE("gpu-check finds what is wrong with a run on several GPUs, and leaves no process behind", "[gpu]") {
  const TempDir dir;
  write_program(dir.path("dtrain"), kFakeDtrain);
  const Ended end = run_several(dir, dir.path("dtrain"), {"--gpus", "2", "--only", "float32", "--part-seconds", "2"});
  INFO(end.output);
  CHECK(end.code == 0);
  const auto parts = parts_in(end.output);
  const auto text_of = [&](const std::string& name) {
    const json& part = parts.at("2 GPUs float32 " + name);
    return part["status"].get<std::string>() + ": " + part["text"].get<std::string>();
  };
  CHECK(text_of("one process nccl") == "passed: 7 images/s");
  CHECK(text_of("one process device") == "failed: code 8: error: no device");
  CHECK(text_of("one process local") ==
        "failed: other weights than those of '2 GPUs float32 one process nccl', whose sums are the same");
  CHECK_THAT(text_of("2 workers nccl"), Catch::Contains("failed: did not end within 2 s"));
  CHECK(text_of("2 workers allreduce") ==
        "failed: the loss is 9.0000, but that of '2 GPUs float32 2 workers nccl_allreduce' is 1.5000");
  CHECK(text_of("2 workers dist_sync") == "failed: 1 processes were left after the end");
  CHECK(text_of("a killed worker nccl") == "passed: code 5, names worker 1");
  CHECK(text_of("a killed worker allreduce") == "failed: the job ended with code 0, although a worker was killed");
  CHECK(test::run({"sh", "-c", "grep -ls DTRAIN_SEVERAL_GPUS=" + dir.path() + " /proc/[0-9]*/environ"}).output.empty());
}

// With two GPUs every store is tried in every type; with more, also with all GPUs.
TEST_CASE("gpu-check tries every store in every type, with two GPUs and with all", "[gpu]") {
  const TempDir dir;
  write_program(dir.path("dtrain"), "#!/bin/sh\n[ \"$1\" != data ] || exec mkdir data\necho 'error: none'\nexit 1\n");
  for (const auto& [gpus, count] : {std::pair("2", 31U), std::pair("8", 62U)}) {
    const TempDir place;
    const Ended end = run_several(place, dir.path("dtrain"), {"--gpus", gpus});
    INFO(end.output);
    CHECK(parts_in(end.output).size() == count);
  }
}

TEST_CASE("scripts/gpu-check several needs two GPUs, and continues", "[gpu]") {
  const TempDir dir;
  write_program(dir.path("dtrain"), kFakeDtrain);
  const std::vector<std::string> environment = {"DTRAIN_GPU_CHECK=" DTRAIN_GPU_CHECK,
                                                "DTRAIN_GPU_DTRAIN=" + dir.path("dtrain")};
  const auto several = [&](int gpus, std::vector<std::string> words) {
    std::vector<std::string> all = environment;
    all.push_back(path_with_gpus(dir, gpus));
    return run_script(dir, std::move(words), all);
  };
  const Ended one = several(1, {"several"});
  INFO(one.output);
  CHECK(one.code == 0);
  CHECK_THAT(one.output, Catch::Contains("missing several GPUs") && Catch::Contains("skipped: one GPU"));
  const Ended two = several(2, {"--seconds", "8", "several"});
  INFO(two.output);
  CHECK(two.code == 1);
  CHECK_THAT(two.output, Catch::Contains("passed  2 GPUs float32 one process nccl") &&
                             Catch::Contains("failed  2 GPUs float32 one process device") &&
                             Catch::Contains("killed  2 GPUs float32 2 workers nccl "));
}

TEST_CASE("scripts/gpu-check keeps the plans that were measured, and takes those of earlier sessions", "[gpu]") {
  const TempDir dir;
  const auto file_of = [](const std::string& key, const json& ms) {
    return json{{"format", "dtrain cuDNN plans 2"}, {"plans", {{key, {"sum", "plan", ms}}}}}.dump();
  };
  const auto keys_of = [&](const std::string& path) {
    const std::string plain = dir.path("plain.json");
    static_cast<void>(std::remove(plain.c_str()));
    test::run({"python3", std::string(DTRAIN_SOURCES) + "/test/gpu/merge_plans.py", dir.path(path), plain});
    std::string keys;
    const json file = json::parse(must(read_file(plain)));
    for (const auto& [key, plan] : file["plans"].items()) keys += key + " ";
    return keys;
  };
  const auto script = [&](std::vector<std::string> words) {
    return run_script(dir, std::move(words), {"DTRAIN_GPU_CHECK=" DTRAIN_GPU_CHECK});
  };
  for (const char* directory : {"other", "work", "results"}) must(make_directories(dir.path(directory)));
  must(write_file_atomic(dir.path("measured.json"), file_of("measured", 0.25)));
  must(write_file_atomic(dir.path("chosen.json"), file_of("chosen", nullptr)));
  for (const char* from : {"measured.json", "chosen.json"}) {
    test::run({"python3", std::string(DTRAIN_SOURCES) + "/test/gpu/merge_plans.py", dir.path(from),
               dir.path("other/cudnn-plans.json.gz")});
  }
  const Ended merged = script({"merge", dir.path("other")});
  INFO(merged.output);
  CHECK(keys_of("results/cudnn-plans.json.gz") == "measured ");
  must(write_file_atomic(dir.path("work/plans.json.measured"), file_of("new", 0.5)));
  const Ended stage = script({"--seconds", "1", "ops"});
  INFO(stage.output);
  CHECK(keys_of("work/plans.json.measured") == "measured new ");
  CHECK(keys_of("results/cudnn-plans.json.gz") == "measured new ");
}
