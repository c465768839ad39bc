#include "infer/score.h"

#include <fmt/ranges.h>
#include <chrono>
#include <filesystem>
#include <memory>
#include <vector>

#include "base/file.h"
#include "base/missing_data.h"
#include "base/progress_bar.h"
#include "data/loading/loader.h"
#include "exec/executor.h"
#include "job/spec/remembered.h"
#include "role/setup/data.h"
#include "role/setup/labels.h"
#include "role/setup/pretrained.h"
#include "train/class_tally.h"
#include "train/metrics.h"

namespace dtrain::infer {
namespace {

// Checks that the class names of the data are those that the model was trained with, if both are known.
Result<> check_classes(const data::DataSets& sets, const TrainedModel& model) {
  const int64_t classes = model.network().num_classes;
  const std::vector<std::string>& names = sets.class_names;
  if (names.empty()) return {};
  if (static_cast<int64_t>(names.size()) != classes) {
    return fail(Code::kUsage, "the data have {} class directories, but the model has {} classes", names.size(),
                classes);
  }
  const std::string path = class_names_beside(model);
  std::error_code ignored;
  if (!std::filesystem::exists(path, ignored)) return {};
  DT_TRY(const std::string trained, read_file(path, int64_t{64} << 20));
  if (trained == fmt::format("{}\n", fmt::join(names, "\n"))) return {};
  return fail(Code::kUsage,
              "the class directories of the data differ from the classes in {}, with which the model was trained",
              path);
}

// The data to score with, as text for messages: "data/mnist".
std::string data_text(const job::DataFlags& data) {
  return data.data_val.empty() ? data.data_dir : data.data_val;
}

bool names_data(const job::DataFlags& data) {
  return !data.data_dir.empty() || !data.data_val.empty();
}

constexpr const char* kHowToNameData = "give --data-val FILE.rec or DIRECTORY, or --data-dir DIR";

// Sets the data flags to those of the run that trained the model. Code::kUsage: the model does not belong to a run, or
// the run had no validation data.
Result<> take_data_of_run(ModelChoice& choice, const Log& log) {
  DT_TRY(const std::string params, role::params_of({choice.flag, choice.model, choice.epoch}));
  const Result<job::JobSpec> spec = role::spec_of(params);
  if (!spec && spec.error().code != Code::kNotFound) return tl::unexpected(spec.error());
  if (!spec) return fail(Code::kUsage, "there are no images to classify: {}; {}", kHowToNameData, kWaysToGetData);
  job::Flags run;
  std::error_code ignored;
  DT_TRY_VOID(job::recall(spec->remembered, std::filesystem::current_path(ignored).string(), {}, run),
              "finding the data that {} was trained on", params);
  if (!names_data(run.data)) {
    return fail(Code::kUsage, "the run that wrote {} had no validation data: {}", params, kHowToNameData);
  }
  log.info("scoring with the validation data of the run, {}; to use other data, give --data-val or --data-dir",
           data_text(run.data));
  job::DataFlags& data = choice.flags.data;
  data.data_dir = run.data.data_dir;
  data.data_train = run.data.data_train;
  data.data_train_idx = run.data.data_train_idx;
  data.data_val = run.data.data_val;
  data.data_val_idx = run.data.data_val_idx;
  return {};
}

// The flags for data other than those of the run: they may be in another format, or in class directories with images of
// any size.
Result<job::Flags> flags_for_other_data(const TrainedModel& model) {
  job::Flags flags = model.flags;
  flags.job.augment.data_type.clear();
  if (!flags.data.data_val.empty()) {
    flags.data.data_train = flags.data.data_val;
    flags.data.data_train_idx = flags.data.data_val_idx;
  }
  DT_TRY(const data::Located located, role::locate_data(flags));
  const bool has_class_directories = !located.train.directory.empty() || !located.validation.directory.empty();
  if (model.fits_images && has_class_directories) flags.job.augment.val_resize = job::Resize{job::Resize::kFit};
  return flags;
}

Result<data::DataSets> open_validation(const TrainedModel& model, bool is_of_run, const Log& log) {
  job::Flags flags = model.flags;
  if (!is_of_run) {
    DT_TRY(flags, flags_for_other_data(model));
  }
  DT_TRY(data::DataSets sets, role::open_data(flags, 0, log));
  if (sets.validation == nullptr && is_of_run) {
    return fail(Code::kUsage, "the run that wrote {} had no validation data: {}", model.params, kHowToNameData);
  }
  if (sets.validation == nullptr) {
    return fail(Code::kUsage, "--data-dir {}: the directory has no validation data; name the images with --data-val",
                flags.data.data_dir);
  }
  DT_TRY_VOID(check_classes(sets, model));
  return sets;
}

Result<Score> measure(exec::Executor& executor, const train::MetricSpec& spec, data::Loader& loader, ProgressBar& bar) {
  DT_TRY(train::Metrics metrics, train::Metrics::create(spec));
  train::ClassTally tally(spec, {});
  Score score;
  const auto begin = std::chrono::steady_clock::now();
  loader.start(0);
  for (;;) {
    DT_TRY(const data::LoadedBatch* batch, loader.next());
    if (batch == nullptr) break;
    DT_TRY_VOID(executor.forward(*batch, exec::no_wait));
    DT_TRY_VOID(metrics.add(executor, batch->labels, batch->count));
    tally.add(executor.result(0), *batch);
    score.images += batch->count;
    bar.show(score.images);
  }
  const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  score.bad_records = loader.bad_records();
  score.metrics = metrics.epoch();
  score.counts = tally.counts();
  if (spec.heads.size() > 1) score.result = spec.heads.front().name;
  score.images_per_s = static_cast<double>(score.images) / seconds;
  return score;
}

}  // namespace

Result<Score> score(const ScoreOptions& options, const Log& log) {
  ModelChoice choice = options.model;
  const bool takes_data_of_run = !choice.model.empty() && !names_data(choice.flags.data);
  if (takes_data_of_run) DT_TRY_VOID(take_data_of_run(choice, log));
  DT_TRY(const TrainedModel model, find_model(choice, log));
  DT_TRY(const CompiledModel compiled, compile_model(model, log));
  DT_TRY(const data::DataSets sets, open_validation(model, takes_data_of_run, log), "opening the {}",
         takes_data_of_run ? "validation data of the run (if they were moved, give --data-dir or --data-val)" : "data");
  log.info("{}", sets.found_for_validation);
  data::LoaderOptions loading = in_order(model, sets.validation->size());
  DT_TRY(loading.labels, role::batch_labels(model.flags.job.augment, compiled.shapes));
  data::Loader loader(sets.validation, std::move(loading), log);
  train::MetricSpec metrics = role::metrics_of(model.flags.job, compiled.shapes);
  metrics.top_k = {5};
  metrics.losses = {"ce"};
  ProgressBar bar({"scoring", "images", sets.validation->size()}, log);
  DT_TRY(Score score, measure(*compiled.executor, metrics, loader, bar), "scoring {}", model.params);
  score.params = model.params;
  score.data = data_text(model.flags.data) + (takes_data_of_run ? ", the validation data of the run" : "");
  score.class_names = sets.class_names;
  if (score.class_names.empty()) {
    DT_TRY(score.class_names, known_class_names(model, compiled.shapes.heads.front().outputs, log));
  }
  return score;
}

}  // namespace dtrain::infer
