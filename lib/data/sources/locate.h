// Finds the files that the data flags of a job name. Only names are examined here; recognize.h examines contents.
#pragma once

#include <string>
#include <vector>

#include "base/error.h"
#include "data/records/record_index.h"

namespace dtrain::data {

// The flags that name the data. A flag that was not given is empty.
struct DataFiles {
  std::string data_dir;
  std::string data_type;    // name of the data type, as find_data_type takes it; empty: recognized from the files
  bool type_given = false;  // whether the user chose data_type; named files of a different form are then refused
  // The files of the training and the validation set, with paths relative to data_dir: record files separated by ';', a
  // directory of record files or of class directories, an idx file, or CIFAR's own files.
  std::string data_train, data_val;
  std::string data_train_idx, data_val_idx;
};

// The files of a training or validation set: one of these forms.
struct SetFiles {
  std::string records, index;             // as accepted by list_record_files; `index` is for a single file
  std::string images, labels;             // paths of the idx files with the images and the labels
  std::vector<std::string> cifar;         // CIFAR's binary files or pickled batches
  std::string directory;                  // directory that contains one subdirectory of images per class
  std::vector<std::string> classes = {};  // names of these subdirectories

  [[nodiscard]] bool given() const {
    return !records.empty() || !images.empty() || !cifar.empty() || !directory.empty();
  }
};
struct Located {
  SetFiles train, validation;
  std::vector<std::string> left_out = {};  // unused directories next to class directories
  std::vector<std::string> warnings = {};  // about directories whose names contradict how they are used
};

// Finds the files of both sets by their names. Code::kNotFound names the files that are missing, or what the directory
// holds; kUsage: no data was named, the directory holds two data sets, or the form of the files that the user named
// does not suit the given data type.
Result<Located> locate(const DataFiles& files);

// Code::kUsage if --path-imglist LABEL_LIST is given and the training data are not record files, because the list finds
// labels by record id. If there is no list, any files are accepted.
Result<> check_label_list_fits(const std::string& label_list, const SetFiles& training);

// The record files of a set; empty if it consists of other files. Code::kUsage: an index for several files.
Result<std::vector<IndexedFile>> records_of(const SetFiles& files);

}  // namespace dtrain::data
