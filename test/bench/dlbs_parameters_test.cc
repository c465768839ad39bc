#include "bench/dlbs/parameters.h"

#include "support/catch.h"
#include "support/must.h"

using namespace dtrain;
using namespace dtrain::bench;
using Catch::Matchers::Contains;
using dtrain::test::must;

namespace {

std::optional<std::string> environment(const std::string& name) {
  if (name == "BENCH_ROOT") return "/bench";
  return std::nullopt;
}

Result<DlbsParameters> parameters(const std::string& config, const std::vector<std::string>& settings = {}) {
  std::vector<DlbsSetting> parsed;
  for (const std::string& setting : settings) {
    DT_TRY(DlbsSetting one, parse_dlbs_setting(setting));
    parsed.push_back(std::move(one));
  }
  return DlbsParameters::make(config, parsed, environment);
}

std::string config_with(const std::string& entries) {
  return R"({"parameters": {)" + entries + "}}";
}

}  // namespace

TEST_CASE("parameters of DLBS have its defaults, and those that follow from others", "[bench][dlbs]") {
  const DlbsParameters all = must(parameters(
      config_with(R"("exp.model": "resnet50", "exp.gpus": "0,1,2,3", "exp.num_nodes": 2, "exp.replica_batch": 128)")));
  CHECK(all.text("exp.phase") == "training");
  CHECK(all.integer("exp.num_batches") == 100);
  CHECK(all.integer("exp.num_local_gpus") == 4);
  CHECK(all.integer("exp.num_replicas") == 8);
  CHECK(all.text("exp.device_type") == "gpu");
  CHECK(all.integer("exp.effective_batch") == 1024);
  CHECK(all.text("exp.data") == "synthetic");
  CHECK(all.text("exp.id").size() == 32);
  CHECK(all.text("exp.log_file") == "mxnet_gpu_resnet50_1024_" + all.text("exp.id") + ".log");
  CHECK(all.is_given("exp.model"));
  CHECK_FALSE(all.is_given("exp.phase"));

  const DlbsParameters cpu = must(parameters("", {"exp.gpus=\"\"", "exp.num_nodes=3"}));
  CHECK(cpu.text("exp.device_type") == "cpu");
  CHECK(cpu.integer("exp.num_gpus") == 0);
  CHECK(cpu.integer("exp.effective_batch") == 48);
  CHECK(must(parameters("", {"exp.gpus=\"0:1,2:3\""})).integer("exp.num_local_replicas") == 2);
  CHECK(must(parameters("", {"exp.gpus=3"})).find("exp.gpus")->value == "3");
}

TEST_CASE("texts are expanded from parameters and the environment, from the inside out", "[bench][dlbs]") {
  const DlbsParameters all = must(
      parameters(config_with(R"("a": "b", "b.c": "deep", "n": 3, "yes": true, "half": 0.5, "list": ["x", 1, "${a}"],
                     "nested": "${${a}.c} ${n}", "twice": "${nested}/${BENCH_ROOT}", "shown": "${yes} ${half}",
                     "sum": "<$(${n} * 2)$|$(1 < ${n})$>", "exp.num_batches": "$(${n} * 10 if '${a}' == 'b' else 1)$",
                     "exp.log_file": "${BENCH_ROOT}/logs/rank_${mxnet.rank}.log", "plain": "a } $ { $x ) $")"),
                 {"mxnet.rank=1"}));
  CHECK(all.text("nested") == "deep 3");
  CHECK(all.text("twice") == "deep 3//bench");
  CHECK(all.text("shown") == "True 0.5");
  CHECK(all.text("list") == "x 1 b");
  CHECK(all.text("sum") == "<6|True>");
  CHECK(all.integer("exp.num_batches") == 30);
  CHECK(all.text("exp.log_file") == "/bench/logs/rank_1.log");
  CHECK(all.text("plain") == "a } $ { $x ) $");
}

TEST_CASE("what replaces a name is not expanded again", "[bench][dlbs]") {
  const job::Environment odd = [](const std::string& name) {
    return name == "ODD" ? std::optional<std::string>("${exp.model}") : std::nullopt;
  };
  CHECK(must(DlbsParameters::make(config_with(R"("x": "${ODD}")"), {}, odd)).text("x") == "${exp.model}");
}

TEST_CASE("the command line replaces the file, the last setting of a name wins", "[bench][dlbs]") {
  const std::string config = config_with(R"("exp.model": "vgg16", "exp.num_batches": 7, "copy": "${exp.model}")");
  const DlbsParameters all =
      must(parameters(config, {"exp.model=\"alexnet\"", "exp.model=resnet18", "exp.num_batches=5"}));
  CHECK(all.text("exp.model") == "resnet18");
  CHECK(all.text("copy") == "resnet18");
  CHECK(all.integer("exp.num_batches") == 5);
}

