// Runs gpu_check over the emulator as a process: what it records, how it continues, how it ends. Also tests the script.
#include <sys/stat.h>

#include <filesystem>
#include <fstream>
#include <iostream>
#include <nlohmann/json.hpp>

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
  const auto script = [&](std::vector<std::string> words, const std::string& program) {
    words.insert(words.begin(), std::string(DTRAIN_SOURCES) + "/scripts/gpu-check");
    return test::run(words, {.deadline_s = 60,
                             .directory = {},
                             .environment = {"DTRAIN_GPU_CHECK" + (program.empty() ? "" : "=" + program),
                                             "DTRAIN_GPU_RESULTS=" + dir.path(), "OUT"}});
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
    must(write_file_atomic(program, "#!/bin/sh\nexec " DTRAIN_GPU_CHECK " \"$@\" --only \"by the trainer\"\n"));
    REQUIRE(::chmod(program.c_str(), 0755) == 0);
    const Ended end = script({"quick"}, program);
    INFO(end.output);
    CHECK_THAT(end.output, Catch::Contains("== preflight") && Catch::Contains("passed  mlp by the trainer") &&
                               Catch::Contains("missing pytorch") && Catch::Contains("pytorch"));
  }
  SECTION("plan, without a device") {
    const Ended end = script({"plan"}, DTRAIN_GPU_CHECK);
    CHECK(end.code == 0);
    CHECK_THAT(end.output, Catch::Contains("expected") && Catch::Contains("compiled") && Catch::Contains("120 s"));
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
