// The data sets known by name (--data-type), and the defaults that they imply for other flags.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "job/flags.h"

namespace dtrain::job {

struct DataSet {
  std::string name;
  int64_t classes = 0;
  std::vector<int64_t> image_shape;  // [c, h, w]
  int64_t records_train = 0, records_val = 0;
  std::vector<double> rgb_mean;
  double scale = 1;
  double learning_rate = 0.1;  // of MXNet 1.x's script for it
};

// nullptr: no such data set.
const DataSet* find_data_set(std::string_view name);

// The data set that a network is made for, and its images, for synthetic data that nothing else describes. `network` is
// --network, whose depth counts unless `num_layers` is given (above 0).
std::string_view data_set_of_network(std::string_view network, int64_t num_layers = 0);
std::vector<int64_t> image_of_network(std::string_view network, int64_t num_layers = 0);
// The learning rate that MXNet's script for it begins with: the default of --lr.
double rate_of_network(std::string_view network, int64_t num_layers = 0);

// Fills what was left to the data set `name` (empty: unknown) and is still open: data_type, num_classes, image_shape,
// rgb_mean, rgb_std, scale. Code::kUsage if the classes or the shape stay open, naming the flags.
Result<> apply_data_set(std::string_view name, JobFlags& flags);

// The name of the data set whose files a directory holds; nothing if there are none.
using RecogniseDataSet = std::optional<std::string> (*)(const std::string& directory);

// The same for one process that sees its files: by --data-type, else the files of --data-dir, else (synthetic data) the
// network.
Result<> apply_own_data_set(Flags& flags, RecogniseDataSet recognise);

}  // namespace dtrain::job
