// The presets have the values of the scripts that they stand for, flag by flag.
#include <map>
#include <regex>
#include <set>
#include <utility>

#include "base/file.h"
#include "base/json.h"
#include "job/flags/presets.h"
#include "job/flags/rows.h"
#include "job/parse.h"
#include "job/resolve/data_set.h"
#include "support/catch.h"

namespace dtrain::job {
namespace {

using Json = nlohmann::ordered_json;

// What differs on purpose, with the reason.
const std::map<std::string, std::string> kDifferent = {
    {"num-examples", "the scripts say 60000 for CIFAR-10; dtrain counts the records of the files"},
    {"kv-store", "dist_sync with -n, device without"},
    {"gpus", "dtrain takes the GPUs that there are"},
    {"data-dir", "a directory of the author's host, or the data set's"},
    {"data-train", "downloaded by the script"},
    {"data-val", "downloaded by the script"},
    {"train-dataset", "train.rec and val.rec are found in the data directory"},
    {"val-dataset", "train.rec and val.rec are found in the data directory"},
    {"log-dir", "a run has a directory of its own"},
    {"log-file", "relative to log-dir"},
    {"hostname", "dtrain asks the host"},
    {"list-dir", "the directory of a list that dtrain does not need"},
    {"data-nthreads", "dtrain divides the cores among the processes of a host"},
    {"savemodel", "dtrain saves every epoch, so that a job that was stopped can be resumed"},
    {"workspace", "dtrain plans its memory itself"},
    {"model-load-epoch", "only with --retrain"},
    {"staleness", "only dist_ssync has one"},
    {"dataset", "says where the author's host has the data"},
};

std::string text_of(const Json& value) {
  if (value.is_boolean()) return value.get<bool>() ? "1" : "0";
  return value.is_string() ? value.get<std::string>() : value.dump();
}

std::vector<std::string> with_flags(std::vector<std::string> words, const Json& flags) {
  for (const auto& [name, value] : flags.items()) {
    const bool in_data_sharding = name.starts_with("cluster") || name == "data-proportion";
    if (!kDifferent.contains(name) && !in_data_sharding) words.insert(words.end(), {"--" + name, text_of(value)});
  }
  return words;
}

// The text of every flag's value, for ImageNet unless the flags name a data set.
std::map<std::string, std::string> values(const std::vector<std::string>& words) {
  Flags flags = parsed(words);
  const std::string data_set = flags.job.augment.data_type.empty() ? "imagenet" : flags.job.augment.data_type;
  REQUIRE(apply_data_set(data_set, flags.job));
  NetworkFlags& network = flags.job.network;
  if (const int64_t layers = std::exchange(network.num_layers, 0); layers > 0) {
    const std::regex parts("^([a-z]+)(?:-[0-9]+)?(@.*)?$");
    network.network = std::regex_replace(network.network, parts, "$1-" + std::to_string(layers) + "$2");
  }
  std::vector<double>& deviation = flags.job.augment.rgb_std;
  if (deviation.size() == 1) deviation.resize(3, deviation[0]);
  std::map<std::string, std::string> values;
  for (const Row& row : training_flags().rows()) values[row.name] = row.bind.get(flags);
  return values;
}

Json scripts() {
  return parse_json<Json>(*read_file(std::string(DTRAIN_JOB_TEST_DIR) + "/../expected/scripts.json"));
}

}  // namespace

// The file has the default of every flag of the scripts, and what they fix in their code. To give all of these on the
// command line must change nothing.
TEST_CASE("presets have the values of their scripts, flag by flag", "[job]") {
  const Json all = scripts();
  REQUIRE(all.is_object());
  for (const auto& [preset, script] : all.items()) {
    const std::vector<std::string> alone = {"--preset", preset};
    const auto expected = values(with_flags(with_flags(alone, script["flags"]), script["fixed"]));
    const auto seen = values(alone);
    for (const auto& [flag, value] : expected) {
      INFO(script["script"].get<std::string>() << " and the preset " << preset << ": --" << flag);
      CHECK(seen.at(flag) == value);
    }
  }
}

TEST_CASE("a preset's paths are in the data directory, and flags go before a preset's values", "[job]") {
  const Result<Parsed> mnist = parse_flags({"--preset", "mnist"}, variables({}));
  REQUIRE(mnist);
  CHECK(mnist->flags.data.data_dir == "data/mnist");  // the default directory of the preset's data set
  const Flags cifar = parsed({"--preset", "mxnet-g-cifar10", "--lr", ".1", "--lr-factor", ".94"});
  CHECK(cifar.data.data_dir == "data/some");
  CHECK(cifar.data.mean_img == "data/some/mean.bin");
  CHECK(cifar.job.optimizer.lr == 0.1);
  CHECK(cifar.job.optimizer.lr_factor == 0.94);
  CHECK(cifar.job.optimizer.lr_factor_epoch == 1);
}

TEST_CASE("the last three checkpoints are kept, but all with a preset, as MXNet does", "[job]") {
  CHECK(parsed({}).loop.keep == 3);
  for (const Preset& preset : presets()) {
    INFO(preset.name);
    CHECK(parsed({"--preset", std::string(preset.name)}).loop.keep == 0);
  }
}

TEST_CASE("every preset but cifar100 stands for a script", "[job]") {
  std::set<std::string> names, known = {"cifar100"};  // MXNet 1.x has no script for CIFAR-100: the one of cifar10
  for (const Preset& preset : presets()) names.emplace(preset.name);
  const Json all = scripts();
  for (const auto& [preset, script] : all.items()) known.insert(preset);
  CHECK(names == known);
  auto ours = values({"--preset", "cifar100"});
  ours["preset"] = "cifar10";
  CHECK(values({"--preset", "cifar10", "--data-type", "cifar100"}) == ours);
}

// MXNet 0.7's and MXNet-G's programs have one rule for all networks; MXNet 1.x's fit.py chooses by the network, without
// which alexnet and vgg do not learn.
TEST_CASE("initial weights are those of the program that a network or a preset stands for", "[job]") {
  const std::string usual = "xavier(gaussian,in,2)", alexnet = "normal(0.01)", vgg = "xavier(uniform,avg,3)",
                    first = "xavier(uniform,in,2.34)";
  const auto rule = [](std::vector<std::string> words) { return parsed(std::move(words)).job.network.initializer; };
  for (const char* network : {"mlp", "lenet", "lenet-stn", "3conv", "cross", "googlenet", "inception-bn",
                              "inception-bn-28-small", "inception-bn-full", "inception-v3", "resnet", "resnet-50",
                              "resnet-v1-18", "resnet-v1.5-50", "resnet-zscore", "resnext-50", "resnet-28-small"}) {
    INFO(network);
    CHECK(rule({"--network", network}) == usual);
  }
  for (const char* network : {"alexnet", "alexnet@mxnet-g", "alexnet@v0.7"})
    CHECK(rule({"--network", network}) == alexnet);
  for (const char* network : {"vgg", "vgg-16", "vgg-11", "vgg-19@v0.7"}) CHECK(rule({"--network", network}) == vgg);
  CHECK(default_initializer("vgg:51f3d0c98e6b2a74") == usual);  // a file may be of any network
  CHECK(rule({"--network", "alexnet", "--initializer", "msra"}) == "msra");
  CHECK(rule({"--network", "vgg-16", "--initializer", "default"}) == vgg);
  const std::map<std::string, std::string> of_presets = {{"v0.7-mnist", first},
                                                         {"v0.7-cifar10", first},
                                                         {"v0.7-imagenet", first},
                                                         {"v0.7-cifar10-resnet", usual},
                                                         {"mxnet-g-mnist", first},
                                                         {"mxnet-g-cifar10", first},
                                                         {"mxnet-g-cifar100", first},
                                                         {"mxnet-g-imagenet", first},
                                                         {"mxnet-g-resnet-cifar10", usual},
                                                         {"mxnet-g-resnet-imagenet", usual}};
  for (const Preset& one : presets()) {
    const std::string preset(one.name);
    INFO(preset);
    if (preset == "fine-tune") continue;  // it has the model's network
    const auto found = of_presets.find(preset);
    CHECK(rule({"--preset", preset}) == (found == of_presets.end() ? usual : found->second));
    CHECK(rule({"--preset", preset, "--network", "alexnet"}) == (found == of_presets.end() ? alexnet : found->second));
    CHECK(rule({"--preset", preset, "--network", "vgg-16"}) == (found == of_presets.end() ? vgg : found->second));
  }
}

}  // namespace dtrain::job
