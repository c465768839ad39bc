// A trained model that --model names, and what it takes to compute it: what score, predict and export have in common.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "base/log.h"
#include "data/loading/loader.h"
#include "exec/executor.h"
#include "job/flags/flags.h"
#include "role/setup/network.h"
#include "tensor/parameter_memory.h"

namespace dtrain::infer {

// Takes a piece of a command's output.
using Write = std::function<Result<>(std::string_view)>;

struct ModelChoice {
  ModelChoice();

  std::string flag = "--model";  // what messages call it
  std::string model;             // a run directory, a prefix, or a .params file
  std::optional<int64_t> epoch;  // nullopt: the newest checkpoint
  // The network, the form of its images, how pixels become floats, and the threads. Of network and augment, what is
  // not set (empty or 0) is that of the run that trained the model.
  job::Flags flags;
  std::optional<job::Resize> val_resize;  // nullopt: that of the model
  // A model that was trained with a mean image then needs --mean-img, and the log shows how pixels become floats.
  bool reads_images = true;
};

struct TrainedModel {
  std::string params;         // the file of the weights
  job::Flags flags;           // of the choice, completed by those of the run that trained the model
  std::string data_dir = {};  // of the run's training data; empty if the files do not tell
  // How pixels become floats is said by the run that trained the model, by the data or by the flags; false: by
  // nothing.
  bool knows_pixels = true;
  bool has_mean_image = false;  // the run subtracted a mean image in place of a mean
  // Nothing says how large images become the network's input: image files, and those of class directories, are fitted.
  bool fits_images = false;

  [[nodiscard]] const job::NetworkFlags& network() const { return flags.job.network; }
};

// Finds the model's files and reads what they say about it. Code::kNotFound: there is no
// such model; kUsage: it is not known which network it is, or it needs a mean image.
Result<TrainedModel> find_model(const ModelChoice& choice, const Log& log);

// synset.txt beside the model, with the names of its classes by label. The file may not exist.
std::string class_names_beside(const TrainedModel& model);
// The names of the classes by label, from that file, or else from the one in the directory of the training data; empty:
// not known. The log names a file that does not fit.
Result<std::vector<std::string>> known_class_names(const TrainedModel& model, int64_t classes, const Log& log);

// A network with its learned tensors and statistics.
struct LearnedNetwork {
  role::Network network;
  ParameterMemory values;
};
// Reads the model's weights. Code::kData: a file is broken, or the weights are of another network.
Result<LearnedNetwork> read_network(const TrainedModel& model);

// A model that can be computed, and the labels and results of its network.
struct CompiledModel {
  std::unique_ptr<exec::Executor> executor;
  graph::Shapes shapes;
};
// Compiles the model for the CPU, for batches of --batch-size floats. Fails as read_network.
Result<CompiledModel> compile_model(const TrainedModel& model);

// Each of so many images once, in order, without labels, with the threads and the limit of bad records of the flags.
data::LoaderOptions in_order(const TrainedModel& model, int64_t images);

}  // namespace dtrain::infer
