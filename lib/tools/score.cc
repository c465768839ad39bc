#include "tools/score.h"

#include <fmt/ranges.h>
#include <algorithm>
#include <chrono>
#include <filesystem>
#include <memory>
#include <vector>

#include "base/file.h"
#include "base/json.h"
#include "base/missing_data.h"
#include "base/progress_bar.h"
#include "data/loading/loader.h"
#include "exec/executor.h"
#include "role/setup/data.h"
#include "role/setup/labels.h"
#include "train/metrics.h"

namespace dtrain::tools {
namespace {

// The names of the data's classes must be those with which the model was trained, if both are known.
Result<> check_classes(const data::DataSets& sets, const TrainedModel& model) {
  const int64_t classes = model.network().num_classes;
  const std::vector<std::string>& names = sets.class_names;
  if (names.empty()) return {};
  if (static_cast<int64_t>(names.size()) != classes) {
    return fail(Code::kUsage, "the data have {} class folders, but the model has {} classes", names.size(), classes);
  }
  const std::string path = class_names_beside(model);
  std::error_code ignored;
  if (!std::filesystem::exists(path, ignored)) return {};
  DT_TRY(const std::string trained, read_file(path, int64_t{64} << 20));
  if (trained == fmt::format("{}\n", fmt::join(names, "\n"))) return {};
  return fail(Code::kUsage, "the class folders of the data are not the classes in {}, with which the model was trained",
              path);
}

Result<std::shared_ptr<const data::Dataset>> open_validation(const TrainedModel& model, const Log& log) {
  const job::Flags& flags = model.flags;
  if (flags.data.data_dir.empty() && flags.data.data_val.empty()) {
    return fail(Code::kUsage, "no data to score with: give --data-val FILE.rec or FOLDER, or --data-dir DIR; {}",
                kWaysToGetData);
  }
  job::Flags opened = flags;
  opened.job.augment.data_type.clear();  // that of the training data: these may have another form
  if (!flags.data.data_val.empty()) {
    opened.data.data_train = flags.data.data_val;
    opened.data.data_train_idx = flags.data.data_val_idx;
  }
  DT_TRY(const data::Located located, role::locate_data(opened));
  const bool has_class_folders = !located.train.folder.empty() || !located.validation.folder.empty();
  if (model.fits_images && has_class_folders) opened.job.augment.val_resize.edge = job::Resize::kFit;
  DT_TRY(const data::DataSets sets, role::open_data(opened, 0, log));
  if (sets.validation == nullptr) {
    return fail(Code::kUsage, "--data-dir {}: it has no validation data; name the pictures with --data-val",
                flags.data.data_dir);
  }
  DT_TRY_VOID(check_classes(sets, model));
  return sets.validation;
}

Result<Score> measure(exec::Executor& executor, const train::MetricSpec& spec, data::Loader& loader, ProgressBar& bar) {
  DT_TRY(train::Metrics metrics, train::Metrics::create(spec));
  Score score;
  const auto begin = std::chrono::steady_clock::now();
  loader.start(0);
  for (;;) {
    DT_TRY(const data::LoadedBatch* batch, loader.next());
    if (batch == nullptr) break;
    DT_TRY_VOID(executor.forward(*batch, exec::no_wait));
    DT_TRY_VOID(metrics.add(executor, batch->labels, batch->count));
    score.images += batch->count;
    bar.show(score.images);
  }
  const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  score.bad_records = loader.bad_records();
  score.metrics = metrics.epoch();
  score.images_per_s = static_cast<double>(score.images) / seconds;
  return score;
}

}  // namespace

Result<Score> score(const ScoreOptions& options, const Log& log) {
  DT_TRY(const TrainedModel model, find_model(options.model, log));
  DT_TRY(const CompiledModel compiled, compile_model(model));
  DT_TRY(const auto data, open_validation(model, log), "opening the data");
  data::LoaderOptions loading = in_order(model, data->size());
  DT_TRY(loading.labels, role::batch_labels(model.flags.job.augment, compiled.shapes));
  data::Loader loader(data, std::move(loading), log);
  train::MetricSpec metrics = role::metrics_of(model.flags.job, compiled.shapes);
  metrics.top_k = {5};
  metrics.losses = {"ce"};
  ProgressBar bar({"scoring", "pictures", data->size()}, log);
  DT_TRY(Score score, measure(*compiled.executor, metrics, loader, bar), "scoring {}", model.params);
  score.params = model.params;
  return score;
}

std::string Score::json() const {
  nlohmann::ordered_json object{{"params", params}, {"images", images}, {"bad_records", bad_records}};
  for (const train::MetricValue& metric : metrics) {
    std::string key = metric.name;
    std::ranges::replace(key, '-', '_');
    object[key] = metric.value;
  }
  object["images_per_s"] = images_per_s;
  return json_text(object);
}

std::string Score::text() const {
  std::string text = fmt::format("Finished with {:.6f} images per second\n", images_per_s);
  for (const train::MetricValue& metric : metrics) text += fmt::format("('{}', {:.6f})\n", metric.name, metric.value);
  return text;
}

}  // namespace dtrain::tools
