#include "job/resolve/data_set.h"

#include <fmt/ranges.h>
#include <algorithm>
#include <array>
#include <charconv>
#include <filesystem>

#include "base/missing_data.h"
#include "job/flags/flags.h"
#include "job/resolve/network_file.h"

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

// Residual networks with these depths are for ImageNet's images. Those of all other depths have three stages and are
// for CIFAR's images.
bool is_depth_for_large_images(int64_t depth) {
  constexpr std::array<int64_t, 7> kDepths = {18, 34, 50, 101, 152, 200, 269};
  return std::find(kDepths.begin(), kDepths.end(), depth) != kDepths.end();
}

// The initializer of most networks. alexnet and vgg have others: without batch norm they do not learn from these
// weights.
constexpr const char* kUsualInitializer = "xavier(gaussian,in,2)";

// Explains why the path is not a directory. For a relative path, names the current directory, because the path is often
// correct in another one.
std::string why_no_directory(const std::string& path) {
  std::error_code ignored;
  if (std::filesystem::exists(path, ignored)) return "this is a file; give the directory that contains it";
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
  if (is_name_of_file(network)) return "imagenet";  // the name of a network from a file says nothing about its images
  if (network == "mlp" || network.starts_with("lenet")) return "mnist";
  if (network == "3conv" || network == "small" || network.find("-28-small") != network.npos) return "cifar10";
  for (const std::string_view family : {"cross", "dfnmr", "resnet-zscore"}) {
    if (network.starts_with(family)) return "cifar10";  // all depths and versions of the family are for CIFAR
  }
  const int64_t depth = num_layers > 0 ? num_layers : depth_in_name(network);
  const bool residual = network.starts_with("resnet") || network.starts_with("resnext");
  return residual && depth > 0 && !is_depth_for_large_images(depth) ? "cifar10" : "imagenet";
}

std::vector<int64_t> image_of_network(std::string_view network, int64_t num_layers) {
  if (network.starts_with("resnet-zscore")) return {3, 32, 32};
  if (network.starts_with("inception-v3")) return {3, 299, 299};
  return find_data_set(data_set_of_network(network, num_layers))->image_shape;
}

double default_learning_rate(std::string_view network, int64_t num_layers) {
  if (network.starts_with("resnet-zscore")) return 0.1;  // MXNet-G has a separate script for this network
  return find_data_set(data_set_of_network(network, num_layers))->learning_rate;
}

std::string default_initializer(std::string_view network) {
  if (is_name_of_file(network)) return kUsualInitializer;
  if (network.starts_with("alexnet")) return "normal(0.01)";
  return network.find("vgg") != network.npos ? "xavier(uniform,avg,3)" : kUsualInitializer;
}

Result<> apply_data_set(std::string_view name, JobFlags& flags) {
  const DataSet* set = find_data_set(name);
  NetworkFlags& network = flags.network;
  if (set == nullptr && (network.num_classes == 0 || network.image_shape.empty())) {
    return fail(Code::kUsage,
                "the data set was not recognized: name it with --data-type, or give --num-classes and --image-shape");
  }
  AugmentFlags& augment = flags.augment;
  // Other idx files are scaled like MNIST's, and other images like ImageNet's.
  const DataSet& defaults = set != nullptr ? *set : *find_data_set(name == "idx" ? "mnist" : "imagenet");
  if (augment.data_type.empty()) augment.data_type = name;
  if (network.num_classes == 0) network.num_classes = defaults.classes;
  if (network.image_shape.empty()) network.image_shape = defaults.image_shape;
  if (augment.rgb_mean.empty()) augment.rgb_mean = defaults.rgb_mean;
  if (augment.rgb_std.empty()) augment.rgb_std = {1};
  if (!augment.scale) augment.scale = defaults.scale;
  return {};
}

namespace {

std::string usual_image_text(const NetworkFlags& network) {
  if (is_name_of_file(network.network)) return "the network's file does not state it";
  return fmt::format("{} was made for {}", network.network,
                     fmt::join(image_of_network(network.network, network.num_layers), ","));
}

// Sets what the flags leave open to what was found in the files.
Result<> apply_found(const FoundData& found, JobFlags& flags) {
  NetworkFlags& network = flags.network;
  if (network.num_classes == 0) network.num_classes = found.classes;
  if (network.image_shape.empty()) network.image_shape = found.image_shape;
  if (network.num_classes == 0) {
    return fail(
        Code::kUsage,
        "{}: the number of classes cannot be read from these files; give --num-classes, or the data set's --data-type",
        found.seen);
  }
  if (network.image_shape.empty()) {
    const bool is_gray = found.channels == 1;
    return fail(Code::kUsage, "{}: set the network's input size with --image-shape {},H,W ({}{})", found.seen,
                is_gray ? "1" : "C", usual_image_text(network), is_gray ? "; 1 is the channel of gray images" : "");
  }
  return apply_data_set(found.name, flags);
}

// Files on other hosts cannot be inspected. Their classes and shape are then given by flags.
bool needs_no_files(const Flags& flags) {
  return !flags.data.data_train.empty() && flags.job.network.num_classes > 0 && !flags.job.network.image_shape.empty();
}

}  // namespace

void complete_resize(AnySize has_any_size, AugmentFlags& augment) {
  const bool chooses_size = augment.random_resized_crop || augment.max_crop_size > 0;
  const bool fits = has_any_size.training && !chooses_size;
  if (!augment.resize) augment.resize = Resize{fits ? Resize::kFit : Resize::kOff};
  if (!augment.val_resize) augment.val_resize = Resize{has_any_size.validation ? Resize::kFit : Resize::kOff};
}

Result<> apply_own_data_set(Flags& flags, const RecognizeDataSet& recognize) {
  const DataFlags& data = flags.data;
  NetworkFlags& network = flags.job.network;
  const std::string& name = flags.job.augment.data_type;
  // The flag was "auto": the user did not choose the data set that was found.
  if (name.empty()) flags.sources.erase("data-type");
  // Whether the name is only a form, such as records; then the other values come from the files.
  const bool is_form = !name.empty() && find_data_set(name) == nullptr;
  if (!name.empty() && !(is_form && (network.num_classes == 0 || network.image_shape.empty()))) {
    return apply_data_set(name, flags.job);
  }
  if (flags.job.augment.benchmark) {
    const std::string_view designed = data_set_of_network(network.network, network.num_layers);
    if (network.image_shape.empty()) network.image_shape = image_of_network(network.network, network.num_layers);
    return apply_data_set(designed, flags.job);
  }
  if (data.data_dir.empty() && data.data_train.empty()) return apply_data_set("", flags.job);
  std::error_code ignored;
  if (!data.data_dir.empty() && !std::filesystem::is_directory(data.data_dir, ignored)) {
    return fail(Code::kNotFound, "--data-dir {}: {}; {}", data.data_dir, why_no_directory(data.data_dir),
                kWaysToGetData);
  }
  const Result<FoundData> found = recognize(flags);
  if (!found && needs_no_files(flags)) return apply_data_set("", flags.job);
  DT_TRY_VOID(found, "recognizing the data set");
  return apply_found(*found, flags.job);
}

}  // namespace dtrain::job
