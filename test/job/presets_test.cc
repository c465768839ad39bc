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
    {"data-dir", "a folder of the author's machine, or the data set's"},
    {"data-train", "downloaded by the script"},
    {"data-val", "downloaded by the script"},
    {"train-dataset", "train.rec and val.rec are found in the data folder"},
    {"val-dataset", "train.rec and val.rec are found in the data folder"},
    {"log-dir", "a run has a directory of its own"},
    {"log-file", "relative to log-dir"},
    {"hostname", "dtrain asks the host"},
    {"list-dir", "the folder of a list that dtrain does not need"},
    {"data-nthreads", "dtrain divides the cores among the processes of a host"},
    {"savemodel", "dtrain saves every epoch, so that a job that was stopped can be resumed"},
    {"workspace", "dtrain plans its memory itself"},
    {"model-load-epoch", "only with --retrain"},
    {"staleness", "only dist_ssync has one"},
    {"dataset", "says where the author's machine has the data"},
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

TEST_CASE("a preset's paths are in the data folder, and flags go before a preset's values", "[job]") {
  const Result<Parsed> mnist = parse_flags({"--preset", "mnist"}, variables({}));
  REQUIRE(mnist);
  CHECK(mnist->flags.data.data_dir == "data/mnist");  // the default folder of the preset's data set
  const Flags cifar = parsed({"--preset", "mxnet-g-cifar10", "--lr", ".1", "--lr-factor", ".94"});
  CHECK(cifar.data.data_dir == "data/some");
  CHECK(cifar.data.mean_img == "data/some/mean.bin");
  CHECK(cifar.job.optimizer.lr == 0.1);
  CHECK(cifar.job.optimizer.lr_factor == 0.94);
  CHECK(cifar.job.optimizer.lr_factor_epoch == 1);
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

}  // namespace dtrain::job
