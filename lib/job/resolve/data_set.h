// The data sets known by name (--data-type), and the defaults that they imply for other flags.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"

namespace dtrain::job {

struct AugmentFlags;
struct Flags;
struct JobFlags;

struct DataSet {
  std::string name;
  int64_t classes = 0;
  std::vector<int64_t> image_shape;  // shape of the images: [c, h, w]
  int64_t records_train = 0, records_val = 0;
  std::vector<double> rgb_mean;
  double scale = 1;
  double learning_rate = 0.1;  // the default in MXNet 1.x's script for this data set
};

// Null if there is no such data set.
const DataSet* find_data_set(std::string_view name);

// The data set that a network was designed for, and the shape of its images. They are the defaults for synthetic data.
// `network` is the value of --network; a `num_layers` above 0 overrides the depth in it.
std::string_view data_set_of_network(std::string_view network, int64_t num_layers = 0);
std::vector<int64_t> image_of_network(std::string_view network, int64_t num_layers = 0);
// The initial learning rate of MXNet's script for the network: the default of --lr.
double default_learning_rate(std::string_view network, int64_t num_layers = 0);
// The initializer that MXNet 1.x's scripts use for the network. This is what --initializer default means.
std::string default_initializer(std::string_view network);

// Fills in the values of the data set `name` (empty: unknown) for data_type, num_classes, image_shape, rgb_mean,
// rgb_std and scale, each only if it is not set yet. Code::kUsage, naming the flags, if the number of classes or the
// shape is not set and the data set is unknown.
Result<> apply_data_set(std::string_view name, JobFlags& flags);

// Whether the images of a set may have any size, as in class directories.
struct AnySize {
  bool training = false, validation = false;
};

// Sets --resize and --val-resize if they are not set yet: to "fit" for images of any size, otherwise to "off". With
// random crops of a random size, training images need no resize, so --resize then becomes "off" for images of any size
// too. A process that does not see the data leaves both unset.
void complete_resize(AnySize has_any_size, AugmentFlags& augment);

// What the files of a data set were found to be.
struct FoundData {
  std::string name;     // a name that find_data_set knows, or the form of another data set: idx, records, folder
  int64_t classes = 0;  // number of classes; 0: not known from the files
  std::vector<int64_t> image_shape;  // shape of the images, [c, h, w]; empty: not known from the files
  std::string seen = {};             // what the files contain, for messages
  int64_t channels = 0;              // channels of the images: 1 if all of them are gray, 3 if some are not; 0: unknown
};
// Looks at the files that the flags name.
using RecognizeDataSet = std::function<Result<FoundData>(const Flags& flags)>;

// Like apply_data_set, for a process that has the data files. The data set is that of --data-type. Without the flag it
// is the network's for synthetic data, and otherwise the one that the files are recognized as. Code::kUsage: the files
// do not determine the number of classes or the shape; the message says what they contain.
Result<> apply_own_data_set(Flags& flags, const RecognizeDataSet& recognize);

}  // namespace dtrain::job
