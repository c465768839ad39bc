#include "data/sources/locate.h"

#include <algorithm>
#include <filesystem>
#include <optional>

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

// The names of a list "a.rec;b.rec", each with the directory before it.
std::vector<std::string> in_directory(const std::string& directory, const std::string& names) {
  std::vector<std::string> paths;
  for (size_t begin = 0; begin <= names.size();) {
    const size_t end = std::min(names.find(';', begin), names.size());
    if (end > begin) paths.push_back(join(directory, names.substr(begin, end - begin)));
    begin = end + 1;
  }
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
              "images with 'dtrain im2rec'",
              directory, fmt::join(names, ", "), names.size() == 1 ? "is" : "are", type);
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

Result<Located> locate_records(const DataFiles& files, const std::string& type) {
  std::string validation = type == "imagenet" ? "val.rec" : "test.rec";
  if (type == "records" && is_file(join(files.data_dir, "val.rec"))) validation = "val.rec";
  std::vector<std::string> absent;
  if (!is_file(join(files.data_dir, "train.rec"))) absent.emplace_back("train.rec");
  if (!is_file(join(files.data_dir, validation))) {
    absent.push_back(type == "records" ? "test.rec or val.rec" : validation);
  }
  if (!files.data_val.empty() && absent.size() == 1 && absent[0] != "train.rec") absent.clear();
  if (!absent.empty()) return missing(files.data_dir, absent, type);
  Located located;
  located.train.records = join(files.data_dir, "train.rec");
  located.validation.records = join(files.data_dir, validation);
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
      return fail(Code::kNotFound, "{}: {} must hold a folder of pictures for each class, but {} no folders", directory,
                  fmt::join(folders, ", "), folders.size() == 1 ? "it has" : "they have");
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
  return fail(Code::kNotFound,
              "--data-dir {}: the directory has neither idx files, nor train.rec with test.rec or val.rec, nor the "
              "binary files of CIFAR-10 or CIFAR-100, nor a folder of pictures for each class. Name other files with "
              "--data-train and --data-val, or pack a folder of images into PREFIX.rec with 'dtrain im2rec --recursive "
              "PREFIX {}'",
              directory, directory);
}

// The files that a user's name for a set stands for.
SetFiles named_files(const std::string& directory, const std::string& name, const std::string& index) {
  SetFiles files;
  if (name.empty()) return files;
  const std::vector<std::string> paths = in_directory(directory, name);
  constexpr std::string_view kImages = "images-idx3-ubyte";
  const size_t images = name.rfind(kImages);
  if (images != std::string::npos) {
    files.images = join(directory, name);
    files.labels =
        join(directory, std::string(name).replace(images, std::string_view("images-idx3").size(), "labels-idx1"));
  } else if (std::ranges::all_of(paths, [](const std::string& path) { return path.ends_with(".bin"); })) {
    files.cifar = paths;
  } else if (paths.size() == 1 && is_folder(paths[0]) && !list_record_files(paths[0]) && has_folders(paths[0])) {
    files.folder = paths[0];
  } else {
    files.records = fmt::format("{}", fmt::join(paths, ";"));
    if (!index.empty()) files.index = join(directory, index);
  }
  return files;
}

}  // namespace

Result<Located> locate(const DataFiles& files) {
  if (!files.data_train.empty()) {
    return Located{.train = named_files(files.data_dir, files.data_train, files.data_train_idx),
                   .validation = named_files(files.data_dir, files.data_val, files.data_val_idx)};
  }
  if (files.data_dir.empty()) return fail(Code::kUsage, "no training data: give --data-dir or --data-train");
  std::string type = files.data_type;
  if (type.empty()) {
    DT_TRY(type, type_by_names(files.data_dir));
  }
  DT_TRY(Located located, locate_type(files, type));
  if (!files.data_train_idx.empty()) located.train.index = join(files.data_dir, files.data_train_idx);
  if (!files.data_val.empty()) {
    located.validation = named_files(files.data_dir, files.data_val, files.data_val_idx);
  } else if (!files.data_val_idx.empty()) {
    located.validation.index = join(files.data_dir, files.data_val_idx);
  }
  return located;
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
