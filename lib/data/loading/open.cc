#include "data/loading/open.h"

#include <fmt/ranges.h>
#include <algorithm>
#include <filesystem>

#include "base/printable.h"
#include "base/words.h"
#include "data/loading/image_dataset.h"
#include "data/loading/mean_image.h"
#include "data/sources/cifar_source.h"
#include "data/sources/directory_source.h"
#include "data/sources/idx_source.h"
#include "data/sources/named_images.h"
#include "data/sources/record_source.h"

namespace dtrain::data {
namespace {

// The options for opening a set, in addition to its files.
struct OpenOptions {
  const Shape& image;
  size_t label_width;
  const KnownOffsets& known;
  const std::vector<std::string>& classes;  // names of class directories
  std::string type;                         // the data type that the user chose; empty: none
  std::shared_ptr<const LabelList> labels = nullptr;
};

// Refuses files whose images have fewer labels than are to be read.
Result<> check_label_width(const std::string& files, size_t labels, size_t wanted) {
  if (wanted <= labels) return {};
  return fail(Code::kUsage, "--label-width {}: the images of {} have {} label{}", wanted, files, labels,
              labels == 1 ? "" : "s");
}

Result<std::shared_ptr<const ImageSource>> open_cifar_set(const std::vector<std::string>& files,
                                                          const OpenOptions& options, const Log& log) {
  DT_TRY(const Cifar kind, recognize_cifar(files));
  if (!options.type.empty() && options.type != name_of(kind)) {
    return fail(Code::kUsage, "--data-type {}: {} belongs to {}; name files of {}, or leave out --data-type",
                options.type, files.front(), name_of(kind), options.type);
  }
  DT_TRY_VOID(check_label_width(files.front(), cifar_labels(kind), options.label_width));
  return open_cifar(kind, files, options.label_width, log);
}

// A set, and facts that are known only for class directories.
struct OpenedSet {
  std::shared_ptr<const ImageSource> images;
  std::vector<int64_t> by_class = {};
  OtherFiles others = {};
};

Result<OpenedSet> open_class_directories(const std::string& root, const std::vector<std::string>& classes,
                                         int channels) {
  DT_TRY(DirectorySource directory, open_directory(root, classes, channels));
  return OpenedSet{std::move(directory.images), std::move(directory.by_class), std::move(directory.others)};
}

Result<std::shared_ptr<const ImageSource>> open_files(const SetFiles& files, const OpenOptions& options,
                                                      const Log& log) {
  const auto channels = static_cast<int>(options.image[0]);
  if (!files.images.empty()) {
    if (channels != 1)
      return fail(Code::kUsage, "{}: the images have 1 channel, but --image-shape has {}", files.images, channels);
    DT_TRY_VOID(check_label_width(files.images, 1, options.label_width));
    return open_idx(files.images, files.labels);
  }
  if (!files.cifar.empty()) {
    if (channels != 3) {
      return fail(Code::kUsage, "{}: the images have 3 channels, but --image-shape has {}", files.cifar.front(),
                  channels);
    }
    return open_cifar_set(files.cifar, options, log);
  }
  RecordSourceOptions source{.paths = {},
                             .index = files.index,
                             .channels = channels,
                             .label_width = options.label_width,
                             .known = options.known,
                             .labels = options.labels};
  DT_TRY(const std::vector<IndexedFile> records, records_of(files));
  for (const IndexedFile& file : records) source.paths.push_back(file.path);
  return open_records(source, log);
}

Result<OpenedSet> open_set(const SetFiles& files, const OpenOptions& options, const Log& log) {
  if (!files.directory.empty()) {
    DT_TRY_VOID(check_label_width(files.directory, 1, options.label_width));
    return open_class_directories(files.directory, options.classes, static_cast<int>(options.image[0]));
  }
  DT_TRY(auto images, open_files(files, options, log));
  return OpenedSet{std::move(images)};
}

// For example "(airplane 300, bird 310, ...)".
std::string counts_text(const std::vector<std::string>& classes, const std::vector<int64_t>& counts) {
  constexpr size_t kShown = 5;
  std::vector<std::string> parts;
  for (size_t i = 0; i < std::min(kShown, counts.size()); i++) {
    parts.push_back(fmt::format("{} {}", printable(classes[i]), with_thousands(counts[i])));
  }
  if (counts.size() > kShown) parts.emplace_back("...");
  return parts.empty() ? "" : fmt::format(" ({})", fmt::join(parts, ", "));
}

std::string fit_text(std::string_view images, const Shape& image) {
  return fmt::format("{} are first scaled to fit {} x {}", images, image[2], image[1]);
}

std::string fit_text(const DataOptions& options, const Shape& image, bool has_validation) {
  const bool training = options.training.resize == images::kFitCrop;
  const bool validation = has_validation ? options.val_resize == images::kFitCrop : training;
  if (!training && !validation) return {};
  return "; " + fit_text(!training ? "validation images" : validation ? "images" : "training images", image);
}

// The classes of the training set that have no image here: " (none of dog)".
std::string absent_text(const std::vector<std::string>& classes, const std::vector<int64_t>& counts) {
  std::vector<std::string> absent;
  for (size_t i = 0; i < counts.size(); i++) {
    if (counts[i] == 0) absent.push_back(printable(classes[i]));
  }
  return absent.empty() ? "" : fmt::format(" (none of {})", fmt::join(absent, ", "));
}

std::string left_out_text(const std::vector<std::string>& directories, const OtherFiles& others) {
  std::vector<std::string> parts;
  parts.reserve(directories.size() + 1);
  for (const std::string& directory : directories) parts.push_back(printable(directory) + "/");
  if (!others.empty()) parts.push_back(to_text(others));
  return parts.empty() ? "" : fmt::format("; left out: {}", fmt::join(parts, ", "));
}

std::string found_text(const DataSets& sets, const OpenedSet& train, const OpenedSet& validation,
                       const std::vector<std::string>& left_out) {
  std::string text = fmt::format("training: {} images", with_thousands(train.images->size()));
  const int64_t classes = sets.class_names.empty() ? sets.classes : std::ssize(sets.class_names);
  if (classes > 0) text += fmt::format(" in {} classes", with_thousands(classes));
  text += counts_text(sets.class_names, train.by_class);
  if (validation.images != nullptr) {
    text += fmt::format("; validation: {}{}", with_thousands(validation.images->size()),
                        absent_text(sets.class_names, validation.by_class));
  }
  OtherFiles others = train.others;
  add(validation.others, others);
  return text + left_out_text(left_out, others);
}

// Describes the images on which a score is measured.
std::string found_for_validation(const DataSets& sets, const OpenedSet& validation, const DataOptions& options,
                                 const Shape& image) {
  std::string text = fmt::format("{} images", with_thousands(validation.images->size()));
  if (!sets.class_names.empty()) text += fmt::format(" in {} classes", with_thousands(std::ssize(sets.class_names)));
  text += counts_text(sets.class_names, validation.by_class) + left_out_text({}, validation.others);
  return options.val_resize == images::kFitCrop ? text + "; " + fit_text("images", image) : text;
}

// `values`, truncated or padded with `rest` to one value per channel.
std::vector<float> per_channel(std::vector<float> values, size_t channels, float rest) {
  values.resize(channels, rest);
  return values;
}

// Checks the number of values of a flag. A single value applies to all channels if it is `neutral`, which has no
// effect, and the value for alpha may be left out. In all other cases a missing value would normalize some channels
// differently from the rest.
Result<> check_channels(const char* flag, const std::vector<float>& values, int64_t channels, float neutral) {
  if (values.size() > 4) return fail(Code::kUsage, "{}: there are more than 4 values; give one for each channel", flag);
  const int64_t needed = std::min<int64_t>(channels, 3);
  const bool is_neutral = values.empty() || (values.size() == 1 && values[0] == neutral);
  if (is_neutral || std::ssize(values) >= needed) return {};
  return fail(Code::kUsage,
              "{} {}: the number of values is {}, but the images have {} channels; give one value for each channel",
              flag, fmt::join(values, ","), values.size(), needed);
}

Result<> check_options(const DataOptions& options, const Shape& image) {
  if (image.empty()) return fail(Code::kUsage, "the image shape is unknown: give --image-shape C,H,W or --data-type");
  constexpr int64_t kEdgeMax = 8192;
  const bool sizes =
      image.size() == 3 && image[1] >= 1 && image[1] <= kEdgeMax && image[2] >= 1 && image[2] <= kEdgeMax;
  if (!sizes || (image[0] != 1 && image[0] != 3 && image[0] != 4)) {
    return fail(Code::kUsage, "--image-shape {}: must be C,H,W with C = 1, 3 or 4, and H and W from 1 to 8192",
                to_string(image));
  }
  const images::Distortion& training = options.training;
  if (training.pad < 0 || training.pad > kEdgeMax)
    return fail(Code::kUsage, "--pad-size {}: must be from 0 to {}", training.pad, kEdgeMax);
  if (training.fill_value < 0 || training.fill_value > 255) {
    return fail(Code::kUsage, "--fill-value {}: must be from 0 to 255", training.fill_value);
  }
  if (training.is_affine() && training.interpolation == images::Interpolation::kNearest) {
    return fail(Code::kUsage, "--inter-method 0 cannot rotate, shear, stretch or scale images: use 1 to 4, 9 or 10");
  }
  if (training.color.any() && image[0] != 3) {
    return fail(Code::kUsage,
                "color distortion (--max-random-h, -s, -l, --brightness, --contrast, --saturation, --pca-noise, "
                "--aug-level 2 and 3) needs images with 3 channels; these have {}",
                image[0]);
  }
  DT_TRY_VOID(check_channels("--rgb-mean", options.rgb_mean, image[0], 0));
  DT_TRY_VOID(check_channels("--rgb-std", options.rgb_std, image[0], 1));
  if (std::find(options.rgb_std.begin(), options.rgb_std.end(), 0.0f) != options.rgb_std.end()) {
    return fail(Code::kUsage, "--rgb-std: values must not be 0");
  }
  return {};
}

// The options that training and validation have in common.
images::AugmentOptions common_augmentation(const DataOptions& options, const Shape& image, bool idx) {
  const auto channels = static_cast<size_t>(image[0]);
  const std::vector<float> usual = idx ? std::vector<float>{0.0f} : std::vector<float>{123.68f, 116.779f, 103.939f};
  return {.image = image,
          .mirror = options.mirror,
          .mean = per_channel(options.rgb_mean.empty() ? usual : options.rgb_mean, channels, 0.0f),
          .std = per_channel(options.rgb_std, channels, 1.0f),
          .scale = options.scale.value_or(idx ? 1.0f / 255.0f : 1.0f)};
}

// The central crop, with nothing random: for validation and the mean image.
images::Distortion central_crop(int resize, images::Interpolation interpolation) {
  images::Distortion distortion;
  distortion.resize = resize;
  if (interpolation != images::Interpolation::kRandom) distortion.interpolation = interpolation;
  return distortion;
}

std::string mean_image_path(const DataOptions& options) {
  const bool bare = std::filesystem::path(options.mean_img).filename() == options.mean_img;
  return bare ? (std::filesystem::path(options.data_dir) / options.mean_img).string() : options.mean_img;
}

// The names of the classes, if the training set consists of class directories. The validation set must have the same
// classes.
Result<std::vector<std::string>> common_classes(const Located& located) {
  const std::vector<std::string>& classes = located.train.classes;
  if (located.validation.directory.empty()) return classes;
  if (located.train.directory.empty()) {
    return fail(Code::kUsage,
                "{}: the training data do not state the label of each of these class directories: pack the directories "
                "as the training data were packed, for example with 'dtrain im2rec --recursive PREFIX {}', or give "
                "class directories for both training and validation",
                located.validation.directory, located.validation.directory);
  }
  DT_TRY(const ClassDirectories validation, class_directories(located.validation.directory));
  for (const std::string& name : validation.classes) {
    if (std::ranges::find(classes, name) != classes.end()) continue;
    return fail(Code::kData,
                "{}: the training data in {} have no directory for the class '{}'; training and validation need the "
                "same classes",
                located.validation.directory, located.train.directory, name);
  }
  return classes;
}

// The list of labels of the training set; null if no list is given.
Result<std::shared_ptr<const LabelList>> training_labels(const DataOptions& options, const SetFiles& files) {
  if (options.label_list.empty()) return nullptr;
  DT_TRY_VOID(check_label_list_fits(options.label_list, files));
  return LabelList::read(options.label_list, static_cast<size_t>(options.label_width));
}

// The type that the flags name, or the type of the files in --data-dir. nullopt: the flags name files.
Result<std::optional<DataType>> type_of(const DataOptions& options) {
  if (!options.data_type.empty()) {
    std::optional<DataType> type = find_data_type(options.data_type);
    if (!type) {
      return fail(Code::kUsage, "--data-type {}: must be one of {}", options.data_type, data_type_names());
    }
    return type;
  }
  if (!options.data_train.empty() || options.data_dir.empty()) return std::nullopt;
  DT_TRY(Recognized recognized, recognize(options));
  return std::optional(std::move(recognized.type));
}

}  // namespace

Result<std::vector<IndexedFile>> record_files(const DataOptions& options) {
  DT_TRY(const Located located, locate(options));
  std::vector<IndexedFile> all;
  for (const SetFiles* set : {&located.train, &located.validation}) {
    DT_TRY(const std::vector<IndexedFile> files, records_of(*set));
    for (const IndexedFile& file : files) {
      if (std::ranges::find(all, file.path, &IndexedFile::path) == all.end()) all.push_back(file);
    }
  }
  return all;
}

Result<DataSets> open_dataset(const DataOptions& options, const Log& log) {
  images::use_own_threads_only();
  DT_TRY(const std::optional<DataType> type, type_of(options));
  DT_TRY(const Located located, locate(options));
  const Shape image = !options.image_shape.empty() ? options.image_shape : type ? type->image : Shape();
  DT_TRY_VOID(check_options(options, image));
  DataSets sets{.train = nullptr, .validation = nullptr, .classes = type ? type->classes : 0};
  DT_TRY(sets.class_names, common_classes(located));
  OpenOptions opening{.image = image,
                      .label_width = static_cast<size_t>(options.label_width),
                      .known = options.known,
                      .classes = sets.class_names,
                      .type = options.type_given ? options.data_type : ""};
  DT_TRY(opening.labels, training_labels(options, located.train));
  DT_TRY(const OpenedSet train, open_set(located.train, opening, log), "opening the training data");
  opening.labels = nullptr;
  OpenedSet validation;
  if (located.validation.given()) {
    DT_TRY(validation, open_set(located.validation, opening, log), "opening the validation data");
  }
  sets.found =
      found_text(sets, train, validation, located.left_out) + fit_text(options, image, validation.images != nullptr);
  if (validation.images != nullptr) sets.found_for_validation = found_for_validation(sets, validation, options, image);
  sets.warnings = located.warnings;

  images::AugmentOptions augment = common_augmentation(options, image, !located.train.images.empty());
  if (!options.mean_img.empty()) {
    const images::Distortion cut = central_crop(options.training.resize, options.training.interpolation);
    DT_TRY(augment.mean_image,
           mean_image(mean_image_path(options), image, cut, train.images, std::max(options.threads, 1), log));
  }
  if (validation.images != nullptr) {
    augment.distortion = central_crop(options.val_resize, options.training.interpolation);
    sets.validation = augmented(validation.images, augment);
  }
  augment.distortion = options.training;
  sets.train = augmented(train.images, augment);
  return sets;
}

Result<std::shared_ptr<const Dataset>> open_unlabeled(const std::vector<std::string>& names, const DataOptions& options,
                                                      const Log& log) {
  images::use_own_threads_only();
  const Shape& image = options.image_shape;
  DT_TRY_VOID(check_options(options, image));
  DT_TRY(const auto images, open_images(names, static_cast<int>(image[0]), log));
  images::AugmentOptions augment = common_augmentation(options, image, false);
  if (!options.mean_img.empty()) {
    const std::string path = mean_image_path(options);
    std::error_code ignored;
    if (!std::filesystem::exists(path, ignored)) return fail(Code::kNotFound, "--mean-img {}: no such file", path);
    DT_TRY(augment.mean_image, mean_image(path, image, {}, images, 1, log));
  }
  augment.distortion = central_crop(options.val_resize, options.training.interpolation);
  if (options.val_resize == images::kFitCrop) log.info("{}", fit_text("images", image));
  return augmented(images, augment);
}

}  // namespace dtrain::data
