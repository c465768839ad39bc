#include "tools/score.h"

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <memory>
#include <utility>
#include <vector>

#include "base/file.h"
#include "base/json.h"
#include "data/loader.h"
#include "exec/executor.h"
#include "job/resolve/data_set.h"
#include "job/resolve/network_file.h"
#include "role/process/run_dir.h"
#include "role/setup/data.h"
#include "role/setup/devices.h"
#include "role/setup/network.h"
#include "role/setup/pretrained.h"
#include "role/setup/threads.h"
#include "train/checkpoint.h"
#include "train/fill_weights.h"
#include "train/metrics.h"

namespace dtrain::tools {
namespace {

// Completes the flags of a model without a JobSpec, whose network is the symbol file beside it or has to be given.
Result<> complete_foreign(const ScoreOptions& options, const std::string& params, job::Flags& flags) {
  job::NetworkFlags& network = flags.job.network;
  if (network.network.empty()) network.network = role::symbol_beside(params);
  if (network.network.empty()) {
    return fail(Code::kUsage,
                "--model {}: there is neither a jobspec nor a symbol file beside {}, so give --network and "
                "--num-classes, or --network FILE-symbol.json",
                options.model, params);
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
Result<> complete_classes(const ScoreOptions& options, job::NetworkFlags& network) {
  if (network.num_classes > 0) return {};
  if (!job::is_name_of_file(network.network)) {
    return fail(Code::kUsage, "--model {}: its files do not tell the number of classes: give --num-classes",
                options.model);
  }
  DT_TRY(network.num_classes, role::classes_of_file(network));
  return {};
}

template <class T>
void prefer(const T& given, const T& unset, T& value) {
  if (given != unset) value = given;
}

// The flags of the run that trained the model, changed to those that the user gave.
Result<> complete_flags(const ScoreOptions& options, const std::string& params, job::Flags& flags) {
  const Result<job::JobSpec> spec = role::spec_of(params);
  if (!spec && spec.error().code != Code::kNotFound) return tl::unexpected(spec.error());
  if (!spec) return complete_foreign(options, params, flags);
  if (spec->mean_image && flags.data.mean_img.empty()) {
    return fail(Code::kUsage, "--model {}: it was trained with a mean image: name the file with --mean-img",
                options.model);
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
  prefer(augment.val_resize, {}, run_augment.val_resize);
  run_augment.benchmark = false;
  return job::resolve_network_file(flags);
}

// The names of the data's classes must be those with which the model was trained, if both are known.
Result<> check_classes(const data::DataSets& sets, const std::string& params, int64_t classes) {
  const std::vector<std::string>& names = sets.class_names;
  if (names.empty()) return {};
  if (static_cast<int64_t>(names.size()) != classes) {
    return fail(Code::kUsage, "the data have {} class folders, but the model has {} classes", names.size(), classes);
  }
  const std::string path = (std::filesystem::path(params).parent_path() / role::kClassNamesFile).string();
  std::error_code ignored;
  if (!std::filesystem::exists(path, ignored)) return {};
  DT_TRY(const std::string trained, read_file(path, int64_t{64} << 20));
  if (trained == fmt::format("{}\n", fmt::join(names, "\n"))) return {};
  return fail(Code::kUsage, "the class folders of the data are not the classes in {}, with which the model was trained",
              path);
}

Result<std::shared_ptr<const data::Dataset>> open_validation(const job::Flags& flags, const std::string& params,
                                                             const Log& log) {
  if (flags.data.data_dir.empty() && flags.data.data_val.empty()) {
    return fail(Code::kUsage, "no data to score with: give --data-val FILE.rec or FOLDER, or --data-dir DIR");
  }
  job::Flags opened = flags;
  opened.job.augment.data_type.clear();  // that of the training data: these may have another form
  if (!flags.data.data_val.empty()) {
    opened.data.data_train = flags.data.data_val;
    opened.data.data_train_idx = flags.data.data_val_idx;
  }
  DT_TRY(const data::DataSets sets, role::open_data(opened, 0, log));
  if (sets.validation == nullptr) {
    return fail(Code::kUsage, "--data-dir {}: it has no validation data; name the pictures with --data-val",
                flags.data.data_dir);
  }
  DT_TRY_VOID(check_classes(sets, params, flags.job.network.num_classes));
  return sets.validation;
}

Result<std::unique_ptr<exec::Executor>> load_network(const job::Flags& flags, const std::string& params) {
  DT_TRY(const role::Network network, role::build_network(flags.job));
  exec::Options compiled = role::executor_options(flags, exec::Options::Purpose::kInference);
  compiled.dtype = Type::kFloat32;
  DT_TRY(std::unique_ptr<exec::Executor> executor, exec::make_cpu_backend()->compile(network.graph, compiled),
         "compiling '{}'", flags.job.network.network);
  DT_TRY(const train::Checkpoint weights, train::read_weights(params));
  DT_TRY_VOID(train::fill_weights(weights, executor->parameters()), "loading {} into the network '{}'", params,
              flags.job.network.network);
  train::set_fixed_gammas(network.graph, executor->parameters());
  return executor;
}

data::LoaderOptions loader_options(const job::Flags& flags, int64_t records) {
  data::LoaderOptions options;
  options.mode = data::LoaderOptions::Mode::kValidation;
  options.share = data::equal_share(records, 0, 1);
  options.batch_size = flags.job.batch_size;
  options.classes = flags.job.network.num_classes;
  options.shuffle = false;
  options.threads = role::plan_threads(flags).decode;
  options.max_bad_records = flags.data.max_bad_records;
  return options;
}

Result<Score> measure(exec::Executor& executor, data::Loader& loader) {
  DT_TRY(train::Metrics metrics, train::Metrics::create({.top_k = {5}}));
  Score score;
  const auto begin = std::chrono::steady_clock::now();
  loader.start(0);
  for (;;) {
    DT_TRY(const data::LoadedBatch* batch, loader.next());
    if (batch == nullptr) break;
    DT_TRY_VOID(executor.forward(*batch, exec::no_wait));
    DT_TRY_VOID(metrics.add(executor.probabilities(), batch->labels, batch->count));
    score.images += batch->count;
  }
  const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  score.bad_records = loader.bad_records();
  score.accuracy = metrics.epoch_accuracy();
  score.top_5 = metrics.epoch().back().value;
  score.cross_entropy = metrics.epoch_cross_entropy();
  score.images_per_s = static_cast<double>(score.images) / seconds;
  return score;
}

}  // namespace

ScoreOptions::ScoreOptions() {
  flags.job.network.network.clear();
  flags.job.batch_size = 64;
}

Result<Score> score(const ScoreOptions& options, const Log& log) {
  if (options.model.empty())
    return fail(Code::kUsage, "no model to score: give --model RUN-DIRECTORY, PREFIX or FILE.params");
  DT_TRY(const std::string params, role::params_of({"--model", options.model, options.epoch}));
  job::Flags flags = options.flags;
  DT_TRY_VOID(complete_flags(options, params, flags));
  DT_TRY_VOID(complete_classes(options, flags.job.network));
  const job::AugmentFlags& augment = flags.job.augment;
  log.info("{}: network {}, images {}, mean {}, deviation {}, scale {}", params, flags.job.network.network,
           to_string(flags.job.network.image_shape), fmt::join(augment.rgb_mean, ","), fmt::join(augment.rgb_std, ","),
           augment.scale.value_or(1));
  DT_TRY(const std::unique_ptr<exec::Executor> executor, load_network(flags, params));
  DT_TRY(const auto data, open_validation(flags, params, log), "opening the data");
  data::Loader loader(data, loader_options(flags, data->size()), log);
  DT_TRY(Score score, measure(*executor, loader), "scoring {}", params);
  score.params = params;
  return score;
}

std::string Score::json() const {
  return json_text(nlohmann::ordered_json{{"params", params},
                                          {"images", images},
                                          {"bad_records", bad_records},
                                          {"accuracy", accuracy},
                                          {"top_k_accuracy_5", top_5},
                                          {"cross_entropy", cross_entropy},
                                          {"images_per_s", images_per_s}});
}

std::string Score::text() const {
  return fmt::format(
      "Finished with {:.6f} images per second\n('accuracy', {:.6f})\n('top_k_accuracy_5', {:.6f})\n"
      "('cross-entropy', {:.6f})\n",
      images_per_s, accuracy, top_5, cross_entropy);
}

}  // namespace dtrain::tools
