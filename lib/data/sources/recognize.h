// Recognizes a data set by the contents of its files.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/error.h"
#include "data/sources/cifar_source.h"
#include "data/sources/locate.h"
#include "tensor/shape.h"

namespace dtrain::data {

// The facts that follow from the name of a data set.
struct DataType {
  std::string name;
  int64_t classes;  // number of classes; 0: it depends on the data set
  Shape image;      // shape of the images, [c, h, w]; empty: it depends on the data set
};
// mnist, cifar10, cifar100, imagenet; and the forms of other data sets: idx, records, folder. nullopt for other
// names.
std::optional<DataType> find_data_type(const std::string& name);
// The names for messages: "mnist, cifar10, ...".
std::string data_type_names();

struct Recognized {
  DataType type;
  std::string seen;      // a description for messages: "data/train.rec has 10 labels from 0 to 9 and images of 48 x 48"
  int64_t channels = 0;  // for a set without a known name: 1 if all images are gray, 3 if some are not; 0: unknown
};
// Examines the files that `files` names. An idx set is recognized as mnist if it has 60000 training and 10000
// validation images of 28 x 28 pixels. Records are recognized as cifar10 or cifar100 if their images have 32 x 32
// pixels and all 10 or 100 labels occur, and as imagenet if they are in train.rec and val.rec and have 1000 labels. Any
// other set gets the name of its format. For such a set, the number of classes is known if the labels in the training
// set are 0, 1, ... without a gap. The shape of the images is known if all images have the same size and are at most
// kWholeImageMax pixels high and wide.
//
// Code::kNotFound: there is no data set; kUsage: there are several; kData: a file is broken or of another kind. If
// `needs_labels` is false, the label file of an idx set may be missing.
Result<Recognized> recognize(const DataFiles& files, bool needs_labels = true);
constexpr int64_t kWholeImageMax = 128;

// The CIFAR data set that these binary files belong to. Code::kData: they belong to neither.
Result<Cifar> recognize_cifar(const std::vector<std::string>& paths);

}  // namespace dtrain::data
