#include "job/resolve/data_set.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <filesystem>

namespace dtrain::job {

namespace {

const std::array<DataSet, 4>& all() {
  static const std::vector<double> kImageMean = {123.68, 116.779, 103.939};
  static const std::array<DataSet, 4> sets = {{
      {"mnist", 10, {1, 28, 28}, 60000, 10000, {0}, 1.0 / 255, 0.05},
      {"cifar10", 10, {3, 28, 28}, 50000, 10000, kImageMean, 1, 0.05},
      {"cifar100", 100, {3, 28, 28}, 50000, 10000, kImageMean, 1, 0.05},
      {"imagenet", 1000, {3, 224, 224}, 1281167, 50000, kImageMean, 1, 0.1},
  }};
  return sets;
}

// The depth in the name, such as 20 in "resnet-v1-20@mxnet-g"; 0 if the name has none.
int64_t depth_in_name(std::string_view network) {
  network = network.substr(0, network.find('@'));
  const std::string_view digits = network.substr(network.find_last_not_of("0123456789") + 1);
  const bool is_depth = digits.size() < network.size() && network[network.size() - digits.size() - 1] == '-';
  int64_t depth = 0;
  if (is_depth) std::from_chars(digits.data(), digits.data() + digits.size(), depth);
  return depth;
}

// Residual networks of all other depths have three stages, for CIFAR's images.
bool is_depth_for_large_images(int64_t depth) {
  constexpr std::array<int64_t, 7> kDepths = {18, 34, 50, 101, 152, 200, 269};
  return std::find(kDepths.begin(), kDepths.end(), depth) != kDepths.end();
}

// Names the current directory, because a relative path is often correct in another one.
std::string why_no_directory(const std::string& path) {
  std::error_code ignored;
  if (std::filesystem::exists(path, ignored)) return "this is a file; give the directory that holds it";
  if (std::filesystem::path(path).is_absolute()) return "no such directory";
  return fmt::format("no such directory in {}", std::filesystem::current_path(ignored).string());
}

}  // namespace

const DataSet* find_data_set(std::string_view name) {
  for (const DataSet& set : all()) {
    if (set.name == name) return &set;
  }
  return nullptr;
}

std::string_view data_set_of_network(std::string_view network, int64_t num_layers) {
  if (network == "mlp" || network.starts_with("lenet")) return "mnist";
  if (network == "3conv" || network == "small" || network.find("-28-small") != network.npos) return "cifar10";
  for (const std::string_view family : {"cross", "dfnmr", "resnet-zscore"}) {
    if (network.starts_with(family)) return "cifar10";  // for all depths and versions
  }
  const int64_t depth = num_layers > 0 ? num_layers : depth_in_name(network);
  return network.starts_with("resnet") && depth > 0 && !is_depth_for_large_images(depth) ? "cifar10" : "imagenet";
}

std::vector<int64_t> image_of_network(std::string_view network, int64_t num_layers) {
  if (network.starts_with("resnet-zscore")) return {3, 32, 32};
  return find_data_set(data_set_of_network(network, num_layers))->image_shape;
}

double default_learning_rate(std::string_view network, int64_t num_layers) {
  if (network.starts_with("resnet-zscore")) return 0.1;  // MXNet-G trains it by a script of its own
  return find_data_set(data_set_of_network(network, num_layers))->learning_rate;
}

Result<> apply_data_set(std::string_view name, JobFlags& flags) {
  const DataSet* set = find_data_set(name);
  NetworkFlags& network = flags.network;
  if (set == nullptr && (network.num_classes == 0 || network.image_shape.empty())) {
    return fail(Code::kUsage,
                "the data set was not recognized: name it with --data-type, or give --num-classes and --image-shape");
  }
  AugmentFlags& augment = flags.augment;
  const DataSet& defaults = set != nullptr ? *set : *find_data_set("imagenet");
  if (augment.data_type.empty()) augment.data_type = name;
  if (network.num_classes == 0) network.num_classes = defaults.classes;
  if (network.image_shape.empty()) network.image_shape = defaults.image_shape;
  if (augment.rgb_mean.empty()) augment.rgb_mean = defaults.rgb_mean;
  if (augment.rgb_std.empty()) augment.rgb_std = {1};
  if (!augment.scale) augment.scale = defaults.scale;
  return {};
}

Result<> apply_own_data_set(Flags& flags, RecognizeDataSet recognize) {
  const DataFlags& data = flags.data;
  std::string name = flags.job.augment.data_type;
  if (name.empty() && flags.job.augment.benchmark) {
    NetworkFlags& network = flags.job.network;
    name = data_set_of_network(network.network, network.num_layers);
    if (network.image_shape.empty()) network.image_shape = image_of_network(network.network, network.num_layers);
  } else if (name.empty() && !data.data_dir.empty()) {
    std::error_code ignored;
    if (!std::filesystem::is_directory(data.data_dir, ignored)) {
      return fail(Code::kNotFound, "--data-dir {}: {}", data.data_dir, why_no_directory(data.data_dir));
    }
    name = recognize(data.data_dir).value_or("");
    if (name.empty() && data.data_train.empty()) {
      return fail(Code::kNotFound,
                  "--data-dir {}: the directory has neither the idx files of MNIST nor train.rec with test.rec "
                  "(CIFAR-10, CIFAR-100) or val.rec (ImageNet). Name other files with --data-train and --data-val, or "
                  "pack a folder of images into PREFIX.rec with 'dtrain im2rec --recursive PREFIX {}'",
                  data.data_dir, data.data_dir);
    }
  }
  return apply_data_set(name, flags.job);
}

}  // namespace dtrain::job
