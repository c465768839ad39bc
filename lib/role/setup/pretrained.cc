#include "role/setup/pretrained.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <filesystem>
#include <optional>

#include "job/resolve/data_set.h"
#include "job/resolve/network_file.h"
#include "train/checkpoint.h"

namespace dtrain::role {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kSymbol = "-symbol.json";
constexpr std::string_view kParams = ".params";

// The prefix of the symbol file in a run directory.
Result<std::string> prefix_in(const std::string& flag, const std::string& directory) {
  std::string prefix;
  std::error_code error;
  for (const fs::directory_entry& entry : fs::directory_iterator(directory, error)) {
    const std::string path = entry.path().string();
    if (!path.ends_with(kSymbol)) continue;
    if (!prefix.empty()) {
      return fail(Code::kUsage, "{} {}: the directory has several models; give the prefix of one of them, such as {}",
                  flag, directory, prefix);
    }
    prefix = path.substr(0, path.size() - kSymbol.size());
  }
  if (!prefix.empty()) return prefix;
  return fail(Code::kNotFound, "{} {}: the directory has no model (NAME-symbol.json, NAME-NNNN.params)", flag,
              directory);
}

}  // namespace

Result<job::JobSpec> spec_of(const std::string& params) {
  Result<job::JobSpec> beside = job::read_job_spec(fs::path(params).parent_path().string());
  if (beside || beside.error().code != Code::kNotFound) return beside;
  const std::string stem = params.substr(0, params.size() - kParams.size());
  const size_t dash = stem.rfind('-');
  if (dash == std::string::npos) return beside;
  const std::string epoch = stem.substr(dash + 1);
  const bool is_number =
      !epoch.empty() && epoch.size() <= 9 && epoch.find_first_not_of("0123456789") == std::string::npos;
  if (!is_number && epoch != "last") return beside;
  DT_TRY(const train::Checkpoint checkpoint,
         train::read_checkpoint(
             {stem.substr(0, dash), is_number ? std::optional<int64_t>(std::stoll(epoch)) : std::nullopt}));
  if (!checkpoint.header) return beside;
  return job::parse_job_spec(checkpoint.header->job_text);
}

std::string symbol_beside(const std::string& params) {
  std::string path = params.substr(0, std::min(params.rfind('-'), params.size()));
  path += kSymbol;
  std::error_code ignored;
  return fs::exists(path, ignored) ? path : std::string();
}

Result<std::string> params_of(const ModelName& model) {
  std::error_code ignored;
  if (model.name.ends_with(kParams)) {
    if (model.epoch) {
      return fail(Code::kUsage,
                  "{} {} and --load-epoch {}: give the prefix instead of the file, or leave out --load-epoch",
                  model.flag, model.name, *model.epoch);
    }
    if (fs::exists(model.name, ignored)) return model.name;
    return fail(Code::kNotFound, "{} {}: there is no such file", model.flag, model.name);
  }
  std::string prefix = model.name;
  if (fs::is_directory(model.name, ignored)) {
    DT_TRY(prefix, prefix_in(model.flag, model.name));
  }
  std::optional<train::CheckpointName> name = train::CheckpointName{prefix, model.epoch};
  if (!model.epoch) {
    DT_TRY(name, train::newest_checkpoint(prefix), "looking for the model of {}", model.flag);
  }
  if (name && fs::exists(name->params_path(), ignored)) return name->params_path();
  return fail(Code::kNotFound, "{} {}: there is no {}; name a run directory, a .params file, or a prefix", model.flag,
              model.name, name ? name->params_path() : prefix + "-NNNN.params");
}

Result<std::string> pretrained_params(const job::LoopFlags& flags) {
  if (flags.pretrained_model.empty()) return std::string();
  return params_of({"--pretrained-model", flags.pretrained_model, flags.pretrained_epoch});
}

