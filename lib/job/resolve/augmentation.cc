#include "job/resolve/augmentation.h"

#include <algorithm>
#include <utility>

#include "job/flags/flags.h"
#include "job/flags/rows.h"
#include "job/flags/value.h"

namespace dtrain::job {
namespace {

// Names of flags and their values.
using Bundle = std::vector<std::pair<std::string, std::string>>;

// The levels of augmentation in the scripts of MXNet 0.8 to 1.2 and of MXNet-G.
Bundle level_bundle(int64_t level) {
  Bundle bundle;
  if (level >= 1) bundle = {{"random-crop", "1"}, {"random-mirror", "1"}};
  if (level >= 2) {
    bundle.insert(bundle.end(), {{"max-random-h", "36"}, {"max-random-s", "50"}, {"max-random-l", "50"}});
  }
  if (level >= 3) {
    bundle.insert(
        bundle.end(),
        {{"max-random-rotate-angle", "10"}, {"max-random-shear-ratio", "0.1"}, {"max-random-aspect-ratio", "0.25"}});
  }
  return bundle;
}

Bundle imagenet_bundle() {
  return {{"rgb-mean", "123.68,116.779,103.939"},
          {"rgb-std", "58.393,57.12,57.375"},
          {"random-crop", "0"},
          {"random-resized-crop", "1"},
          {"random-mirror", "1"},
          {"min-random-area", "0.08"},
          {"min-random-aspect-ratio", "0.75"},
          {"max-random-aspect-ratio", "1.3333333333333333"},
          {"brightness", "0.4"},
          {"contrast", "0.4"},
          {"saturation", "0.4"},
          {"pca-noise", "0.1"}};
}

Result<> unpack(std::string_view name, const Bundle& bundle, Flags& flags) {
  const Source source = flags.source(name);
  if (source == Source::kResumed) return {};  // the run's flags already hold the bundle and what overrode it
  for (const auto& [flag, value] : bundle) {
    if (flags.source(flag) >= source) continue;
    DT_TRY(const size_t row, training_flags().find("--" + flag));
    DT_TRY_VOID(training_flags().rows()[row].bind.set(flags, value));
    flags.sources[flag] = source;
  }
  return {};
}

Result<> unpack_bundles(Flags& flags) {
  const AugmentFlags& augment = flags.job.augment;
  if (augment.aug_level > 0 && augment.imagenet_augmentation) {
    return fail(Code::kUsage, "--aug-level and --use-imagenet-data-augmentation set the same flags: give one of them");
  }
  if (augment.aug_level > 0) return unpack("aug-level", level_bundle(augment.aug_level), flags);
  if (augment.imagenet_augmentation) return unpack("use-imagenet-data-augmentation", imagenet_bundle(), flags);
  return {};
}

Result<> check_pixels(const AugmentFlags& augment) {
  if (augment.rgb_mean.size() > 4)
    return fail(Code::kUsage, "--rgb-mean: there are more than 4 values; give one for each channel");
  if (augment.rgb_std.size() > 4)
    return fail(Code::kUsage, "--rgb-std: there are more than 4 values; give one for each channel");
  if (std::any_of(augment.rgb_std.begin(), augment.rgb_std.end(), [](double x) { return x <= 0; })) {
    return fail(Code::kUsage, "--rgb-std {}: each value must be above 0, because pixels are divided by it",
                format_value(augment.rgb_std));
  }
  return {};
}

Result<> check_range(const char* what, double min, double max, double most) {
  if (min > 0 && min <= max && max <= most) return {};
  return fail(Code::kUsage, "--min-{0} {1} and --max-{0} {2}: the minimum must be above 0 and not above the maximum{3}",
              what, min, max, most < 1e10 ? fmt::format(", and the maximum not above {}", most) : "");
}

Result<> check_ranges(const AugmentFlags& augment) {
  const AspectRange aspect = aspect_range(augment);
  if (!augment.min_random_aspect_ratio && aspect.min <= 0) {
    return fail(Code::kUsage,
                "--max-random-aspect-ratio {}: without --min-random-aspect-ratio, the value is the largest deviation "
                "from 1, so it must be below 1",
                augment.max_random_aspect_ratio);
  }
  DT_TRY_VOID(check_range("random-aspect-ratio", aspect.min, aspect.max, 1e10));
  DT_TRY_VOID(check_range("random-scale", augment.min_random_scale, augment.max_random_scale, 1e10));
  DT_TRY_VOID(check_range("random-area", augment.min_random_area, augment.max_random_area, 1));
  if (augment.min_img_size > augment.max_img_size || augment.max_img_size < 1) {
    return fail(
        Code::kUsage,
        "--min-img-size {} and --max-img-size {}: the minimum must not be above the maximum, nor the maximum below 1",
        augment.min_img_size, augment.max_img_size);
  }
  return {};
}

bool is_scaled(const AugmentFlags& augment) {
  return augment.min_random_scale != 1 || augment.max_random_scale != 1;
}

// Crops are chosen by area, as squares of a random size, or not at all; choosing both ways is refused.
Result<> check_crops(const AugmentFlags& augment) {
  const int64_t min = augment.min_crop_size, max = augment.max_crop_size;
  const bool squares = min != -1 || max != -1;
  if (squares && (min < 1 || min > max)) {
    return fail(Code::kUsage,
                "--min-crop-size {} and --max-crop-size {}: give both, with a minimum from 1 to the maximum", min, max);
  }
  if (!augment.random_resized_crop) return {};
  const char* other = augment.random_crop  ? "--random-crop"
                      : squares            ? "--min-crop-size and --max-crop-size"
                      : is_scaled(augment) ? "--min-random-scale and --max-random-scale"
                                           : nullptr;
  if (other == nullptr) return {};
  return fail(Code::kUsage, "--random-resized-crop chooses the position and the size of the crop itself: leave out {}",
              other);
}

}  // namespace

AspectRange aspect_range(const AugmentFlags& augment) {
  const double max = augment.max_random_aspect_ratio;
  if (augment.min_random_aspect_ratio) return {*augment.min_random_aspect_ratio, max};
  return {1 - max, 1 + max};
}

std::vector<std::string> augmentation_notes(const AugmentFlags& augment) {
  const bool area = augment.min_random_area != 1 || augment.max_random_area != 1;
  if (!area || augment.random_resized_crop) return {};
  return {"--min-random-area and --max-random-area have no effect without --random-resized-crop 1"};
}

Result<> resolve_augmentation(Flags& flags) {
  DT_TRY_VOID(unpack_bundles(flags));
  const AugmentFlags& augment = flags.job.augment;
  DT_TRY_VOID(check_pixels(augment));
  DT_TRY_VOID(check_ranges(augment));
  DT_TRY_VOID(check_crops(augment));
  if (augment.num_batches > 0 && !augment.benchmark) return fail(Code::kUsage, "--num-batches needs --benchmark 1");
  return {};
}

}  // namespace dtrain::job
