#include "graph/models/models.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <optional>
#include <string_view>
#include <system_error>

#include "base/nearest.h"
#include "graph/models/families.h"

namespace dtrain::graph {

namespace {

// A network as defined by one version of MXNet. If several entries have the same name, the name without a version
// refers to the first of them.
struct NetworkVersion {
  std::string_view name;
  std::string_view version;
  bool has_depths;
  BuildModel* build;
};
constexpr std::string_view kMxnetG = "mxnet-g", kV07 = "v0.7", kV1 = "1.x";
constexpr NetworkVersion kNetworkVersions[] = {
    {"3conv", kMxnetG, false, three_convolutions},
    {"alexnet", kV1, false, alexnet},
    {"alexnet", kMxnetG, false, alexnet_of_mxnet_g},
    {"alexnet", kV07, false, alexnet_of_v07},
    {"cross", kMxnetG, true, cross},
    {"googlenet", kV1, false, googlenet},
    {"googlenet", kV07, false, googlenet_of_v07},
    {"inception-bn", kV1, false, inception_bn},
    {"inception-bn", kMxnetG, false, inception_bn_of_mxnet_g},
    {"inception-bn", kV07, false, inception_bn_of_v07},
    {"inception-bn-28-small", kMxnetG, false, inception_bn_28_small_of_mxnet_g},
    {"inception-bn-28-small", kV07, false, inception_bn_28_small_of_v07},
    {"inception-bn-full", kMxnetG, false, inception_bn_full_of_mxnet_g},
    {"inception-bn-full", kV07, false, inception_bn_full_of_v07},
    {"inception-v3", kV1, false, inception_v3},
    {"inception-v3", kMxnetG, false, inception_v3_of_mxnet_g},
    {"inception-v3", kV07, false, inception_v3_of_v07},
    {"lenet", kV1, false, lenet},
    {"lenet-stn", kV1, false, lenet_stn},
    {"mlp", kV1, false, mlp},
    {"resnet", kV1, true, resnet_v2},
    {"resnet", kMxnetG, true, resnet_v2_of_mxnet_g},
    {"resnet-28-small", kMxnetG, true, resnet_28_small},
    {"resnet-v1", kV1, true, resnet_v1},
    {"resnet-v1.5", kV1, true, resnet_v1_5},
    {"resnet-zscore", kV07, false, resnet_zscore},
    {"resnext", kV1, true, resnext},
    {"vgg", kV1, true, vgg},
    {"vgg", kMxnetG, true, vgg_of_mxnet_g},
    {"vgg", kV07, true, vgg_of_v07},
};

struct Alias {
  std::string_view name, of;
};
constexpr Alias kAliases[] = {
    {"dfnmr", "cross"}, {"resnet-v2", "resnet"}, {"resnetv1", "resnet-v1"}, {"small", "3conv"}};

// Finds the entry of a network; if `version` is empty, that of the newest version.
const NetworkVersion* find_version(std::string_view name, std::string_view version = {}) {
  for (const Alias& alias : kAliases) {
    if (alias.name == name) name = alias.of;
  }
  const auto* found = std::find_if(
      std::begin(kNetworkVersions), std::end(kNetworkVersions),
      [&](const NetworkVersion& f) { return f.name == name && (version.empty() || f.version == version); });
  return found == std::end(kNetworkVersions) ? nullptr : found;
}

bool is_known(std::string_view name) {
  return find_version(name) != nullptr;
}

// The parts of a name such as "resnet-50@mxnet-g": family, depth (0 if none), version (empty if none).
struct Parts {
  std::string family;
  int64_t depth = 0;
  std::string version;
};

Parts split(std::string_view network) {
  Parts parts;
  const size_t at = network.find('@');
  if (at != std::string_view::npos) parts.version = network.substr(at + 1);
  parts.family = network.substr(0, at);
  if (is_known(parts.family)) return parts;  // the name may end in a number that is not a depth, as in "inception-v3"
  const size_t digits = parts.family.find_last_not_of("0123456789") + 1;
  if (digits < 2 || digits == parts.family.size()) return parts;
  const char* end = parts.family.data() + parts.family.size();
  if (std::from_chars(parts.family.data() + digits, end, parts.depth).ec != std::errc()) return parts;
  const bool dash = parts.family[digits - 1] == '-';
  // "resnet50" is not a valid name, but splitting it lets the message suggest "resnet-50".
  parts.family.resize(dash ? digits - 1 : digits);
  return parts;
}

std::string list_of_names() {
  return fmt::format("{}", fmt::join(model_names(), ", "));
}

tl::unexpected<Error> unknown(const std::string& network, const Parts& parts) {
  std::vector<std::string> candidates = model_names();
  for (const Alias& alias : kAliases) candidates.emplace_back(alias.name);
  std::optional<std::string> meant = nearest(parts.family, candidates);
  if (meant && parts.depth != 0 && find_version(*meant)->has_depths) *meant += fmt::format("-{}", parts.depth);
  const std::string hint = meant ? fmt::format("did you mean '{}'? ", *meant) : "";
  return fail(Code::kUsage, "unknown network '{}': {}known networks are {}", network, hint, list_of_names());
}

// An error that lists the valid names of the network. The name without a version refers to the definition of MXNet 1.x.
tl::unexpected<Error> no_such_version(const std::string& network, const Parts& parts, const NetworkVersion& newest) {
  const std::string name = network.substr(0, network.find('@'));
  std::vector<std::string> choices;
  for (const NetworkVersion& f : kNetworkVersions) {
    if (f.name != newest.name) continue;
    choices.push_back(f.version == kV1 ? fmt::format("{} (MXNet 1.x)", name) : fmt::format("{}@{}", name, f.version));
  }
  const bool known = parts.version == kV07 || parts.version == kMxnetG;
  return fail(Code::kUsage, "network '{}': {} '{}'; use {}", network,
              known ? fmt::format("dtrain does not have '{}' in version", name) : "unknown version", parts.version,
              fmt::join(choices, " or "));
}

Result<> check_options(const ModelOptions& options) {
  if (options.num_classes < 1)
    return fail(Code::kUsage, "the number of classes is {}, but must be at least 1", options.num_classes);
  if (options.image.size() != 3)
    return fail(Code::kUsage, "the image shape must be (c, h, w), not {}", to_string(options.image));
  if (options.num_layers < 0)
    return fail(Code::kUsage, "the number of layers is {}, but must be at least 0", options.num_layers);
  if (options.widen_factor < 1 || options.widen_factor > 64) {
    return fail(Code::kUsage, "the widen factor is {}, but must be from 1 to 64", options.widen_factor);
  }
  return {};
}

Result<> check_choices(const ModelOptions& options, const NetworkVersion& family, int64_t depth) {
  constexpr int64_t kDepthMax = 10000;
  if (depth > kDepthMax) {
    return fail(Code::kUsage, "network '{}' cannot have {} layers: the depth must be at most {}", family.name, depth,
                kDepthMax);
  }
  if (depth != 0 && !family.has_depths) {
    return fail(Code::kUsage, "network '{}' has a fixed depth: it cannot have {} layers", family.name, depth);
  }
  if (options.widen_factor != 1 && family.build != cross) {
    return fail(Code::kUsage, "network '{}' has a fixed width: the widen factor must be 1, not {}", family.name,
                options.widen_factor);
  }
  if (options.num_group != ModelOptions().num_group && family.build != resnext) {
    return fail(Code::kUsage, "network '{}' has no groups: --num-group is for resnext", options.network);
  }
  if (options.batch_norm && family.build != vgg) {
    return fail(Code::kUsage, "network '{}' does not support --batch-norm, which is for the vgg of MXNet 1.x",
                options.network);
  }
  if (options.add_stn && family.build != lenet && family.build != lenet_stn) {
    return fail(Code::kUsage, "network '{}' has no spatial transformer: --add-stn is for lenet", options.network);
  }
  return {};
}

}  // namespace

std::vector<std::string> model_names() {
  std::vector<std::string> names;
  for (const NetworkVersion& family : kNetworkVersions) names.emplace_back(family.name);
  std::sort(names.begin(), names.end());
  names.erase(std::unique(names.begin(), names.end()), names.end());
  return names;
}

Result<Graph> build_model(const ModelOptions& options) {
  const Parts parts = split(options.network);
  const NetworkVersion* newest = find_version(parts.family);
  const bool spelled = parts.depth == 0 || options.network.find("-" + std::to_string(parts.depth)) != std::string::npos;
  if (newest == nullptr || !spelled) return unknown(options.network, parts);
  const NetworkVersion* family = find_version(parts.family, parts.version);
  // Each network has exactly one valid name. The definition of MXNet 1.x has the name without a version, so "@1.x" is
  // refused.
  if (family == nullptr || parts.version == kV1) return no_such_version(options.network, parts, *newest);
  DT_TRY_VOID(check_options(options));
  const int64_t depth = options.num_layers != 0 ? options.num_layers : parts.depth;
  DT_TRY_VOID(check_choices(options, *family, depth));
  return family->build(options, depth);
}

}  // namespace dtrain::graph