namespace {

// Sets how pixels become floats, where the flags leave it open, to what the model was trained with.
void take_pixels(const job::AugmentFlags& trained, job::AugmentFlags& augment) {
  if (augment.rgb_mean.empty()) augment.rgb_mean = trained.rgb_mean;
  if (augment.rgb_std.empty()) augment.rgb_std = trained.rgb_std;
  if (!augment.scale) augment.scale = trained.scale;
}

// Sets the network to that of the model, together with the flags that depend on it.
Result<> take_network(const std::string& params, const Result<job::JobSpec>& spec, job::Flags& flags) {
  const std::string symbol = symbol_beside(params);
  const bool is_own_network = spec && !job::is_name_of_file(spec->flags.network.network);
  job::NetworkFlags& network = flags.job.network;
  if (!is_own_network && !symbol.empty()) {
    network.network = symbol;
    if (spec && network.image_shape.empty()) network.image_shape = spec->flags.network.image_shape;
    return job::resolve_network_file(flags);
  }
  if (!spec) {
    return fail(Code::kUsage,
                "--pretrained-model {}: the files of the model do not state its network: give --network ({})",
                flags.loop.pretrained_model, spec.error().message);
  }
  const job::NetworkFlags& trained = spec->flags.network;
  network.network = trained.network;
  if (!flags.given("num-layers")) network.num_layers = trained.num_layers;
  if (!flags.given("widen-factor")) network.widen_factor = trained.widen_factor;
  if (!flags.given("num-group")) network.num_group = trained.num_group;
  if (!flags.given("batch-norm")) network.batch_norm = trained.batch_norm;
  if (!flags.given("smooth-alpha")) network.smooth_alpha = trained.smooth_alpha;
  if (!flags.given("add-stn")) network.add_stn = trained.add_stn;
  if (!flags.given("bn-mom")) network.bn_momentum = trained.bn_momentum;
  if (network.image_shape.empty()) network.image_shape = trained.image_shape;
  return {};
}

}  // namespace

Result<> apply_pretrained(job::Flags& flags) {
  if (flags.loop.pretrained_model.empty()) return {};
  const Result<std::string> found = pretrained_params(flags.loop);
  // If --network is given, this process does not need the model's files, because only worker 0 reads the weights.
  if (!found && flags.given("network")) return {};
  DT_TRY(const std::string params, found);
  const Result<job::JobSpec> spec = spec_of(params);
  if (spec && spec->mean_image && flags.data.mean_img.empty() && !flags.given("rgb-mean")) {
    return fail(Code::kUsage,
                "--pretrained-model {}: the model was trained with a mean image: name the file with --mean-img, or "
                "give --rgb-mean",
                flags.loop.pretrained_model);
  }
  if (spec) take_pixels(spec->flags.augment, flags.job.augment);
  if (flags.given("network")) return {};
  DT_TRY_VOID(take_network(params, spec, flags));
  job::NetworkFlags& network = flags.job.network;
  if (!flags.given("initializer")) network.initializer = job::default_initializer(network.network);
  return {};
}

std::string images_note(const std::string& params, const std::vector<int64_t>& image) {
  const Result<job::JobSpec> run = spec_of(params);
  if (!run)
    return fmt::format(", which may be for images of another size than {} (--image-shape), the size in this job",
                       fmt::join(image, ","));
  return fmt::format(", which is for images of {} (--image-shape)", fmt::join(run->flags.network.image_shape, ","));
}

std::string pixels_hint(const job::Flags& flags) {
  const Result<std::string> params = pretrained_params(flags.loop);
  if (!params || params->empty()) return {};
  const Result<job::JobSpec> spec = spec_of(*params);
  if (!spec) return {};
  const job::AugmentFlags &then = spec->flags.augment, &now = flags.job.augment;
  const bool same = then.rgb_mean == now.rgb_mean && then.rgb_std == now.rgb_std && then.scale == now.scale;
  if (same) return {};
  return fmt::format(
      "the pretrained model was trained with --rgb-mean {} --rgb-std {} --scale {}; with other values, its accuracy "
      "may be lower",
      fmt::join(then.rgb_mean, ","), fmt::join(then.rgb_std, ","), then.scale.value_or(1));
}

}  // namespace dtrain::role
