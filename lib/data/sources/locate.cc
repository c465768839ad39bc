#include "data/sources/locate.h"

#include <fmt/ranges.h>
#include <algorithm>
#include <filesystem>
#include <optional>

#include "base/missing_data.h"
#include "data/sources/folder_source.h"
#include "data/sources/record_source.h"

namespace dtrain::data {
namespace {

namespace fs = std::filesystem;

bool is_file(const std::string& path) {
  std::error_code ignored;
  return fs::exists(path, ignored) && !fs::is_directory(path, ignored);
}

bool is_folder(const std::string& path) {
  std::error_code ignored;
  return fs::is_directory(path, ignored);
}

std::string join(const std::string& directory, const std::string& name) {
  return directory.empty() ? name : (fs::path(directory) / name).string();
}

// The paths of a list "a.rec;b.rec" of names in the directory.
std::vector<std::string> in_directory(const std::string& directory, const std::string& names) {
  std::vector<std::string> paths = split_names(names);
  for (std::string& path : paths) path = join(directory, path);
  return paths;
}

// The file, plain or .gz; empty if neither is there.
std::string find_idx(const std::string& directory, std::string_view name) {
  std::string plain = join(directory, std::string(name));
  if (is_file(plain)) return plain;
  return is_file(plain + ".gz") ? plain + ".gz" : std::string();
}

constexpr std::string_view kTrainImages = "train-images-idx3-ubyte";

tl::unexpected<Error> missing(const std::string& directory, const std::vector<std::string>& names,
                              const std::string& type) {
  return fail(Code::kNotFound,
              "{}: {} {} missing for the data set {}; name other files with --data-train and --data-val, or pack "
              "images with 'dtrain im2rec'; {}",
              directory, fmt::join(names, ", "), names.size() == 1 ? "is" : "are", type, kWaysToGetData);
}

Result<Located> locate_idx(const std::string& directory, const std::string& type) {
  std::vector<std::string> absent;
  const auto find = [&](std::string_view name) {
    std::string path = find_idx(directory, name);
    if (path.empty()) absent.push_back(std::string(name) + "[.gz]");
    return path;
  };
  Located located;
  located.train.images = find(kTrainImages);
  located.train.labels = find("train-labels-idx1-ubyte");
  located.validation.images = find("t10k-images-idx3-ubyte");
  located.validation.labels = find("t10k-labels-idx1-ubyte");
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

// The binary files of a CIFAR data set, in `directory` or in the folder that its archive has.
struct CifarFiles {
  std::string type;
  std::string folder;
  std::vector<std::string> train;
  std::string test;
};
const CifarFiles& cifar_files(const std::string& type) {
  static const CifarFiles kTen = {
      "cifar10",
      "cifar-10-batches-bin",
      {"data_batch_1.bin", "data_batch_2.bin", "data_batch_3.bin", "data_batch_4.bin", "data_batch_5.bin"},
      "test_batch.bin"};
  static const CifarFiles kHundred = {"cifar100", "cifar-100-binary", {"train.bin"}, "test.bin"};
  return type == "cifar10" ? kTen : kHundred;
}

// The directory that has the first file; empty if none has.
std::string cifar_directory(const std::string& directory, const std::string& type) {
  const CifarFiles& files = cifar_files(type);
  for (const std::string& candidate : {directory, join(directory, files.folder)}) {
    if (is_file(join(candidate, files.train.front()))) return candidate;
  }
  return {};
}

Result<Located> locate_cifar(const std::string& directory, const std::string& type) {
  const CifarFiles& files = cifar_files(type);
  std::vector<std::string> absent;
  const auto find = [&](const std::string& name) {
    if (!is_file(join(directory, name))) absent.push_back(name);
    return join(directory, name);
  };
  Located located;
  for (const std::string& name : files.train) located.train.cifar.push_back(find(name));
  located.validation.cifar = {find(files.test)};
  if (!absent.empty()) return missing(directory, absent, type);
  return located;
}

bool has_folders(const std::string& directory) {
  const Result<std::vector<std::string>> folders = folders_in(directory);
  return folders && !folders->empty();
}

// Class folders in train/ and val/ or test/, in train/ alone, or in the directory itself.
Result<Located> locate_folder(const std::string& directory) {
  Located located;
  const std::string train = join(directory, "train");
  if (!has_folders(train)) {
    DT_TRY(const std::vector<std::string> folders, folders_in(directory));
    const auto is_set = [](const std::string& name) { return name == "train" || name == "val" || name == "test"; };
    if (!folders.empty() && std::ranges::all_of(folders, is_set)) {
      return fail(Code::kNotFound, "{}: {} must hold a folder of pictures for each class, but {} no folders; {}",
                  directory, fmt::join(folders, ", "), folders.size() == 1 ? "it has" : "they have", kWaysToGetData);
    }
    located.train.folder = directory;
    return located;
  }
  located.train.folder = train;
  for (const char* name : {"val", "test"}) {
    if (located.validation.given() || !is_folder(join(directory, name))) continue;
    located.validation.folder = join(directory, name);
  }
  return located;
}

Result<Located> locate_type(const DataFiles& files, const std::string& type) {
  const std::string& directory = files.data_dir;
  if (type == "mnist" || type == "idx") return locate_idx(directory, type);
  if (type == "folder") return locate_folder(directory);
  if (type == "cifar10" || type == "cifar100") {
    const std::string binary = cifar_directory(directory, type);
    if (!binary.empty() && !is_file(join(directory, "train.rec"))) return locate_cifar(binary, type);
  }
  return locate_records(files, type);
}

// The type by the names of the files: idx, records, cifar10, cifar100 or folder. A class folder may be anything, so it
// comes last.
Result<std::string> type_by_names(const std::string& directory) {
  std::vector<std::string> found;
  if (!find_idx(directory, kTrainImages).empty()) found.emplace_back("idx");
  if (is_file(join(directory, "train.rec"))) {
    found.emplace_back("records");
  } else {
    for (const char* type : {"cifar10", "cifar100"}) {
      if (!cifar_directory(directory, type).empty()) found.emplace_back(type);
    }
  }
  if (found.size() > 1) {
    return fail(Code::kUsage,
                "--data-dir {}: the directory has the files of several data sets ({}): choose one with --data-type",
                directory, fmt::join(found, ", "));
  }
  if (!found.empty()) return found.front();
  DT_TRY(const std::vector<std::string> folders, folders_in(directory));
  if (folders.size() >= 2 || has_folders(join(directory, "train"))) return "folder";
  const std::string hint =
      folders.size() == 1
          ? fmt::format(
                ". The directory has one folder, {}: if the data set is in it, give --data-dir {}; at least two "
                "class folders are needed",
                folders[0], join(directory, folders[0]))
          : "";
  return fail(Code::kNotFound,
              "--data-dir {}: the directory has neither idx files, nor train.rec with test.rec or val.rec, nor the "
              "binary files of CIFAR-10 or CIFAR-100, nor a folder of pictures for each class. Name other files with "
              "--data-train and --data-val, or pack a folder of images into PREFIX.rec with 'dtrain im2rec --recursive "
              "PREFIX {}'{}; {}",
              directory, directory, hint, kWaysToGetData);
}

enum class Form { kRecords, kIdx, kCifar, kFolder };

constexpr std::string_view kIdxImages = "images-idx3-ubyte";

// The form that a user's names for a set seem to have.
Form form_of(const std::vector<std::string>& paths) {
  const bool is_one = paths.size() == 1;
  if (is_one && fs::path(paths[0]).filename().string().find(kIdxImages) != std::string::npos) return Form::kIdx;
  if (std::ranges::all_of(paths, [](const std::string& path) { return path.ends_with(".bin"); })) return Form::kCifar;
  return is_one && has_folders(paths[0]) && !list_record_files(paths[0]) ? Form::kFolder : Form::kRecords;
}

// Whether pictures of a data set of this type may be in files of this form.
bool may_have(const std::string& type, Form form) {
  const bool is_cifar = type == "cifar10" || type == "cifar100";
  switch (form) {
    case Form::kIdx: return type == "idx" || type == "mnist";
    case Form::kCifar: return is_cifar;
    case Form::kRecords: return type != "idx" && type != "folder";
    case Form::kFolder: return type != "idx" && type != "records";
  }
  return false;
}

std::string_view name_of(Form form) {
  switch (form) {
    case Form::kIdx: return "an idx file";
    case Form::kCifar: return "a binary file of CIFAR";
    case Form::kRecords: return "taken for a record file";
    case Form::kFolder: break;
  }
  return "a folder of class folders";
}

// What the user may name for a data set of this type.
std::string_view forms_of(const std::string& type) {
  if (type == "idx") return "an idx file, which has 'images-idx3-ubyte' in its name";
  if (type == "records") return "record files";
  if (type == "folder") return "a folder with a folder of pictures for each class";
  if (type == "mnist") return "an idx file, record files or a folder of class folders";
  return type == "imagenet" ? "record files or a folder of class folders"
                            : "record files, CIFAR's binary files or a folder of class folders";
}

// The form in which names are read: the one that they seem to have, unless the given type says otherwise.
Result<Form> form_to_read(const DataFiles& files, const char* flag, const std::string& name,
                          const std::vector<std::string>& paths) {
  const Form form = form_of(paths);
  if (!files.type_given || may_have(files.data_type, form)) return form;
  if (files.data_type == "folder" && paths.size() == 1 && is_folder(paths[0])) return Form::kFolder;
  return fail(Code::kUsage,
              "--{} {}: this is {}, but --data-type {} stands for {}; name other data, or leave out --data-type", flag,
              name, name_of(form), files.data_type, forms_of(files.data_type));
}

Result<> check_present(const char* flag, const std::vector<std::string>& paths) {
  for (const std::string& path : paths) {
    std::error_code unknown;
    if (fs::exists(path, unknown) || unknown) continue;
    return fail(Code::kNotFound, "--{} {}: no such file or directory; {}", flag, path, kWaysToGetData);
  }
  return {};
}

std::string labels_beside(std::string images) {
  return images.replace(images.rfind(kIdxImages), std::string_view("images-idx3").size(), "labels-idx1");
}

// The values of the flags that name one set, and the name of the first of these flags.
struct NamedSet {
  const char* flag;
  const std::string& name;
  const std::string& index;
};
// The files that the names stand for; none without a name.
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
    case Form::kFolder: named.folder = paths[0]; break;
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
    return fail(Code::kUsage, "no training data: give --data-dir or --data-train; {}", kWaysToGetData);
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
  return fail(Code::kUsage,
              "--path-imglist {}: only records have the ids by which the list finds labels; the training data are no "
              "record files",
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
