// Finds and opens the data of a job: what --data-dir contains, or the files that the user names.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/log.h"
#include "data/loading/loader.h"
#include "data/records/record_index.h"
#include "data/sources/recognize.h"
#include "images/augmentation/distortion.h"

namespace dtrain::data {

// The data flags as the user gave them. An empty value means the data set's own default.
struct DataOptions : DataFiles {
  Shape image_shape;        // shape of the images: [c, h, w]
  int64_t label_width = 1;  // number of labels of every image
  // The list that gives the labels of the training records (label_list.h); empty: the records' own labels are used.
  std::string label_list;
  // Mean of each channel: 3 values (4 with alpha) from 0 to 255; empty: 123.68, 116.779, 103.939, or 0 for mnist.
  std::vector<float> rgb_mean;
  std::vector<float> rgb_std;  // standard deviation of each channel, by which pixels are divided; empty: 1
  std::string mean_img;        // mean image file; a name without a directory is in data_dir
  std::optional<float> scale;  // factor by which pixels are multiplied; if it is not set: 1, or 1/255 for mnist
  bool mirror = false;         // whether images are mirrored, in training and validation
  // the random changes to training images; of these, validation uses only the interpolation
  images::Distortion training;
  int val_resize = 0;       // how validation images are resized before the crop, as in images::Distortion::resize
  int threads = 1;          // number of threads that compute the mean image
  KnownOffsets known = {};  // offsets of record files without an index
};

struct DataSets {
  std::shared_ptr<const Dataset> train;
  std::shared_ptr<const Dataset> validation;  // the validation set; nullptr: none was named
  int64_t classes = 0;                        // number of classes; 0: unknown
  // names of the classes, indexed by label; empty unless the data are class directories
  std::vector<std::string> class_names = {};
  // What was found: "training: 1,500 images in 5 classes (...); validation: 300; left out: ...".
  std::string found = {};
  // What was found for validation: "300 images in 5 classes (...); left out: ...".
  std::string found_for_validation = {};
  std::vector<std::string> warnings = {};  // warnings about how the files were understood, for the log
};

// The record files of both sets, first those of the training set, each file once. Empty if the sets are idx files.
// Fails in the same cases as open_dataset.
Result<std::vector<IndexedFile>> record_files(const DataOptions& options);

// Opens both sets. Creates missing indexes and a missing mean image. Code::kNotFound names the missing files and how to
// get them; kUsage: the flags contradict each other or the data, or the directory holds several data sets.
Result<DataSets> open_dataset(const DataOptions& options, const Log& log);

// The images that `names` refer to (named_images.h), read like a validation set with these options. The files in the
// options are ignored; the shape, the mean and the scale must be given. Code::kNotFound: there is no mean image.
Result<std::shared_ptr<const Dataset>> open_unlabeled(const std::vector<std::string>& names, const DataOptions& options,
                                                      const Log& log);

}  // namespace dtrain::data
