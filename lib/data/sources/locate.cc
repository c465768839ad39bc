#include "data/sources/locate.h"

#include <fmt/ranges.h>
#include <algorithm>
#include <array>
#include <filesystem>
#include <fstream>
#include <initializer_list>
#include <optional>
#include <set>

#include "base/file.h"
#include "base/file_kind.h"
#include "base/missing_data.h"
#include "data/sources/cifar_source.h"
#include "data/sources/directory_layout.h"
#include "data/sources/idx_source.h"
#include "data/sources/image_directory.h"
#include "data/sources/record_source.h"

namespace dtrain::data {
namespace {

namespace fs = std::filesystem;

bool is_file(const std::string& path) {
  std::error_code ignored;
  return fs::exists(path, ignored) && !fs::is_directory(path, ignored);
}

bool is_directory(const std::string& path) {
  std::error_code ignored;
  return fs::is_directory(path, ignored);
}

std::string join(const std::string& directory, const std::string& name) {
  return directory.empty() ? name : (fs::path(directory) / name).string();
}

// The paths of the files in `directory` that a list of names such as "a.rec;b.rec" refers to.
std::vector<std::string> in_directory(const std::string& directory, const std::string& names) {
  std::vector<std::string> paths = split_paths(names, directory);
  for (std::string& path : paths) path = join(directory, path);
  return paths;
}

// The path itself or the path with ".gz", whichever file exists; empty if neither does.
std::string plain_or_gz(const std::string& path) {
  if (is_file(path)) return path;
  return is_file(path + ".gz") ? path + ".gz" : std::string();
}

tl::unexpected<Error> missing(const std::string& directory, const std::vector<std::string>& names,
                              const std::string& type) {
  return fail(Code::kNotFound,
              "{}: {} {} missing for the data set {}; name other files with --data-train and --data-val, or pack "
              "images with 'dtrain im2rec'; {}",
              directory, fmt::join(names, ", "), names.size() == 1 ? "is" : "are", type, kWaysToGetData);
}

// The prefixes of the idx sets in the directory: "" for MNIST's own train-images-idx3-ubyte, "emnist-letters-" for a
// set of EMNIST.
std::vector<std::string> idx_sets(const std::string& directory) {
  std::set<std::string> sets;
  std::error_code ignored;
  for (const auto& entry : fs::directory_iterator(directory, ignored)) {
    const std::string name = entry.path().filename().string();
    const size_t at = name.find("train-images");
    if (at != std::string::npos && is_idx_images(name)) sets.insert(name.substr(0, at));
  }
  return {sets.begin(), sets.end()};
}

// The file of images for one of `parts` of this set; empty if none exists.
std::string find_idx_images(const std::string& directory, const std::string& set,
                            std::initializer_list<const char*> parts) {
  for (const std::string part : parts) {
    for (const char separator : {'-', '.'}) {
      std::string path = plain_or_gz(join(directory, fmt::format("{}{}-images{}idx3-ubyte", set, part, separator)));
      if (!path.empty()) return path;
    }
  }
  return {};
}

// The file of labels that belongs to a file of images. The two names may differ in the separator and in .gz.
std::string labels_beside(const std::string& images) {
  const size_t at = images.rfind("images");
  const std::string begin = images.substr(0, at);
  for (const char separator : {images[at + std::string_view("images").size()], '-', '.'}) {
    std::string path = plain_or_gz(fmt::format("{}labels{}idx1-ubyte", begin, separator));
    if (!path.empty()) return path;
  }
  return begin + "labels-idx1-ubyte";
}

Result<Located> locate_idx(const std::string& directory, const std::string& type) {
  const std::vector<std::string> sets = idx_sets(directory);
  if (sets.size() > 1) {
    std::vector<std::string> names;
    names.reserve(sets.size());
    for (const std::string& set : sets) names.push_back(set + "train-images-idx3-ubyte");
    return fail(Code::kUsage,
                "{}: the directory has several sets of idx files: name the files of one set with --data-train ({}) and "
                "--data-val",
                directory, fmt::join(names, ", "));
  }
  const std::string set = sets.empty() ? "" : sets.front();
  std::vector<std::string> absent;
  const auto find = [&](std::initializer_list<const char*> parts, SetFiles& files) {
    files.images = find_idx_images(directory, set, parts);
    if (files.images.empty()) {
      for (const char* kind : {"images-idx3", "labels-idx1"})
        absent.push_back(fmt::format("{}{}-{}-ubyte[.gz]", set, *parts.begin(), kind));
      return;
    }
    files.labels = labels_beside(files.images);
    if (!is_file(files.labels)) absent.push_back(fs::path(files.labels).filename().string() + "[.gz]");
  };
  Located located;
  find({"train"}, located.train);
  find({"t10k", "test"}, located.validation);
  if (!absent.empty()) return missing(directory, absent, type);
  return located;
}

// The names that the validation data may have, the preferred one first.
std::vector<std::string> validation_names(const std::string& type) {
  if (type == "imagenet") return {"val.rec"};
  if (type == "records") return {"val.rec", "test.rec"};
  return {"test.rec", "val.rec"};
}

Result<Located> locate_records(const DataFiles& files, const std::string& type) {
  const auto has = [&](const std::string& name) { return is_file(join(files.data_dir, name)); };
  const std::vector<std::string> names = validation_names(type);
  const auto validation = std::ranges::find_if(names, has);
  std::vector<std::string> absent;
  if (!has("train.rec")) absent.emplace_back("train.rec");
  if (validation == names.end() && files.data_val.empty())
    absent.push_back(fmt::format("{}", fmt::join(names, " or ")));
  if (!absent.empty()) return missing(files.data_dir, absent, type);
  Located located;
  located.train.records = join(files.data_dir, "train.rec");
  if (validation != names.end()) located.validation.records = join(files.data_dir, *validation);
  return located;
}

// A form of CIFAR whose first file is in `directory`.
struct FoundCifar {
  const CifarForm& files;
  std::string directory;
};
std::optional<FoundCifar> find_cifar(const std::string& directory, Cifar kind) {
  for (const CifarForm& files : cifar_forms(kind)) {
    for (const std::string& candidate : {directory, join(directory, files.directory)}) {
      if (is_file(join(candidate, files.train.front()))) return FoundCifar{files, candidate};
    }
  }
  return std::nullopt;
}

Result<Located> locate_cifar(const FoundCifar& found, const std::string& type) {
  std::vector<std::string> absent;
  const auto find = [&](const std::string& name) {
    std::string path = join(found.directory, name);
    if (!is_file(path)) absent.push_back(name);
    return path;
  };
  Located located;
  for (const std::string& name : found.files.train) located.train.cifar.push_back(find(name));
  located.validation.cifar = {find(found.files.test)};
  if (!absent.empty()) return missing(found.directory, absent, type);
  return located;
}

bool has_directories(const std::string& directory) {
  const Result<std::vector<std::string>> directories = directories_in(directory);
  return directories && !directories->empty();
}

Result<Located> locate_directory(const std::string& directory) {
  DT_TRY(DirectoryLayout layout, directory_layout(directory));
  Located located;
  located.train.directory = std::move(layout.training);
  located.train.classes = std::move(layout.classes);
  located.validation.directory = std::move(layout.validation);
  located.left_out = std::move(layout.left_out);
  located.warnings = std::move(layout.warnings);
  return located;
}

Result<Located> locate_type(const DataFiles& files, const std::string& type) {
  const std::string& directory = files.data_dir;
  if (type == "mnist" || type == "idx") return locate_idx(directory, type);
  if (type == "folder") return locate_directory(directory);
  if (const std::optional<Cifar> kind = cifar_named(type)) {
    const std::optional<FoundCifar> found = find_cifar(directory, *kind);
    if (found && !is_file(join(directory, "train.rec"))) return locate_cifar(*found, type);
  }
  return locate_records(files, type);
}

// The type that the file names indicate: idx, records, cifar10, cifar100 or folder. Any directory could be a class
// directory, so that type comes last.
Result<std::string> type_by_names(const std::string& directory) {
  std::vector<std::string> found;
  if (!idx_sets(directory).empty()) found.emplace_back("idx");
  if (is_file(join(directory, "train.rec"))) {
    found.emplace_back("records");
  } else {
    for (const Cifar kind : {Cifar::k10, Cifar::k100}) {
      if (find_cifar(directory, kind)) found.emplace_back(name_of(kind));
    }
  }
  if (found.size() > 1) {
    return fail(Code::kUsage,
                "--data-dir {}: the directory has the files of several data sets ({}): choose one with --data-type",
                directory, fmt::join(found, ", "));
  }
  if (!found.empty()) return found.front();
  const Result<DirectoryLayout> layout = directory_layout(directory);
  if (layout) return "folder";
  if (layout.error().code != Code::kNotFound) return tl::unexpected(layout.error());
  const Result<std::vector<std::string>> directories = directories_in(directory);
  const std::string hint =
      directories && directories->size() == 1
          ? fmt::format(". The directory has one subdirectory, {}: if the data set is in it, give --data-dir {}",
                        directories->front(), join(directory, directories->front()))
          : "";
  return fail(
      Code::kNotFound,
      "--data-dir {}: the directory has neither idx files, nor train.rec with test.rec or val.rec, nor the files of "
      "CIFAR-10 or CIFAR-100, nor a subdirectory of images for each class. Name other files with --data-train and "
      "--data-val, or pack a directory of images into PREFIX.rec with 'dtrain im2rec --recursive PREFIX {}'{}; {}",
      directory, directory, hint, kWaysToGetData);
}

enum class Form { kRecords, kIdx, kCifar, kDirectory };

// True for a file of CIFAR: a binary one or a pickled one.
bool is_cifar_file(const std::string& path) {
  if (path.ends_with(".bin")) return true;
  if (!is_file(path)) return false;
  std::array<char, 2> begin{};
  std::ifstream(path, std::ios::binary).read(begin.data(), begin.size());
  return file_kind({begin.data(), begin.size()}) == "a pickled Python object";
}

// The form that the files named for a set appear to have.
Form form_of(const std::vector<std::string>& paths) {
  const bool is_one = paths.size() == 1;
  if (is_one && is_idx_images(fs::path(paths[0]).filename().string())) return Form::kIdx;
  if (std::ranges::all_of(paths, is_cifar_file)) return Form::kCifar;
  return is_one && has_directories(paths[0]) && !list_record_files(paths[0]) ? Form::kDirectory : Form::kRecords;
}

// True if a data set of this type may consist of files of this form.
bool may_have(const std::string& type, Form form) {
  switch (form) {
    case Form::kIdx: return type == "idx" || type == "mnist";
    case Form::kCifar: return cifar_named(type).has_value();
    case Form::kRecords: return type != "idx" && type != "folder";
    case Form::kDirectory: return type != "idx" && type != "records";
  }
  return false;
}

std::string_view name_of(Form form) {
  switch (form) {
    case Form::kIdx: return "an idx file";
    case Form::kCifar: return "a file of CIFAR";
    case Form::kRecords: return "treated as a record file";
    case Form::kDirectory: break;
  }
  return "a directory of class directories";
}

// Describes the files that the user may name for a data set of this type.
std::string_view forms_of(const std::string& type) {
  if (type == "idx") return "an idx file with 'images-idx3-ubyte' in its name";
  if (type == "records") return "record files";
  if (type == "folder") return "a directory with one subdirectory of images per class";
  if (type == "mnist") return "an idx file, record files or a directory of class directories";
  return type == "imagenet" ? "record files or a directory of class directories"
                            : "record files, CIFAR's own files or a directory of class directories";
}

// The form in which the named files are read: the one that their names indicate, unless the given type decides
// otherwise.
Result<Form> form_to_read(const DataFiles& files, const char* flag, const std::string& name,
                          const std::vector<std::string>& paths) {
  const Form form = form_of(paths);
  if (!files.type_given || may_have(files.data_type, form)) return form;
  if (files.data_type == "folder" && paths.size() == 1 && is_directory(paths[0])) return Form::kDirectory;
  return fail(Code::kUsage,
              "--{} {}: this is {}, but --data-type {} means {}; name other data, or leave out --data-type", flag, name,
              name_of(form), files.data_type, forms_of(files.data_type));
}

Result<> check_present(const char* flag, const std::vector<std::string>& paths) {
  for (const std::string& path : paths) {
    std::error_code unknown;
    if (fs::exists(path, unknown) || unknown) continue;
    return fail(Code::kNotFound, "--{} {}: no such file or directory; {}", flag, path, kWaysToGetData);
  }
  return {};
}

// The values of the flags that name one set, and the name of the first of these flags.
struct NamedSet {
  const char* flag;
  const std::string& name;
  const std::string& index;
};
// The files that the names refer to; none if no name is given.
Result<SetFiles> named_files(const DataFiles& files, const NamedSet& set) {
  SetFiles named;
  if (set.name.empty()) return named;
  const std::vector<std::string> paths = in_directory(files.data_dir, set.name);
  DT_TRY_VOID(check_present(set.flag, paths));
  DT_TRY(const Form form, form_to_read(files, set.flag, set.name, paths));
  switch (form) {
    case Form::kIdx:
      named.images = paths[0];
      named.labels = labels_beside(paths[0]);
      break;
    case Form::kCifar: named.cifar = paths; break;
    case Form::kDirectory: {
      DT_TRY(ClassDirectories directories, class_directories(paths[0]));
      named.directory = paths[0];
      named.classes = std::move(directories.classes);
      break;
    }
    case Form::kRecords:
      named.records = fmt::format("{}", fmt::join(paths, ";"));
      if (!set.index.empty()) named.index = join(files.data_dir, set.index);
      break;
  }
  return named;
}

}  // namespace

Result<Located> locate(const DataFiles& files) {
  const NamedSet validation{"data-val", files.data_val, files.data_val_idx};
  if (!files.data_train.empty()) {
    Located located;
    DT_TRY(located.train, named_files(files, {"data-train", files.data_train, files.data_train_idx}));
    DT_TRY(located.validation, named_files(files, validation));
    return located;
  }
  if (files.data_dir.empty()) {
    return fail(Code::kUsage, "the training data are missing: give --data-dir or --data-train; {}", kWaysToGetData);
  }
  std::string type = files.data_type;
  if (type.empty()) {
    DT_TRY(type, type_by_names(files.data_dir));
  }
  DT_TRY(Located located, locate_type(files, type));
  if (!files.data_train_idx.empty()) located.train.index = join(files.data_dir, files.data_train_idx);
  if (!files.data_val.empty()) {
    DT_TRY(located.validation, named_files(files, validation));
  } else if (!files.data_val_idx.empty()) {
    located.validation.index = join(files.data_dir, files.data_val_idx);
  }
  return located;
}

Result<> check_label_list_fits(const std::string& label_list, const SetFiles& training) {
  if (label_list.empty() || !training.records.empty()) return {};
  return fail(
      Code::kUsage,
      "--path-imglist {}: the list assigns labels to records by their ids, but the training data are not record files",
      label_list);
}

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

}  // namespace dtrain::data
