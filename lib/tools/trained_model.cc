#include "tools/trained_model.h"

#include <fmt/ranges.h>
#include <filesystem>
#include <utility>

#include "exec/contract.h"
#include "exec/folded_values.h"
#include "job/resolve/data_set.h"
#include "job/resolve/network_file.h"
#include "job/resolve/resolve.h"
#include "role/process/run_dir.h"
#include "role/setup/devices.h"
#include "role/setup/pretrained.h"
#include "role/setup/threads.h"
#include "train/checkpoint.h"
#include "train/fill_weights.h"

namespace dtrain::tools {
namespace {

// Completes the flags of a model without a JobSpec, whose network is the symbol file beside it or has to be given.
Result<> complete_foreign(const ModelChoice& choice, const std::string& params, job::Flags& flags) {
  job::NetworkFlags& network = flags.job.network;
  if (network.network.empty()) network.network = role::symbol_beside(params);
  if (network.network.empty()) {
    return fail(Code::kUsage,
                "{} {}: there is neither a jobspec nor a symbol file beside {}, so give --network and "
                "--num-classes, or --network FILE-symbol.json",
                choice.flag, choice.model, params);
  }
  DT_TRY_VOID(job::resolve_network_file(flags));
  job::AugmentFlags& augment = flags.job.augment;
  augment.data_type = job::data_set_of_network(network.network, network.num_layers);
  if (network.image_shape.empty()) network.image_shape = job::image_of_network(network.network, network.num_layers);
  if (augment.rgb_mean.empty()) augment.rgb_mean = {0, 0, 0};
  if (augment.rgb_std.empty()) augment.rgb_std = {1};
  if (!augment.scale) augment.scale = job::find_data_set(augment.data_type)->scale;
  return {};
}

// A symbol file tells its classes; a network of dtrain's own is built for a number of classes.
Result<> complete_classes(const ModelChoice& choice, job::NetworkFlags& network) {
  if (network.num_classes > 0) return {};
  if (!job::is_name_of_file(network.network)) {
    return fail(Code::kUsage, "{} {}: its files do not tell the number of classes: give --num-classes", choice.flag,
                choice.model);
  }
  DT_TRY(network.num_classes, role::classes_of_file(network));
  return {};
}

template <class T>
void prefer(const T& given, const T& unset, T& value) {
  if (given != unset) value = given;
}

// The flags of the run that trained the model, changed to those that the user gave.
Result<> complete_flags(const ModelChoice& choice, TrainedModel& trained) {
  job::Flags& flags = trained.flags;
  const std::string& params = trained.params;
  const Result<job::JobSpec> spec = role::spec_of(params);
  if (!spec && spec.error().code != Code::kNotFound) return tl::unexpected(spec.error());
  if (!spec) return complete_foreign(choice, params, flags);
  const job::Remembered& run = spec->remembered;
  trained.data_dir = job::absolute_value("data-dir", run.path_of("data-dir"), run.directory, "");
  if (choice.reads_pictures && spec->mean_image && flags.data.mean_img.empty()) {
    return fail(Code::kUsage, "--model {}: it was trained with a mean image: name the file with --mean-img",
                choice.model);
  }
  const job::NetworkFlags network = std::exchange(flags.job.network, spec->flags.network);
  job::NetworkFlags& run_network = flags.job.network;
  // The path of a network file may have changed since the run; beside the checkpoint there is a copy.
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
  prefer(augment.label_names, {}, run_augment.label_names);
  prefer(augment.val_resize, {}, run_augment.val_resize);
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
    return fail(Code::kUsage, "no model was named: give --model RUN-DIRECTORY, PREFIX or FILE.params");
  }
  TrainedModel model{.params = {}, .flags = choice.flags};
  DT_TRY(model.params, role::params_of({choice.flag, choice.model, choice.epoch}));
  DT_TRY_VOID(job::resolve_labels(model.flags.job.augment));
  DT_TRY_VOID(complete_flags(choice, model));
  DT_TRY_VOID(complete_classes(choice, model.flags.job.network));
  if (!choice.reads_pictures) return model;
  const job::AugmentFlags& augment = model.flags.job.augment;
  log.info("{}: network {}, images {}, mean {}, deviation {}, scale {}", model.params, model.network().network,
           to_string(model.network().image_shape), fmt::join(augment.rgb_mean, ","), fmt::join(augment.rgb_std, ","),
           augment.scale.value_or(1));
  return model;
}

std::string class_names_beside(const TrainedModel& model) {
  return (std::filesystem::path(model.params).parent_path() / role::kClassNamesFile).string();
}

Result<LearnedNetwork> read_network(const TrainedModel& model) {
  DT_TRY(role::Network network, role::build_network(model.flags.job));
  ParameterMemory values = exec::parameter_memory(network.shapes, exec::Options::Purpose::kInference);
  DT_TRY(const train::Checkpoint weights, train::read_weights(model.params));
  DT_TRY_VOID(train::fill_weights(weights, values.view()), "loading {} into the network '{}'", model.params,
              model.network().network);
  train::set_fixed_gammas(network.graph, values.view());
  return LearnedNetwork{std::move(network), std::move(values)};
}

Result<CompiledModel> compile_model(const TrainedModel& model) {
  DT_TRY(LearnedNetwork learned, read_network(model));
  exec::Options options = role::executor_options(model.flags, exec::Options::Purpose::kInference);
  options.dtype = Type::kFloat32;
  const graph::FoldedGraph folded = graph::fold_batch_norms(learned.network.graph);
  DT_TRY(std::unique_ptr<exec::Executor> executor, exec::make_cpu_backend()->compile(folded.graph, options),
         "compiling '{}'", model.network().network);
  exec::fill_folded(folded, learned.values.view(), executor->parameters());
  return CompiledModel{std::move(executor), std::move(learned.network.shapes)};
}

data::LoaderOptions in_order(const TrainedModel& model, int64_t pictures) {
  data::LoaderOptions options;
  options.mode = data::LoaderOptions::Mode::kValidation;
  options.share = data::equal_share(pictures, 0, 1);
  options.batch_size = model.flags.job.batch_size;
  options.shuffle = false;
  options.threads = role::plan_threads(model.flags).decode;
  options.max_bad_records = model.flags.data.max_bad_records;
  return options;
}

}  // namespace dtrain::tools
