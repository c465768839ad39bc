// A trained model that --model names, and the code to compute it that score, predict and export share.
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

// Writes a piece of a command's output.
using Write = std::function<Result<>(std::string_view)>;

struct ModelChoice {
  ModelChoice();

  std::string flag = "--model";  // the flag that messages name
  std::string model;             // a run directory, a prefix, or a .params file
  std::optional<int64_t> epoch;  // nullopt: the latest checkpoint
  // The network, the form of its images, how pixels become floats, and the threads. Flags of network and augment that
  // are not set (empty or 0) are taken from the run that trained the model.
  job::Flags flags;
  std::optional<job::Resize> val_resize;  // nullopt: the model's own
  // If true, a model that was trained with a mean image needs --mean-img, and the log says how pixels become floats.
  bool reads_images = true;
};

struct TrainedModel {
  std::string params;         // path of the file with the weights
  job::Flags flags;           // those of the choice, completed by those of the run that trained the model
  std::string data_dir = {};  // directory of the run's training data; empty if the files do not contain it
  // True if the run that trained the model, the data or the flags determine how pixels become floats.
  bool knows_pixels = true;
  bool has_mean_image = false;  // the run subtracted a mean image in place of a mean
  // It is unknown how large images become the network's input: image files, and those of class directories, are fitted.
  bool fits_images = false;

  [[nodiscard]] const job::NetworkFlags& network() const { return flags.job.network; }
};

// Finds the model's files and reads the information about it. Code::kNotFound: there is no such model; kUsage: its
// network is not known, or it needs a mean image.
Result<TrainedModel> find_model(const ModelChoice& choice, const Log& log);

// The path of synset.txt next to the model, with the names of its classes, indexed by label. The file may not exist.
std::string class_names_beside(const TrainedModel& model);
// The names of the classes, indexed by label, from that file, or otherwise from the one in the directory of the
// training data; empty: not known. The log names a file that does not fit.
Result<std::vector<std::string>> known_class_names(const TrainedModel& model, int64_t classes, const Log& log);

// A network with its learned tensors and statistics.
struct LearnedNetwork {
  role::Network network;
  ParameterMemory values;
};
// Reads the model's weights. Code::kData: a file is broken, or the weights belong to another network.
Result<LearnedNetwork> read_network(const TrainedModel& model);

// A model ready to be computed, and the labels and results of its network.
struct CompiledModel {
  role::Devices devices;  // declared first, because it must outlive the executor
  std::unique_ptr<exec::Executor> executor;
  graph::Shapes shapes;
};
// Compiles the model in float32 for batches of --batch-size images, for the CPU or the GPU that --gpus names. Fails
// like read_network and Devices::open; Code::kUsage if there are several GPUs.
Result<CompiledModel> compile_model(const TrainedModel& model, const Log& log);

// Options to load each of `images` images once, in order, without labels, with the threads and the limit of bad records
// from the flags.
data::LoaderOptions in_order(const TrainedModel& model, int64_t images);

}  // namespace dtrain::infer
