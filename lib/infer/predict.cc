#include "infer/predict.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <limits>
#include <memory>
#include <numeric>

#include "base/json.h"
#include "base/printable.h"
#include "data/sources/named_images.h"
#include "role/setup/class_names.h"
#include "role/setup/data.h"
#include "tensor/npy.h"

namespace dtrain::infer {
namespace {

using Output = PredictOptions::Output;

// The names of the model's classes: from the file that the user named, or else from a file that belongs to the model.
Result<std::vector<std::string>> class_names_of(const TrainedModel& model, const std::string& synset, int64_t classes,
                                                const Log& log) {
  if (synset.empty()) return known_class_names(model, classes, log);
  DT_TRY(std::vector<std::string> names, role::read_class_names(synset), "reading --synset");
  if (std::ssize(names) == classes) return names;
  return fail(Code::kUsage, "--synset {}: the file has {} lines, but the model has {} classes", synset, names.size(),
              classes);
}

// Writes the predictions for the images, one image after another.
class Report {
 public:
  Report(const PredictOptions& options, std::vector<std::string> names, const data::Dataset& images, const Write& write)
      : options_(options), names_(std::move(names)), images_(images), write_(write) {}

  Result<> begin(int64_t classes) {
    classes_ = static_cast<size_t>(classes);
    top_ = std::min(classes_, static_cast<size_t>(options_.top));
    if (options_.output == Output::kNpy) return write_(npy_header({images_.size(), classes}));
    if (options_.output == Output::kTable) {
      for (int64_t i = 0; i < images_.size(); i++) width_ = std::max(width_, shown(i).size());
    }
    return {};
  }

  // The images must be added in ascending order; images may be missing.
  Result<> add(int64_t image, std::span<const float> probabilities) {
    if (options_.output == Output::kNpy) {
      DT_TRY_VOID(fill_up_to(image));
      next_ = image + 1;
      return write_(npy_values(probabilities));
    }
    order_.resize(classes_);
    std::iota(order_.begin(), order_.end(), size_t{0});
    const auto is_before = [&](size_t a, size_t b) {
      return probabilities[a] != probabilities[b] ? probabilities[a] > probabilities[b] : a < b;
    };
    std::partial_sort(order_.begin(), order_.begin() + static_cast<long>(top_), order_.end(), is_before);
    order_.resize(top_);
    return write_(options_.output == Output::kJson ? json_line(image, probabilities)
                                                   : table_line(image, probabilities));
  }

  Result<> end() { return options_.output == Output::kNpy ? fill_up_to(images_.size()) : Result<>(); }

 private:
  Result<> fill_up_to(int64_t image) {
    const std::vector<float> nothing(classes_, std::numeric_limits<float>::quiet_NaN());
    for (; next_ < image; next_++) DT_TRY_VOID(write_(npy_values(nothing)));
    return {};
  }

  [[nodiscard]] std::string shown(int64_t image) const {
    return printable(images_.describe(image), std::numeric_limits<size_t>::max());
  }

  [[nodiscard]] std::string json_line(int64_t image, std::span<const float> probabilities) const {
    nlohmann::ordered_json classes = nlohmann::ordered_json::array();
    for (const size_t c : order_) {
      nlohmann::ordered_json one{{"class", c}};
      if (!names_.empty()) one["name"] = names_[c];
      one["probability"] = probabilities[c];
      classes.push_back(std::move(one));
    }
    return json_text(nlohmann::ordered_json{{"file", images_.describe(image)}, {"classes", std::move(classes)}}) + "\n";
  }

  [[nodiscard]] std::string table_line(int64_t image, std::span<const float> probabilities) const {
    std::string line = fmt::format("{:<{}}", shown(image), width_);
    for (const size_t c : order_) {
      line +=
          fmt::format("  {:.4f} {}", probabilities[c], names_.empty() ? fmt::format("{}", c) : printable(names_[c]));
    }
    return line + "\n";
  }

