#include "data/open.h"

#include <algorithm>
#include <array>
#include <filesystem>

#include "data/idx_source.h"
#include "data/image_dataset.h"
#include "data/image_record.h"
#include "data/mean_image.h"
#include "data/record_source.h"

namespace dtrain::data {
namespace {

// One set: record files, or an idx file of images and one of labels.
struct SetFiles {
  std::string records, index;
  std::string images, labels;

  [[nodiscard]] bool given() const { return !records.empty() || !images.empty(); }
};

struct Located {
  std::optional<DataType> type;
  SetFiles train, validation;
};

bool exists(const std::string& path) {
  std::error_code ignored;
  return std::filesystem::exists(path, ignored);
}

std::string join(const std::string& directory, const std::string& name) {
  return directory.empty() ? name : (std::filesystem::path(directory) / name).string();
}

// Joins the directory to each name of a list "a.rec;b.rec".
std::string join_list(const std::string& directory, const std::string& names) {
  std::string joined;
  for (size_t begin = 0; begin <= names.size();) {
    const size_t end = std::min(names.find(';', begin), names.size());
    if (end > begin) joined += (joined.empty() ? "" : ";") + join(directory, names.substr(begin, end - begin));
    begin = end + 1;
  }
  return joined;
}

const std::vector<DataType>& data_types() {
  static const std::vector<DataType> kTypes = {{"mnist", 10, {1, 28, 28}},
                                               {"cifar10", 10, {3, 28, 28}},
                                               {"cifar100", 100, {3, 28, 28}},
                                               {"imagenet", 1000, {3, 224, 224}}};
  return kTypes;
}

constexpr std::string_view kTrainImages = "train-images-idx3-ubyte";
constexpr std::string_view kTrainLabels = "train-labels-idx1-ubyte";
constexpr std::string_view kTestImages = "t10k-images-idx3-ubyte";
constexpr std::string_view kTestLabels = "t10k-labels-idx1-ubyte";

// The file, plain or .gz; empty if neither is there.
std::string find_idx(const std::string& directory, std::string_view name) {
  std::string plain = join(directory, std::string(name));
  if (exists(plain)) return plain;
  return exists(plain + ".gz") ? plain + ".gz" : std::string();
}

tl::unexpected<Error> missing(const std::string& directory, const std::vector<std::string>& names,
                              const std::string& type) {
  return fail(Code::kNotFound,
              "{}: {} {} missing for the data set {}; name other files with --data-train and --data-val, or pack "
              "images with 'dtrain im2rec'",
              directory, fmt::join(names, ", "), names.size() == 1 ? "is" : "are", type);
}

Result<Located> locate_mnist(const std::string& directory) {
  std::vector<std::string> absent;
  const auto find = [&](std::string_view name) {
    std::string path = find_idx(directory, name);
    if (path.empty()) absent.push_back(std::string(name) + "[.gz]");
    return path;
  };
  Located located{.type = find_data_type("mnist"), .train = {}, .validation = {}};
  located.train.images = find(kTrainImages);
  located.train.labels = find(kTrainLabels);
  located.validation.images = find(kTestImages);
  located.validation.labels = find(kTestLabels);
  if (!absent.empty()) return missing(directory, absent, "mnist");
  return located;
}

Result<Located> locate_records(const DataOptions& options, const DataType& type) {
  const std::string validation = type.name == "imagenet" ? "val.rec" : "test.rec";
  std::vector<std::string> absent;
  for (const std::string& name : {std::string("train.rec"), validation}) {
    if (!exists(join(options.data_dir, name))) absent.push_back(name);
  }
  if (!absent.empty()) return missing(options.data_dir, absent, type.name);
  Located located{.type = type, .train = {}, .validation = {}};
  located.train.records = join(options.data_dir, "train.rec");
  located.validation.records = join(options.data_dir, validation);
  return located;
}

// Locates the data set in a directory whose type was not given.
Result<Located> locate_recognized(const DataOptions& options) {
  const std::optional<std::string> name = recognize_data_set(options.data_dir);
  if (!name) {
    return fail(Code::kNotFound,
                "{}: the directory holds no data set with known file names; give its --data-type, or name its files "
                "with --data-train and --data-val",
                options.data_dir);
  }
  return *name == "mnist" ? locate_mnist(options.data_dir) : locate_records(options, *find_data_type(*name));
}

// The files that a user's name stands for: an idx file of images and the labels beside it, or record files.
SetFiles named_files(const std::string& directory, const std::string& name, const std::string& index) {
  SetFiles files;
  if (name.empty()) return files;
  const size_t images = name.rfind("images-idx3-ubyte");
  if (images != std::string::npos) {
    files.images = join(directory, name);
    files.labels =
        join(directory, std::string(name).replace(images, std::string_view("images-idx3").size(), "labels-idx1"));
  } else {
    files.records = join_list(directory, name);
    if (!index.empty()) files.index = join(directory, index);
  }
  return files;
}

Result<Located> locate(const DataOptions& options) {
  std::optional<DataType> type = find_data_type(options.data_type);
  if (!options.data_type.empty() && !type) {
    return fail(Code::kUsage, "--data-type {}: must be mnist, cifar10, cifar100 or imagenet", options.data_type);
  }
  if (!options.data_train.empty()) {
    Located located{.type = type, .train = {}, .validation = {}};
    located.train = named_files(options.data_dir, options.data_train, options.data_train_idx);
    located.validation = named_files(options.data_dir, options.data_val, options.data_val_idx);
    return located;
  }
  if (options.data_dir.empty()) return fail(Code::kUsage, "no training data: give --data-dir or --data-train");
  Result<Located> located = !type                   ? locate_recognized(options)
                            : type->name == "mnist" ? locate_mnist(options.data_dir)
                                                    : locate_records(options, *type);
  if (!located) return located;
  if (!options.data_train_idx.empty()) located->train.index = join(options.data_dir, options.data_train_idx);
  if (!options.data_val.empty()) {
    located->validation = named_files(options.data_dir, options.data_val, options.data_val_idx);
  } else if (!options.data_val_idx.empty()) {
    located->validation.index = join(options.data_dir, options.data_val_idx);
  }
  return located;
}

// The record files of a set; empty if it consists of idx files.
Result<std::vector<IndexedFile>> records_of(const SetFiles& files) {
  std::vector<IndexedFile> records;
  if (files.records.empty()) return records;
  DT_TRY(const std::vector<std::string> paths, list_record_files(files.records));
  if (!files.index.empty() && paths.size() > 1) {
    return fail(Code::kUsage, "'{}' names {} files, but an index can be given for a single file only", files.records,
                paths.size());
  }
  for (const std::string& path : paths) records.push_back({path, files.index});
  return records;
}

Result<std::shared_ptr<const ImageSource>> open_set(const SetFiles& files, const Shape& image,
                                                    const KnownOffsets& known, const Log& log) {
  if (!files.images.empty()) {
    if (image[0] != 1)
      return fail(Code::kUsage, "{}: the images have 1 channel, but --image-shape has {}", files.images, image[0]);
    return open_idx(files.images, files.labels);
  }
  RecordSourceOptions options{
      .paths = {}, .index = files.index, .channels = static_cast<int>(image[0]), .known = known};
  DT_TRY(const std::vector<IndexedFile> records, records_of(files));
  for (const IndexedFile& file : records) options.paths.push_back(file.path);
  return open_records(options, log);
}

// `values`, cut or filled up with `rest` to one value per channel.
std::vector<float> per_channel(std::vector<float> values, size_t channels, float rest) {
  values.resize(channels, rest);
  return values;
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
  const Distortion& training = options.training;
  if (training.pad < 0 || training.pad > kEdgeMax)
    return fail(Code::kUsage, "--pad-size {}: must be from 0 to {}", training.pad, kEdgeMax);
  if (training.fill_value < 0 || training.fill_value > 255) {
    return fail(Code::kUsage, "--fill-value {}: must be from 0 to 255", training.fill_value);
  }
  if (training.is_affine() && training.interpolation == Interpolation::kNearest) {
    return fail(Code::kUsage, "--inter-method 0 cannot rotate, shear, stretch or scale images: use 1 to 4, 9 or 10");
  }
  if (training.color.any() && image[0] != 3) {
    return fail(Code::kUsage,
                "color distortion (--max-random-h, -s, -l, --brightness, --contrast, --saturation, --pca-noise, "
                "--aug-level 2 and 3) needs images with 3 channels; these have {}",
                image[0]);
  }
  if (options.rgb_mean.size() > 4 || options.rgb_std.size() > 4)
    return fail(Code::kUsage, "--rgb-mean and --rgb-std take at most 4 values");
  if (std::find(options.rgb_std.begin(), options.rgb_std.end(), 0.0f) != options.rgb_std.end()) {
    return fail(Code::kUsage, "--rgb-std: values must not be 0");
  }
  return {};
}

// The options that training and validation have in common.
AugmentOptions common_augmentation(const DataOptions& options, const Shape& image, bool idx) {
  const auto channels = static_cast<size_t>(image[0]);
  const std::vector<float> usual = idx ? std::vector<float>{0.0f} : std::vector<float>{123.68f, 116.779f, 103.939f};
  return {.image = image,
          .mirror = options.mirror,
          .mean = per_channel(options.rgb_mean.empty() ? usual : options.rgb_mean, channels, 0.0f),
          .std = per_channel(options.rgb_std, channels, 1.0f),
          .scale = options.scale.value_or(idx ? 1.0f / 255.0f : 1.0f)};
}

// The central crop, with nothing random: for validation and the mean image.
Distortion central_crop(int resize, Interpolation interpolation) {
  Distortion distortion;
  distortion.resize = resize;
  if (interpolation != Interpolation::kRandom) distortion.interpolation = interpolation;
  return distortion;
}

std::string mean_image_path(const DataOptions& options) {
  const bool bare = std::filesystem::path(options.mean_img).filename() == options.mean_img;
  return bare ? join(options.data_dir, options.mean_img) : options.mean_img;
}

}  // namespace

std::optional<DataType> find_data_type(const std::string& name) {
  for (const DataType& type : data_types()) {
    if (type.name == name) return type;
  }
  return std::nullopt;
}

namespace {

// The largest label of some records, sampled evenly over the file; nullopt if none was found.
std::optional<float> largest_label(const RecordFile& file) {
  constexpr int64_t kSamples = 256, kWindowBytes = 32 << 10;
  std::optional<float> largest;
  std::vector<uint8_t> window;
  for (int64_t i = 0; i < kSamples; i++) {
    const int64_t at = file.size() / kSamples * i / 4 * 4;
    window.resize(static_cast<size_t>(std::min(kWindowBytes, file.size() - at)));
    if (!file.read_at(at, window)) return largest;
    const int64_t payload = find_record_start(window, 0) + PartHeader::kBytes;
    if (payload > std::ssize(window)) continue;
    const auto record = parse_image_record(Bytes(window).subspan(static_cast<size_t>(payload)));
    if (record) largest = std::max(largest.value_or(0), record->label_at(0));
  }
  return largest;
}

// CIFAR-10 and CIFAR-100 have files of the same names; their labels tell them apart.
std::optional<std::string> which_cifar(const std::string& path) {
  const Result<RecordFile> file = RecordFile::open(path);
  const float label = file ? largest_label(*file).value_or(0) : 0;
  if (label < 10) return "cifar10";
  return label < 100 ? std::optional<std::string>("cifar100") : std::nullopt;
}

}  // namespace

std::optional<std::string> recognize_data_set(const std::string& directory) {
  if (!find_idx(directory, kTrainImages).empty()) return "mnist";
  if (!exists(join(directory, "train.rec"))) return std::nullopt;
  if (exists(join(directory, "val.rec"))) return "imagenet";
  return exists(join(directory, "test.rec")) ? which_cifar(join(directory, "train.rec")) : std::nullopt;
}

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
  use_own_threads_only();
  DT_TRY(const Located located, locate(options));
  const Shape image = !options.image_shape.empty() ? options.image_shape : located.type ? located.type->image : Shape();
  DT_TRY_VOID(check_options(options, image));
  DT_TRY(const auto train, open_set(located.train, image, options.known, log), "opening the training data");

  AugmentOptions augment = common_augmentation(options, image, !located.train.images.empty());
  if (!options.mean_img.empty()) {
    const Distortion cut = central_crop(options.training.resize, options.training.interpolation);
    DT_TRY(augment.mean_image,
           mean_image(mean_image_path(options), image, cut, train, std::max(options.threads, 1), log));
  }
  DataSets sets{.train = nullptr,
                .validation = nullptr,
                .type = located.type ? located.type->name : "",
                .classes = located.type ? located.type->classes : 0};
  if (located.validation.given()) {
    DT_TRY(const auto validation, open_set(located.validation, image, options.known, log),
           "opening the validation data");
    augment.distortion = central_crop(options.val_resize, options.training.interpolation);
    sets.validation = augmented(validation, augment);
  }
  augment.distortion = options.training;
  sets.train = augmented(train, augment);
  return sets;
}

}  // namespace dtrain::data
