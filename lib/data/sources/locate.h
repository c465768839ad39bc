// Which files the data flags of a job stand for. Only names are looked at here; recognize.h looks at contents.
#pragma once

#include <string>
#include <vector>

#include "base/error.h"
#include "data/records/record_index.h"

namespace dtrain::data {

// The flags that name the data. An empty value was not given.
struct DataFiles {
  std::string data_dir;
  std::string data_type;             // a name of find_data_type; empty: recognized from the files
  bool type_given = false;           // the user chose data_type: named files of another form are refused
  std::string data_train, data_val;  // record files, separated by ';', a directory of them or of class directories, an
                                     // idx file or CIFAR's own files; relative to data_dir
  std::string data_train_idx, data_val_idx;
};

// The files of a training or validation set: one of these forms.
struct SetFiles {
  std::string records, index;             // as list_record_files takes them; the index of a single file
  std::string images, labels;             // idx files
  std::vector<std::string> cifar;         // CIFAR's binary files or batches for Python
  std::string directory;                  // a directory with one subdirectory of images per class,
  std::vector<std::string> classes = {};  // and these directories

  [[nodiscard]] bool given() const {
    return !records.empty() || !images.empty() || !cifar.empty() || !directory.empty();
  }
};
struct Located {
  SetFiles train, validation;
  std::vector<std::string> left_out = {};  // directories beside class directories that are not used
  std::vector<std::string> warnings = {};  // about directories whose names speak against how they are used
};

// Finds the files of both sets by their names. Code::kNotFound names the files that are missing, or what the directory
// holds; kUsage: no data was named, the directory holds two data sets, or the files that the user named are not of a
// form that the given data type may have.
Result<Located> locate(const DataFiles& files);

// Code::kUsage if the training data are no record files, and --path-imglist LABEL_LIST is given: it finds labels by the
// ids of records. Without a list any files will do.
Result<> check_label_list_fits(const std::string& label_list, const SetFiles& training);

// The record files of a set; empty if it consists of other files. Code::kUsage: an index for several files.
Result<std::vector<IndexedFile>> records_of(const SetFiles& files);

}  // namespace dtrain::data
