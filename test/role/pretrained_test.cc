#include "role/setup/pretrained.h"

#include <fstream>

#include "role/runs.h"
#include "role/setup/network.h"
#include "support/catch.h"

using namespace dtrain;
using namespace dtrain::role;
using dtrain::test::must;

namespace {

job::Flags flags_of(std::vector<std::string> arguments) {
  arguments.insert(arguments.begin(), {"--data-dir", "mnist", "--data-type", "mnist"});
  return must(job::parse_flags(arguments, [](const std::string&) { return std::nullopt; })).flags;
}

// A run of lenet with images of 20 x 20, and one checkpoint.
void leave_model(const std::string& directory) {
  test::leave_run(directory, test::lenet({"--image-shape", "1,20,20", "--bn-mom", "0.5"}), 7);
  std::ofstream(directory + "/lenet-symbol.json") << "{}";
}

}  // namespace

TEST_CASE("a pretrained model is a run directory, a prefix or a file", "[role]") {
  const test::InTempDir here;
  leave_model("a");
  const auto params = [](const std::vector<std::string>& arguments) {
    return pretrained_params(flags_of(arguments).loop);
  };
  CHECK(must(params({})).empty());
  CHECK(must(params({"--pretrained-model", "a"})) == "a/lenet-0007.params");
  CHECK(must(params({"--pretrained-model", "a/lenet"})) == "a/lenet-0007.params");
  CHECK(must(params({"--pretrained-model", "a/lenet", "--load-epoch", "7"})) == "a/lenet-0007.params");
  std::ofstream("a/lenet-best.params") << "weights";
  CHECK(must(params({"--pretrained-model", "a/lenet-best.params"})) == "a/lenet-best.params");
  CHECK_THAT(params({"--pretrained-model", "a/lenet", "--load-epoch", "8"}).error().message,
             Catch::Contains("there is no a/lenet-0008.params"));
  CHECK(params({"--pretrained-model", "b"}).error().code == Code::kNotFound);
  CHECK(params({"--pretrained-model", "a/other.params"}).error().code == Code::kNotFound);
  CHECK(params({"--pretrained-model", "mnist"}).error().code == Code::kNotFound);
  CHECK(params({"--pretrained-model", "a/lenet-0007.params", "--load-epoch", "7"}).error().code == Code::kUsage);
  std::ofstream("a/mlp-symbol.json") << "{}";
  CHECK_THAT(params({"--pretrained-model", "a"}).error().message, Catch::Contains("several models"));
}

TEST_CASE("a pretrained model brings its network, and flags win", "[role]") {
  const test::InTempDir here;
  leave_model("a");
  job::Flags flags = flags_of({"--pretrained-model", "a", "--num-classes", "3"});
  must(apply_pretrained(flags));
  CHECK(flags.job.network.network == "lenet");
  CHECK(flags.job.network.image_shape == std::vector<int64_t>{1, 20, 20});
  CHECK(flags.job.network.bn_momentum == 0.5);
  const Network network = must(build_network(flags.job));
  CHECK(network.shapes.heads[0].outputs == 3);
  CHECK(network.shapes.parameters.back().name == "fc_bias");

  flags = flags_of({"--pretrained-model", "a", "--network", "mlp"});
  must(apply_pretrained(flags));
  CHECK(flags.job.network.network == "mlp");
  flags = flags_of({"--pretrained-model", "a", "--image-shape", "1,28,28"});
  must(apply_pretrained(flags));
  CHECK(flags.job.network.image_shape == std::vector<int64_t>{1, 28, 28});
  // A model of MXNet has a symbol file and no JobSpec.
  std::filesystem::remove("a/jobspec");
  flags = flags_of({"--pretrained-model", "a"});
  must(apply_pretrained(flags));
  CHECK(flags.job.network.file == "a/lenet-symbol.json");
  CHECK_THAT(flags.job.network.network, Catch::StartsWith("lenet:"));
  std::filesystem::remove("a/lenet-symbol.json");
  flags = flags_of({"--pretrained-model", "a/lenet"});
  CHECK_THAT(apply_pretrained(flags).error().message, Catch::Contains("give --network"));
}

TEST_CASE("a hint tells if the pretrained model was trained on other numbers", "[role]") {
  const test::InTempDir here;
  leave_model("a");
  const auto hint = [](const std::vector<std::string>& arguments) {
    job::Flags flags = flags_of(arguments);
    must(apply_own_data_set(flags));
    return pixels_hint(flags);
  };
  CHECK(hint({}).empty());
  CHECK(hint({"--pretrained-model", "a"}).empty());
  CHECK_THAT(hint({"--pretrained-model", "a", "--scale", "1", "--rgb-mean", "3"}),
             Catch::Contains("was trained with --rgb-mean 0 --rgb-std 1 --scale 0.0039"));
  CHECK(hint({"--pretrained-model", "b", "--scale", "1"}).empty());
}

TEST_CASE("a pretrained model of a run with a mean image needs that image, or a mean", "[role]") {
  const test::InTempDir here;
  leave_model("a");
  job::JobSpec spec = must(job::read_job_spec("a"));
  spec.mean_image = true;
  must(write_file_atomic("a/jobspec", job::text(spec)));
  job::Flags flags = flags_of({"--pretrained-model", "a"});
  CHECK_THAT(apply_pretrained(flags).error().message,
             Catch::Contains("with a mean image") && Catch::Contains("--mean-img"));
  for (const std::vector<std::string>& more :
       {std::vector<std::string>{"--mean-img", "mean.bin"}, {"--rgb-mean", "0"}}) {
    std::vector<std::string> arguments = {"--pretrained-model", "a"};
    arguments.insert(arguments.end(), more.begin(), more.end());
    flags = flags_of(arguments);
    CHECK(apply_pretrained(flags));
  }
}

TEST_CASE("frozen layers and rates are rules of the network that every process builds", "[role]") {
  const Network network = must(build_network(
      flags_of({"--network", "mlp", "--num-classes", "10", "--image-shape", "1,28,28", "--lr-mult", "fc1=0,fc3=10"})
          .job));
  for (const graph::ParameterInfo& parameter : network.shapes.parameters) {
    const double rate = parameter.name.starts_with("fc1") ? 0 : parameter.name.starts_with("fc3") ? 10 : 1;
    CHECK(parameter.rule.learning_rate.value_or(1) == rate);
  }
}
