#include <algorithm>
#include <cmath>

#include "base/json.h"
#include "base/printable.h"
#include "base/utf8.h"
#include "base/words.h"
#include "infer/score.h"

namespace dtrain::infer {
namespace {

using telemetry::ClassAccuracy;
using telemetry::Confusion;
using telemetry::kClassesShown;
using telemetry::kConfusionsShown;

constexpr size_t kColumnsMax = 80;
// The longest shown name of a class, so that a line has room for two names, "classified as" and two numbers.
constexpr size_t kNameColumnsMax = 20;

// The text, truncated to at most `columns_max` columns.
std::string cut(std::string_view text, size_t columns_max) {
  if (columns_of(text) <= columns_max) return std::string(text);
  constexpr std::string_view kDots = "...";
  return std::string(fitting(text, columns_max - kDots.size())).append(kDots);
}

// The text, padded with blanks to `columns` columns.
std::string padded(const std::string& text, size_t columns) {
  return text + std::string(columns - std::min(columns, columns_of(text)), ' ');
}

std::string class_name(const Score& score, int64_t label) {
  const auto at = static_cast<size_t>(label);
  if (at >= score.class_names.size()) return fmt::format("{}", label);
  return cut(printable(score.class_names[at]), kNameColumnsMax);
}

// A path, shortened at its beginning, because its end says more.
std::string end_of_path(const std::string& path, size_t columns_max) {
  std::string text = printable(path);
  if (columns_of(text) <= columns_max) return text;
  size_t begin = 0;
  while (columns_of(std::string_view(text).substr(begin)) > columns_max - 3 || continues_character(text[begin]))
    begin++;
  return "..." + text.substr(begin);
}

std::string headline(const Score& score) {
  constexpr size_t kPathMax = kColumnsMax - 7;
  return fmt::format("model  {}\ndata   {}\n{} images, {:.0f} images/s\n", end_of_path(score.params, kPathMax),
                     end_of_path(score.data, kPathMax), with_thousands(score.images), score.images_per_s);
}

std::string metric_lines(const Score& score) {
  size_t width = 0;
  for (const train::MetricValue& metric : score.metrics) width = std::max(width, metric.name.size());
  std::string text = "\n";
  for (const train::MetricValue& metric : score.metrics) {
    text += fmt::format("{}  {:>8.4f}\n", padded(cut(metric.name, kColumnsMax - 12), width), metric.value);
  }
  return text;
}

std::string class_lines(const Score& score) {
  const std::vector<ClassAccuracy> classes = score.counts.accuracies();
  const size_t shown = std::min(classes.size(), kClassesShown);
  size_t width = 5;
  for (size_t i = 0; i < shown; i++) width = std::max(width, columns_of(class_name(score, classes[i].label)));
  std::string text = fmt::format("\n{}  accuracy  correct\n", padded("class", width));
  for (size_t i = 0; i < shown; i++) {
    const ClassAccuracy& one = classes[i];
    text += fmt::format("{}  {:>8.4f}  {} of {}\n", padded(class_name(score, one.label), width), one.accuracy(),
                        with_thousands(one.right), with_thousands(one.images));
  }
  if (shown == classes.size()) return text;
  return text + fmt::format("and {} more, with an accuracy of {:.4f} or higher\n",
                            with_thousands(static_cast<int64_t>(classes.size() - shown)), classes[shown].accuracy());
}

std::string confusion_lines(const Score& score) {
  const std::vector<Confusion> confusions = score.counts.confusions();
  if (confusions.empty()) return "";
  std::string text = "\n";
  for (size_t i = 0; i < std::min(confusions.size(), kConfusionsShown); i++) {
    const Confusion& one = confusions[i];
    text +=
        fmt::format("{} classified as {}: {} of {}\n", class_name(score, one.label), class_name(score, one.prediction),
                    with_thousands(one.images), with_thousands(one.images_of_label));
  }
  return text;
}

}  // namespace

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

std::string Score::table() const {
  const std::string which =
      result.empty() ? ""
                     : fmt::format("\nThe classes are those of the network's output {}.\n", cut(printable(result), 40));
  return headline(*this) + metric_lines(*this) + which + class_lines(*this) + confusion_lines(*this);
}

}  // namespace dtrain::infer
