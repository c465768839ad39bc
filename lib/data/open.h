// Finds and opens the data of a job: what --data-dir contains, or the files that the user names.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/log.h"
#include "data/distortion.h"
#include "data/loader.h"
#include "data/record_index.h"

namespace dtrain::data {

// The data flags as the user gave them. An empty value stands for the data set's own default.
struct DataOptions {
  std::string data_dir;
  std::string data_type;             // mnist, cifar10, cifar100, imagenet; empty: recognised from the files
  std::string data_train, data_val;  // record files, several joined by ';', or directories of them; joined to data_dir
  std::string data_train_idx, data_val_idx;
  Shape image_shape;            // [c, h, w]
  std::vector<float> rgb_mean;  // 3 values (4 with alpha), 0 to 255; default 123.68, 116.779, 103.939; mnist 0
  std::vector<float> rgb_std;   // default 1
  std::string mean_img;         // mean image file; a bare name lies in data_dir
  std::optional<float> scale;   // default 1; mnist 1/255
  bool mirror = false;          // training and validation
  Distortion training;          // of the training set alone, but for its interpolation
  int val_resize = 0;           // Distortion::resize of the validation set
  int threads = 1;              // for making the mean image
  KnownOffsets known = {};      // of record files without an index
};

struct DataSets {
  std::shared_ptr<const Dataset> train;
  std::shared_ptr<const Dataset> validation;  // nullptr: none was named
  std::string type;                           // as DataOptions::data_type; empty if unknown
  int64_t classes = 0;                        // of the type; 0 if unknown
};

// What is known of a data set by its name alone.
struct DataType {
  std::string name;
  int64_t classes;
  Shape image;
};
// mnist, cifar10, cifar100, imagenet; nullopt for other names.
std::optional<DataType> find_data_type(const std::string& name);

// The data set whose files `directory` holds: mnist by its idx files (plain or .gz), imagenet by train.rec and val.rec,
// cifar10 or cifar100 by train.rec and test.rec, whose labels are looked at. Nothing if it is none of these.
std::optional<std::string> recognise_data_set(const std::string& directory);

// The record files of both sets, the training set's first, each once; none if the sets are idx files. Errors as of
// open_dataset.
Result<std::vector<IndexedFile>> record_files(const DataOptions& options);

// Opens both sets. Code::kNotFound names the files that are missing and how to get them; kUsage what the flags lack.
// Makes indexes and the mean image where they are missing.
Result<DataSets> open_dataset(const DataOptions& options, const Log& log);

}  // namespace dtrain::data
