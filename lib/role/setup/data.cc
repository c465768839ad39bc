#include "role/setup/data.h"

#include <fmt/ranges.h>
#include <algorithm>
#include <filesystem>

#include "base/file.h"
#include "base/printable.h"
#include "data/records/label_list.h"
#include "job/resolve/augmentation.h"
#include "job/resolve/data_set.h"
#include "role/process/run_dir.h"
#include "role/setup/threads.h"

namespace dtrain::role {

namespace {

images::ColorDistortion color_distortion_of(const job::AugmentFlags& augment) {
  return {.brightness = augment.brightness,
          .contrast = augment.contrast,
          .saturation = augment.saturation,
          .h_max = static_cast<int>(augment.max_random_h),
          .s_max = static_cast<int>(augment.max_random_s),
          .l_max = static_cast<int>(augment.max_random_l),
          .pca_noise = augment.pca_noise};
}

}  // namespace

static_assert(job::Resize::kFit == images::kFitCrop && job::Resize::kOff == images::kKeepSize);

images::Distortion distortion_of(const job::AugmentFlags& augment) {
  const job::AspectRange aspect = job::aspect_range(augment);
  return {.interpolation = static_cast<images::Interpolation>(augment.inter_method),
          .resize = static_cast<int>(augment.resize.value_or(job::Resize()).edge),
          .rotate_max = static_cast<int>(augment.max_random_rotate_angle),
          .rotate = static_cast<int>(augment.rotate),
          .rotate_list = {augment.rotate_list.begin(), augment.rotate_list.end()},
          .shear_max = augment.max_random_shear_ratio,
          .scale = {augment.min_random_scale, augment.max_random_scale},
          .aspect = {aspect.min, aspect.max},
          .img_size_min = augment.min_img_size,
          .img_size_max = augment.max_img_size,
          .pad = static_cast<int>(augment.pad_size),
          .fill_value = static_cast<int>(augment.fill_value),
          .random_crop = augment.random_crop,
          .random_resized_crop = augment.random_resized_crop,
          .area = {augment.min_random_area, augment.max_random_area},
          .crop_size_min = static_cast<int>(augment.min_crop_size),
          .crop_size_max = static_cast<int>(augment.max_crop_size),
          .color = color_distortion_of(augment),
          .random_mirror = augment.random_mirror,
          .random_contrast = augment.max_random_contrast,
          .random_illumination = augment.max_random_illumination};
}

namespace {

// Whether the user has set the value for this start. Values that come from the resumed run do not count.
bool is_chosen(job::Source source) {
  return source != job::Source::kDefault && source != job::Source::kResumed;
}

}  // namespace

data::DataOptions data_options(const job::Flags& flags) {
  const job::AugmentFlags& augment = flags.job.augment;
  const auto floats = [](const std::vector<double>& values) {
    return std::vector<float>(values.begin(), values.end());
  };
  data::DataOptions options;
  options.data_dir = flags.data.data_dir;
  options.data_type = augment.data_type;
  options.type_given = !augment.data_type.empty() && is_chosen(flags.source("data-type"));
  options.data_train = flags.data.data_train;
  options.data_val = flags.data.data_val;
  options.data_train_idx = flags.data.data_train_idx;
  options.data_val_idx = flags.data.data_val_idx;
  options.image_shape = flags.job.network.image_shape;
  options.label_width = augment.label_width;
  options.label_list = flags.data.path_imglist;
  options.rgb_mean = floats(augment.rgb_mean);
  options.rgb_std = floats(augment.rgb_std);
  options.mean_img = flags.data.mean_img;
  if (augment.scale) options.scale = static_cast<float>(*augment.scale);
  options.mirror = augment.mirror;
  options.training = distortion_of(augment);
  options.val_resize = static_cast<int>(augment.val_resize.value_or(job::Resize()).edge);
  options.threads = plan_threads(flags).decode;
  return options;
}

namespace {

// Batches per epoch and worker: --num-batches, else as many as the real data set would fill.
int64_t synthetic_batches(const job::JobFlags& flags) {
  if (flags.augment.num_batches > 0) return flags.augment.num_batches;
  const job::DataSet* set = job::find_data_set(flags.augment.data_type);
  const int64_t examples = flags.augment.num_examples > 0 ? flags.augment.num_examples
                           : set != nullptr               ? set->records_train
                                                          : 0;
  return std::max<int64_t>(1, examples / flags.batch_size / flags.num_workers);
}

}  // namespace

data::SyntheticOptions synthetic_options(const job::JobFlags& flags, uint32_t rank) {
  return {.image = flags.network.image_shape,
          .classes = std::vector(static_cast<size_t>(flags.augment.label_width), flags.network.num_classes),
          .batch_size = flags.batch_size,
          .batches = synthetic_batches(flags) * flags.num_workers,
          .seed = flags.seed.value_or(0),
          .rank = rank};
}

Result<data::Located> locate_data(const job::Flags& flags) {
  return data::locate(data_options(flags));
}

Result<std::vector<data::IndexedFile>> record_files(const job::Flags& flags) {
  if (flags.job.augment.benchmark) return std::vector<data::IndexedFile>{};
  return data::record_files(data_options(flags));
}

Result<bool> check_data_files(const job::Flags& flags) {
  if (flags.job.augment.benchmark) return false;
  DT_TRY(const data::Located located, locate_data(flags), "looking for the data");
  for (const data::SetFiles* set : {&located.train, &located.validation}) {
    DT_TRY_VOID(data::records_of(*set), "looking for the data");
    std::error_code ignored;
    if (!set->index.empty() && !std::filesystem::exists(set->index, ignored)) {
      return fail(Code::kNotFound, "{}: no such index of record files", set->index);
    }
  }
  const std::string& list = flags.data.path_imglist;
  if (!list.empty()) DT_TRY_VOID(data::check_label_list_fits(list, located.train));
  std::error_code ignored;
  if (!list.empty() && !std::filesystem::exists(list, ignored)) {
    return fail(Code::kNotFound, "--path-imglist {}: no such file", list);
  }
  return located.validation.given();
}

namespace {

// Takes the number of classes from the list of labels, because with such a list the labels in the records are not used.
Result<> take_classes_of_list(const job::Flags& flags, job::FoundData& found) {
  if (flags.data.path_imglist.empty()) return {};
  DT_TRY(const auto list,
         data::LabelList::read(flags.data.path_imglist, static_cast<size_t>(flags.job.augment.label_width)));
  const std::optional<int64_t> classes = list->classes();
  found.name = "records";
  found.classes = classes.value_or(0);
  found.seen += classes ? fmt::format("; {} has the labels 0 to {}", list->name(), *classes - 1)
                        : fmt::format("; the labels in {} are not consecutive integers from 0", list->name());
  return {};
}

Result<job::FoundData> recognize(const job::Flags& given) {
  const data::DataOptions options = data_options(given);
  if (!options.label_list.empty()) {
    DT_TRY(const data::Located located, data::locate(options));
    DT_TRY_VOID(data::check_label_list_fits(options.label_list, located.train));
  }
  DT_TRY(data::Recognized found, data::recognize(options));
  job::FoundData data{.name = std::move(found.type.name),
                      .classes = found.type.classes,
                      .image_shape = std::move(found.type.image),
                      .seen = std::move(found.seen),
                      .channels = found.channels};
  DT_TRY_VOID(take_classes_of_list(given, data));
  return data;
}

// Whether the images may have any size, as in class directories. A data set with a name of its own may also consist of
// class directories; that is known only if this process can see its files.
job::AnySize any_size_of(const job::Flags& flags) {
  if (flags.job.augment.benchmark) return {};
  const Result<data::Located> located = locate_data(flags);
  const bool trains_on_directories =
      located ? !located->train.directory.empty() : flags.job.augment.data_type == "folder";
  // If there are no validation data, the images with which the model is scored later are assumed to be like those of
  // training.
  const bool has_validation = located && located->validation.given();
  return {trains_on_directories, has_validation ? !located->validation.directory.empty() : trains_on_directories};
}

}  // namespace

Result<> apply_own_data_set(job::Flags& flags) {
  DT_TRY_VOID(job::apply_own_data_set(flags, recognize));
  job::complete_resize(any_size_of(flags), flags.job.augment);
  return {};
}

std::string pixels_text(const job::Flags& flags) {
  const job::AugmentFlags& augment = flags.job.augment;
  const std::string& file = flags.data.mean_img;
  return fmt::format("images {}, mean {}, deviation {}, scale {}", to_string(flags.job.network.image_shape),
                     file.empty() ? fmt::format("{}", fmt::join(augment.rgb_mean, ",")) : "image " + printable(file),
                     fmt::join(augment.rgb_std, ","), augment.scale.value_or(1));
}

Result<> introduce_data(const job::Flags& flags, const data::DataSets& data, const std::string& run_dir,
                        const Log& log) {
  if (!data.found.empty()) {
    log.info("{}", data.found);
    log.info("{}", pixels_text(flags));
  }
  for (const std::string& warning : data.warnings) log.warn("{}", warning);
  if (data.class_names.empty()) return {};
  return write_file_atomic(run_dir + "/" + kClassNamesFile, fmt::format("{}\n", fmt::join(data.class_names, "\n")));
}

Result<data::DataSets> open_data(const job::Flags& flags, uint32_t rank, const Log& log, data::KnownOffsets known) {
  if (!flags.job.augment.benchmark) {
    data::DataOptions options = data_options(flags);
    options.known = std::move(known);
    return data::open_dataset(options, log);
  }
  return data::DataSets{.train = data::synthetic(synthetic_options(flags.job, rank)),
                        .validation = nullptr,
                        .classes = flags.job.network.num_classes};
}

Result<std::shared_ptr<const data::Dataset>> open_images(const job::Flags& flags, const std::vector<std::string>& names,
                                                         const Log& log) {
  return data::open_unlabeled(names, data_options(flags), log);
}
}  // namespace dtrain::role