  const PredictOptions& options_;
  const std::vector<std::string> names_;  // names of the classes, indexed by class; empty: unknown
  const data::Dataset& images_;
  const Write& write_;
  size_t classes_ = 0, top_ = 0;
  size_t width_ = 0;           // width of the first column of the table
  int64_t next_ = 0;           // the row of the array to write next
  std::vector<size_t> order_;  // the indexes of the classes to show
};

// The index of the result that --result names.
Result<size_t> find_result(const graph::Shapes& shapes, const std::string& name, const Log& log) {
  std::vector<std::string> names;
  for (const graph::HeadInfo& head : shapes.heads) names.push_back(head.name);
  if (name.empty() && names.size() > 1) {
    log.info("the network has the outputs {}; using '{}' (--result NAME chooses another output)",
             fmt::join(names, ", "), names[0]);
  }
  const auto found = name.empty() ? names.begin() : std::ranges::find(names, name);
  if (found != names.end()) return static_cast<size_t>(found - names.begin());
  return fail(Code::kUsage, "--result {}: the network does not have this output; it has {}", name,
              fmt::join(names, ", "));
}

Result<> classify(exec::Executor& executor, size_t head, data::Loader& loader, size_t classes, Report& report) {
  loader.start(0);
  for (;;) {
    DT_TRY(const data::LoadedBatch* batch, loader.next());
    if (batch == nullptr) return report.end();
    DT_TRY_VOID(executor.forward(*batch, exec::no_wait));
    const std::span<const float> probabilities = executor.result(head);
    for (size_t row = 0; row < static_cast<size_t>(batch->count); row++) {
      DT_TRY_VOID(report.add(batch->records[row], probabilities.subspan(row * classes, classes)));
    }
  }
}

// If it is unknown how the model resizes images, image files are resized to fit its input. The images of data-set files
// are not changed.
Result<> fit_image_files(const PredictOptions& options, TrainedModel& model) {
  if (!model.fits_images) return {};
  const auto sets = std::ranges::count_if(options.inputs, data::is_set_file);
  if (sets > 0 && sets < std::ssize(options.inputs)) {
    return fail(Code::kUsage,
                "image files cannot be mixed with records, idx or CIFAR files without --val-resize, because image "
                "files would be fitted to the network's input and the other images cropped: give --val-resize (fit, "
                "off or N), or predict them separately");
  }
  if (sets == 0) model.flags.job.augment.val_resize = job::Resize{job::Resize::kFit};
  return {};
}

}  // namespace

PredictOptions::PredictOptions() {
  model.flags.data.max_bad_records = 0;
}

Result<std::vector<std::string>> with_lines_of(std::istream& standard_input, const std::vector<std::string>& inputs) {
  if (std::ranges::count(inputs, "-") > 1) return fail(Code::kUsage, "standard input ('-') can be read only once");
  std::vector<std::string> all;
  for (const std::string& input : inputs) {
    if (input != "-") {
      all.push_back(input);
      continue;
    }
    for (std::string line; std::getline(standard_input, line);) {
      if (line.ends_with('\r')) line.pop_back();
      if (!line.empty()) all.push_back(line);
    }
  }
  return all;
}

Result<Predicted> predict(const PredictOptions& options, const Write& write, const Log& log) {
  if (options.inputs.empty()) {
    return fail(Code::kUsage,
                "there are no images: name image files, directories or a .rec file, or give - to read a list from "
                "standard input");
  }
  ModelChoice choice = options.model;
  const auto set = std::ranges::find_if(options.inputs, data::is_set_file);
  if (set != options.inputs.end()) choice.flags.data.data_val = *set;
  DT_TRY(TrainedModel model, find_model(choice, log));
  DT_TRY_VOID(fit_image_files(options, model));
  DT_TRY(const auto images, role::open_images(model.flags, options.inputs, log), "opening the images");
  DT_TRY(const CompiledModel compiled, compile_model(model, log));
  DT_TRY(const size_t head, find_result(compiled.shapes, options.result, log));
  const int64_t classes = compiled.shapes.heads[head].outputs;
  DT_TRY(std::vector<std::string> names, class_names_of(model, options.synset, classes, log));
  Report report(options, std::move(names), *images, write);
  DT_TRY_VOID(report.begin(classes));
  data::Loader loader(images, in_order(model, images->size()), log);
  DT_TRY_VOID(classify(*compiled.executor, head, loader, static_cast<size_t>(classes), report));
  return Predicted{.images = images->size() - loader.bad_records(), .bad_records = loader.bad_records()};
}

}  // namespace dtrain::infer
