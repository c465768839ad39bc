#include "infer/export_metadata.h"

#include <fmt/ranges.h>

#include "base/json.h"

namespace dtrain::infer {
namespace {

// One value for each channel; missing values are replaced by `rest`, as they are when training reads data.
std::string by_channel(std::vector<double> values, int64_t channels, double rest) {
  values.resize(static_cast<size_t>(channels), rest);
  return fmt::format("{}", fmt::join(values, ","));
}

const char* channel_order(int64_t channels) {
  switch (channels) {
    case 1: return "gray";
    case 3: return "RGB";
    case 4: return "RGBA";
    default: return "";
  }
}

}  // namespace

std::map<std::string, std::string> export_metadata(const TrainedModel& model,
                                                   const std::vector<std::string>& class_names) {
  const job::NetworkFlags& network = model.network();
  const job::AugmentFlags& augment = model.flags.job.augment;
  std::map<std::string, std::string> metadata = {
      {"network", network.network},
      {"image_shape", fmt::format("{}", fmt::join(network.image_shape, ","))},
      {"num_classes", std::to_string(network.num_classes)}};
  const int64_t channels = network.image_shape.front();
  if (network.image_shape.size() == 3 && *channel_order(channels) != 0) {
    metadata["channel_order"] = channel_order(channels);
  }
  if (model.has_mean_image) metadata["mean_image"] = "1";
  if (model.knows_pixels) {
    if (!model.has_mean_image) metadata["rgb_mean"] = by_channel(augment.rgb_mean, channels, 0);
    metadata["rgb_std"] = by_channel(augment.rgb_std, channels, 1);
    metadata["scale"] = fmt::format("{}", augment.scale.value_or(1));
  }
  if (!class_names.empty()) metadata["class_names"] = json_text(nlohmann::json(class_names));
  return metadata;
}

}  // namespace dtrain::infer
