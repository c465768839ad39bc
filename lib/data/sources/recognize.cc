#include "data/sources/recognize.h"

#include <algorithm>
#include <filesystem>
#include <memory>

#include "data/sources/idx_source.h"
#include "data/sources/image_directory.h"
#include "data/sources/record_source.h"
#include "data/sources/survey.h"

namespace dtrain::data {
namespace {

const std::vector<DataType>& data_types() {
  static const std::vector<DataType> kTypes = {{"mnist", 10, {1, 28, 28}},
                                               {"cifar10", 10, {3, 28, 28}},
                                               {"cifar100", 100, {3, 28, 28}},
                                               {"imagenet", 1000, {3, 224, 224}},
                                               {"idx", 0, {}},
                                               {"records", 0, {}},
                                               {"folder", 0, {}}};
  return kTypes;
}

// True if the images are so small that networks use them without cropping.
bool is_whole(const Survey& survey) {
  return survey.image && std::ranges::max(*survey.image) <= kWholeImageMax;
}

// A data set without a known name.
Recognized unnamed(const std::string& form, const std::string& where, const Survey& survey) {
  DataType type{form, survey.classes().value_or(0), is_whole(survey) ? *survey.image : Shape()};
  return {std::move(type), fmt::format("{} has {}", where, survey.text()), survey.channels()};
}

Recognized named(const std::string& name, const std::string& where, const Survey& survey) {
  return {*find_data_type(name), fmt::format("{} has {}", where, survey.text())};
}

Result<Recognized> recognize_idx(const Located& located, bool needs_labels) {
  DT_TRY(const IdxFacts train, idx_facts(located.train.images, needs_labels ? located.train.labels : ""));
  bool is_mnist = train.images == 60000 && train.rows == 28 && train.columns == 28;
  if (is_mnist && located.validation.given()) {
    DT_TRY(const IdxFacts validation, idx_facts(located.validation.images, located.validation.labels));
    is_mnist = validation.images == 10000 && validation.rows == 28 && validation.columns == 28;
  }
  const Survey survey{.labels = {train.labels.begin(), train.labels.end()},
                      .image = Shape{1, train.rows, train.columns},
                      .sizes = fmt::format("{} x {}", train.columns, train.rows),
                      .gray = true};
  const std::string& where = located.train.images;
  return is_mnist && survey.classes() == 10 ? named("mnist", where, survey) : unnamed("idx", where, survey);
}

Result<Recognized> recognize_records(const Located& located) {
  DT_TRY(const std::vector<std::string> paths, list_record_files(located.train.records));
  DT_TRY(const Survey survey, survey_records(paths));
  const std::string where = paths.size() == 1 ? paths[0] : located.train.records;
  const bool small = survey.image == Shape{3, 32, 32};
  if (small && survey.classes() == 10) return named("cifar10", where, survey);
  if (small && survey.classes() == 100) return named("cifar100", where, survey);
  // Only a sample of the labels of ImageNet's train.rec is read, because the file has 140 GB.
  const bool val = std::filesystem::path(located.validation.records).filename() == "val.rec";
  const bool up_to_thousand =
      !survey.complete && survey.are_classes && survey.labels.size() > 500 && *survey.labels.rbegin() < 1000;
  if (val && !is_whole(survey) && (survey.classes() == 1000 || up_to_thousand)) {
    return named("imagenet", where, survey);
  }
  return unnamed("records", where, survey);
}

Result<Recognized> recognize_directory(const Located& located) {
  const std::string& where = located.train.directory;
  const std::vector<std::string>& classes = located.train.classes;
  DT_TRY(const Survey survey, survey_directory(where, classes));
  if (classes.size() == 1 && !survey.sizes.empty()) {
    return fail(Code::kData,
                "{}: there is only one directory of images, '{}', but a classifier needs at least two classes: give a "
                "directory with a subdirectory of images for each class",
                where, classes[0]);
  }
  if (survey.sizes.empty() && !survey.unreadable.empty()) {
    return fail(Code::kData, "{}: none of the images that were examined can be read; the first of them: {}", where,
                survey.unreadable);
  }
  if (survey.sizes.empty()) {
    DT_TRY(const OtherFiles others, files_beside_classes(where));
    return tl::unexpected(no_images(where, others));
  }
  return unnamed("folder", where, survey);
}

}  // namespace

std::optional<DataType> find_data_type(const std::string& name) {
  const auto found = std::ranges::find(data_types(), name, &DataType::name);
  return found == data_types().end() ? std::nullopt : std::optional(*found);
}

std::string data_type_names() {
  std::string names;
  for (const DataType& type : data_types()) names += (names.empty() ? "" : ", ") + type.name;
  return names;
}

Result<Cifar> recognize_cifar(const std::vector<std::string>& paths) {
  const Result<std::shared_ptr<const ImageSource>> ten = open_cifar(Cifar::k10, paths);
  if (ten) return Cifar::k10;
  const Result<std::shared_ptr<const ImageSource>> hundred = open_cifar(Cifar::k100, paths);
  if (hundred) return Cifar::k100;
  const bool named_hundred = std::filesystem::path(paths.front()).filename() == "train.bin";
  return tl::unexpected((named_hundred ? hundred : ten).error());
}

Result<Recognized> recognize(const DataFiles& files, bool needs_labels) {
  DT_TRY(const Located located, locate(files));
  if (!located.train.images.empty()) return recognize_idx(located, needs_labels);
  if (!located.train.directory.empty()) return recognize_directory(located);
  if (located.train.cifar.empty()) return recognize_records(located);
  DT_TRY(const Cifar kind, recognize_cifar(located.train.cifar));
  const char* name = name_of(kind);
  return Recognized{*find_data_type(name), fmt::format("{} is a file of {}", located.train.cifar.front(), name)};
}

}  // namespace dtrain::data