TEST_CASE("a setting's value is JSON or a plain word", "[bench][dlbs]") {
  CHECK(must(parse_dlbs_setting("a=1")).value == 1);
  CHECK(must(parse_dlbs_setting("a=\"1\"")).value == "1");
  CHECK(must(parse_dlbs_setting("a=true")).value == true);
  CHECK(must(parse_dlbs_setting("a=resnet50")).value == "resnet50");
  CHECK(must(parse_dlbs_setting("a=")).value == "");
  CHECK(must(parse_dlbs_setting("a=ib0:10.0.0.1:29500")).value == "ib0:10.0.0.1:29500");
  CHECK(must(parse_dlbs_setting("a=b=c")).value == "b=c");
  CHECK(must(parse_dlbs_setting("a=${exp.model}")).value == "${exp.model}");
  CHECK(must(parse_dlbs_setting("a=[\"x\", \"y\"]")).value == "x y");
  for (const char* bad : {"a", "=1", "a b=1", "a=[1", "a={\"x\": 1}", "a={", "a=\"x", "__a=1"}) {
    INFO(bad);
    CHECK_FALSE(parse_dlbs_setting(bad));
  }
}

TEST_CASE("an entry may have a type, which its value then has", "[bench][dlbs]") {
  const DlbsParameters all = must(parameters(config_with(
      R"("my.count": {"val": "$(2 * 3)$", "type": "int", "desc": ["a count"]}, "my.flag": {"val": "on", "type": "bool"},
         "exp.replica_batch": {"val": 8}, "free": "$(2 * 3)$")")));
  CHECK(all.integer("my.count") == 6);
  CHECK(all.boolean("my.flag"));
  CHECK(all.integer("exp.replica_batch") == 8);
  CHECK(all.find("free")->value == "6");
}

TEST_CASE("mistakes in parameters are named", "[bench][dlbs]") {
  const std::vector<std::pair<std::string, std::string>> cases = {
      {"{", "this is not JSON: there is an error in line 1"},
      {"{\"parameters\": {\n\"a\": 1,\n\"b\" 2}}", "there is an error in line 3"},
      {std::string(100, '['), "nested too deep"},
      {"[]", "must hold an object"},
      {"{}", "the section \"parameters\" is missing"},
      {R"({"parameters": []})", "must be an object"},
      {R"({"parameters": {}, "parametres": {}})", "no section \"parametres\""},
      {R"({"parameters": {}, "variables": {"exp.model": ["a"]}})", "defines several benchmarks"},
      {R"({"parameters": {}, "extensions": [{}]})", "defines several benchmarks"},
      {config_with(R"("a": {"value": 1})"), "a: an object needs \"val\""},
      {config_with(R"("a": {"val": 1, "type": "list"})"), "no type \"list\""},
      {config_with(R"("a": "${b}", "b": "${c}", "c": "${a}")"),
       "these parameters refer to each other in a circle: a -> b -> c -> a"},
      {config_with(R"("a": "${a}")"), "these parameters refer to each other in a circle: a -> a"},
      {config_with(R"("a": "${exp.modle}")"),
       "a: there is neither a parameter nor an environment variable "
       "'exp.modle', did you mean 'exp.model'?"},
      {config_with(R"("a": "${mxnet.rank}")"),
       "a: there is neither a parameter nor an environment variable 'mxnet.rank'"},
      {config_with(R"("a": "x${b")"), "a: 'x${b' lacks a closing brace"},
      {config_with(R"("a": "$(1 + 1")"), "a: '$(1 + 1' lacks )$"},
      {config_with(R"("a": "$(uuid.uuid4())$")"), "a: the expression $(uuid.uuid4())$ has no value: 'uuid'"},
      {config_with(R"("exp.num_batches": "many")"), "exp.num_batches: the value must be a whole number, not \"many\""},
      {config_with(R"("exp.num_batches": 1.5)"), "exp.num_batches: the value must be a whole number, not 1.5"},
      {config_with(R"("exp.model": true)"), "exp.model: the value must be a string in quotes, not true"},
      {config_with(R"("exp.docker": "maybe")"), "exp.docker: the value must be true or false"},
      {config_with(R"("exp.gpus": null)"), "exp.gpus: the value must be a string"},
      {config_with(R"("a b": 1)"), "'a b' cannot be the name of a parameter"},
  };
  for (const auto& [config, why] : cases) {
    INFO(config);
    const Result<DlbsParameters> all = parameters(config);
    REQUIRE_FALSE(all);
    CHECK(all.error().code == Code::kUsage);
    CHECK_THAT(all.error().message, Contains(why));
  }
}

// Each parameter doubles the one before it.
TEST_CASE("values that grow without bound are refused", "[bench][dlbs]") {
  std::string entries = R"("x0": "0123456789")";
  for (int i = 1; i < 40; i++) entries += fmt::format(R"(, "x{0}": "${{x{1}}}${{x{1}}}")", i, i - 1);
  CHECK_THAT(parameters(config_with(entries)).error().message, Contains("more than 1 MiB"));
  std::string chain = R"("y0": "1")";
  for (int i = 200; i > 0; i--) chain += fmt::format(R"(, "y{0}": "${{y{1}}}")", i, i - 1);
  CHECK_THAT(parameters(config_with(chain)).error().message, Contains("is longer than 100"));
  std::string braces;
  for (int i = 0; i < 10000; i++) braces += "${";
  CHECK_THAT(parameters(config_with("\"z\": \"" + braces + "\"")).error().message, Contains("nested too deep"));
}

TEST_CASE("names that look mistyped are reported, others are kept as they are", "[bench][dlbs]") {
  const DlbsParameters all =
      must(parameters(config_with(R"("exp.replica_bacth": 1, "project.owner": "me")"), {"mxnet.rank=0"}));
  CHECK(all.notes() == std::vector<std::string>{"exp.replica_bacth has no effect, did you mean exp.replica_batch?"});
  CHECK(all.text("project.owner") == "me");
}
