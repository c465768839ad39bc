// A trained model, given by --model, and the code for its computation that score, predict and export share.
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
#include "role/setup/devices.h"
#include "role/setup/network.h"
#include "tensor/parameter_memory.h"

namespace dtrain::infer {

// Writes a piece of the output of a command.
using Write = std::function<Result<>(std::string_view)>;

struct ModelChoice {
  ModelChoice();

  std::string flag = "--model";  // the flag that gives the model, for messages
  std::string model;             // a run directory, a prefix, or a .params file
  std::optional<int64_t> epoch;  // epoch of the checkpoint; nullopt: the latest checkpoint
  // The network, the shape of its images, how pixels are converted to floats, and the number of threads. Network and
  // augmentation flags that are not set (empty or 0) are taken from the run that trained the model.
  job::Flags flags;
  std::optional<job::Resize> val_resize;  // how validation images are resized; nullopt: as in the model's run
  // Whether images are read. If true, a model that was trained with a mean image needs --mean-img, and the log says how
  // pixels are converted to floats.
  bool reads_images = true;
};

struct TrainedModel {
  std::string params;         // path of the file with the weights
  job::Flags flags;           // the flags of the ModelChoice, completed by the flags of the run that trained the model
  std::string data_dir = {};  // directory of the run's training data; empty if the model's files do not contain it
  // True if it is known how pixels are converted to floats: from the run that trained the model, the data or the flags.
  bool knows_pixels = true;
  bool has_mean_image = false;  // whether the run subtracted a mean image instead of a mean value for each channel
  // True if it is unknown how images of another size are resized to the network's input; image files and the images in
  // class directories are then resized to fit.
  bool fits_images = false;

  [[nodiscard]] const job::NetworkFlags& network() const { return flags.job.network; }
};

// Finds the files of the model and reads the information about it. Code::kNotFound: there is no such model; kUsage: its
// network is not known, or a mean image is needed but not given.
Result<TrainedModel> find_model(const ModelChoice& choice, const Log& log);

// The path of synset.txt next to the model, which lists the names of its classes by label. The file may not exist.
std::string class_names_beside(const TrainedModel& model);
// The names of the classes, indexed by label: from synset.txt next to the model, or, if that file does not exist, from
// synset.txt in the directory of the training data. Empty: unknown. A warning is logged if a file does not fit the
// model.
Result<std::vector<std::string>> known_class_names(const TrainedModel& model, int64_t classes, const Log& log);

// A network with its learned arrays and statistics.
struct LearnedNetwork {
  role::Network network;
  ParameterMemory values;
};
// Reads the model's weights. Code::kData: a file is broken, or the weights belong to another network.
Result<LearnedNetwork> read_network(const TrainedModel& model);

// A model that is ready to run, with the labels and results of its network.
struct CompiledModel {
  role::Devices devices;  // declared first, because it must outlive the executor
  std::unique_ptr<exec::Executor> executor;
  graph::Shapes shapes;
};
// Compiles the model in float32 for batches of --batch-size images, for the CPU or the GPU that --gpus names. Fails
// like read_network and Devices::open; Code::kUsage if there are several GPUs.
Result<CompiledModel> compile_model(TrainedModel model, const Log& log);

// Options for a loader that loads each of the `images` images once, in order and without labels. The number of threads
// and the limit of bad records are taken from the flags.
data::LoaderOptions in_order(const TrainedModel& model, int64_t images);

}  // namespace dtrain::infer
