#include "infer/trained_model.h"

#include <fmt/ranges.h>
#include <filesystem>
#include <utility>

#include "data/sources/recognize.h"
#include "exec/contract.h"
#include "exec/folded_values.h"
#include "job/resolve/data_set.h"
#include "job/resolve/network_file.h"
#include "job/resolve/resolve.h"
#include "role/process/run_dir.h"
#include "role/setup/class_names.h"
#include "role/setup/data.h"
#include "role/setup/pretrained.h"
#include "role/setup/threads.h"
#include "train/checkpoint.h"
#include "train/fill_weights.h"

namespace dtrain::infer {
namespace {

// Sets the number of classes if it is not given. A symbol file determines it; dtrain's own networks can be built for
// any number.
Result<> complete_classes(const ModelChoice& choice, job::NetworkFlags& network) {
  if (network.num_classes > 0) return {};
  if (!job::is_name_of_file(network.network)) {
    return fail(Code::kUsage, "{} {}: the number of classes is not in the model's files: give --num-classes",
                choice.flag, choice.model);
  }
  DT_TRY(network.num_classes, role::classes_of_file(network));
  return {};
}

// Chooses the network of a model without a JobSpec: the network that the user names, or else the symbol file next to
// the model.
Result<> choose_network(const ModelChoice& choice, const std::string& params, job::Flags& flags) {
  job::NetworkFlags& network = flags.job.network;
  if (network.network.empty()) network.network = role::symbol_beside(params);
  if (network.network.empty()) {
    return fail(Code::kUsage,
                "{} {}: there is neither a jobspec nor a symbol file next to {}, so give --network and "
                "--num-classes, or --network FILE-symbol.json",
                choice.flag, choice.model, params);
  }
  return job::resolve_network_file(flags);
}

// The data type that is recognized from the data files; nullopt for image files, which do not have one. Class
// directories determine only the size of the images.
Result<std::optional<data::DataType>> type_of_images(const job::Flags& flags) {
  const job::DataFlags& data = flags.data;
  if (data.data_val.empty() && data.data_dir.empty()) return std::nullopt;
  data::DataOptions options = role::data_options(flags);
  options.data_type.clear();
  options.type_given = false;
  if (!data.data_val.empty()) {
    options.data_train = std::exchange(options.data_val, {});
    options.data_train_idx = std::exchange(options.data_val_idx, {});
  }
  DT_TRY(data::Recognized found, data::recognize(options, false), "looking at the data");
  return std::optional(std::move(found.type));
}

// Determines how pixels are converted to the floats that the network reads, for a model without a JobSpec. Values that
// the flags do not set are those of the data or, without data, those of the data set for which the network was
// designed.
Result<> complete_pixels(const ModelChoice& choice, TrainedModel& trained) {
  job::Flags& flags = trained.flags;
  job::NetworkFlags& network = flags.job.network;
  const job::AugmentFlags& augment = flags.job.augment;
  const bool is_file = job::is_name_of_file(network.network);
  DT_TRY(const auto data, type_of_images(flags));
  if (network.image_shape.empty() && data) network.image_shape = data->image;
  if (network.image_shape.empty() && is_file) {
    DT_TRY(network.image_shape, role::stated_image(network));
  }
  if (network.image_shape.empty() && !is_file) {
    network.image_shape = job::image_of_network(network.network, network.num_layers);
  }
  const bool tells_pixels = data && data->name != "folder";
  trained.knows_pixels = tells_pixels || !is_file || (!augment.rgb_mean.empty() && augment.scale);
  if (network.image_shape.empty()) {
    return fail(Code::kUsage,
                "{} {}: the size of the images is unknown, because neither a jobspec nor the images state it; give "
                "--image-shape C,H,W (many MXNet models use 3,224,224)",
                choice.flag, choice.model);
  }
  if (!trained.knows_pixels && choice.reads_images) {
    return fail(
        Code::kUsage,
        "{} {}: it is unknown how pixels are normalized, because neither a jobspec nor the images state it; give "
        "--rgb-mean and --scale (many MXNet models use --rgb-mean 0,0,0 or 123.68,116.779,103.939, and --scale 1)",
        choice.flag, choice.model);
  }
  DT_TRY_VOID(complete_classes(choice, network));
  const std::string name =
      tells_pixels ? data->name : std::string(job::data_set_of_network(network.network, network.num_layers));
  return job::apply_data_set(name, flags.job);
}

template <class T>
void prefer(const T& given, const T& unset, T& value) {
  if (given != unset) value = given;
}

// True if all images of the run had the size of the network's input, so that the run does not say how images of other
// sizes are to be resized.
bool has_whole_images(const job::AugmentFlags& augment) {
  const bool is_idx = augment.data_type == "mnist" || augment.data_type == "idx";
  return is_idx && augment.val_resize.value_or(job::Resize()) == job::Resize();
}

// Takes the flags of the run that trained the model, except those that the user gave.
Result<> complete_flags(const ModelChoice& choice, TrainedModel& trained) {
  job::Flags& flags = trained.flags;
  const std::string& params = trained.params;
  const Result<job::JobSpec> spec = role::spec_of(params);
  if (!spec && spec.error().code != Code::kNotFound) return tl::unexpected(spec.error());
  trained.fits_images = !choice.val_resize && (!spec || has_whole_images(spec->flags.augment));
  if (!spec) {
    DT_TRY_VOID(choose_network(choice, params, flags));
    return complete_pixels(choice, trained);
  }
  const job::Remembered& run = spec->remembered;
  trained.data_dir = job::absolute_value("data-dir", run.path_of("data-dir"), run.directory, "");
  trained.has_mean_image = spec->mean_image;
  if (choice.reads_images && spec->mean_image && flags.data.mean_img.empty()) {
    return fail(Code::kUsage, "--model {}: the model was trained with a mean image: name the file with --mean-img",
                choice.model);
  }
  const job::NetworkFlags network = std::exchange(flags.job.network, spec->flags.network);
  job::NetworkFlags& run_network = flags.job.network;
  // The path of the network file may be out of date. There is a copy of the file next to the checkpoint.
  if (job::is_name_of_file(run_network.network)) run_network.network = role::symbol_beside(params);
  prefer(network.network, {}, run_network.network);
  if (!network.network.empty()) run_network.num_layers = network.num_layers;
  prefer(network.num_layers, {}, run_network.num_layers);
  prefer(network.num_classes, {}, run_network.num_classes);
  prefer(network.image_shape, {}, run_network.image_shape);
  const job::AugmentFlags augment = std::exchange(flags.job.augment, spec->flags.augment);
  job::AugmentFlags& run_augment = flags.job.augment;
  prefer(augment.rgb_mean, {}, run_augment.rgb_mean);
  prefer(augment.rgb_std, {}, run_augment.rgb_std);
  prefer(augment.scale, {}, run_augment.scale);
  prefer(augment.label_width, int64_t{1}, run_augment.label_width);
  run_augment.benchmark = false;
  return job::resolve_network_file(flags);
}

}  // namespace

ModelChoice::ModelChoice() {
  flags.job.network.network.clear();
  flags.job.batch_size = 64;
}

Result<TrainedModel> find_model(const ModelChoice& choice, const Log& log) {
  if (choice.model.empty()) {
    return fail(Code::kUsage, "the model is missing: give --model RUN-DIRECTORY, PREFIX or FILE.params");
  }
  TrainedModel model{.params = {}, .flags = choice.flags};
  DT_TRY(model.params, role::params_of({choice.flag, choice.model, choice.epoch}));
  DT_TRY_VOID(complete_flags(choice, model));
  if (choice.val_resize) model.flags.job.augment.val_resize = *choice.val_resize;
  DT_TRY_VOID(complete_classes(choice, model.flags.job.network));
  if (!choice.reads_images) return model;
  log.info("{}: network {}, {}", model.params, model.network().network, role::pixels_text(model.flags));
  return model;
}

std::string class_names_beside(const TrainedModel& model) {
  return (std::filesystem::path(model.params).parent_path() / role::kClassNamesFile).string();
}

Result<std::vector<std::string>> known_class_names(const TrainedModel& model, int64_t classes, const Log& log) {
  std::vector<std::string> directories = {std::filesystem::path(model.params).parent_path().string()};
  if (!model.data_dir.empty()) directories.push_back(model.data_dir);
  return role::class_names_in(directories, classes, log);
}

Result<LearnedNetwork> read_network(const TrainedModel& model) {
  DT_TRY(role::Network network, role::build_network(model.flags.job));
  ParameterMemory values = exec::parameter_memory(network.shapes, exec::Options::Purpose::kInference);
  DT_TRY(const train::Checkpoint weights, train::read_weights(model.params));
  DT_TRY_VOID(train::fill_weights(weights, network.graph, values.view()),
              "loading {} into the network '{}' for images of {} (--image-shape)", model.params,
              model.network().network, fmt::join(model.network().image_shape, ","));
  train::set_fixed_gammas(network.graph, values.view());
  return LearnedNetwork{std::move(network), std::move(values)};
}

Result<CompiledModel> compile_model(TrainedModel model, const Log& log) {
  job::GpuList& gpus = model.flags.device.gpus;
  DT_TRY_VOID(role::find_gpus(gpus));
  DT_TRY_VOID(job::check_one_gpu(gpus, "a trained model is computed on one GPU"));
  DT_TRY(LearnedNetwork learned, read_network(model));
  // A trained model gives the same bits at every start, and starts without measurements.
  DT_TRY(role::Devices devices, role::Devices::open(model.flags, log, {.deterministic = true}));
  exec::Options options = role::executor_options(model.flags, exec::Options::Purpose::kInference);
  options.dtype = Type::kFloat32;
  const graph::FoldedGraph folded = graph::fold_batch_norms(learned.network.graph);
  DT_TRY(std::unique_ptr<exec::Executor> executor, devices.backend(0).compile(folded.graph, options, nullptr),
         "compiling '{}'", model.network().network);
  exec::fill_folded(folded, learned.values.view(), executor->parameters());
  DT_TRY_VOID(copy_to_device(executor->parameters(), executor->device_parameters()));
  return CompiledModel{std::move(devices), std::move(executor), std::move(learned.network.shapes)};
}

data::LoaderOptions in_order(const TrainedModel& model, int64_t images) {
  data::LoaderOptions options;
  options.mode = data::LoaderOptions::Mode::kValidation;
  options.share = data::equal_share(images, 0, 1);
  options.batch_size = model.flags.job.batch_size;
  options.shuffle = false;
  options.threads = role::plan_threads(model.flags).decode;
  options.max_bad_records = model.flags.data.max_bad_records;
  return options;
}

}  // namespace dtrain::infer
