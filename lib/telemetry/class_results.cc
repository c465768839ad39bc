#include "telemetry/class_results.h"

#include <algorithm>
#include <cmath>

#include "base/base64.h"
#include "base/json.h"

namespace dtrain::telemetry {
namespace {

using nlohmann::json;

constexpr int64_t kClassesMax = int64_t{1} << 31, kImagesMax = int64_t{1} << 40;

// The value of a key, which must be an integer in [0, max].
Result<int64_t> integer(const json& object, const char* key, int64_t max) {
  const auto found = object.find(key);
  const bool is_whole = found != object.end() && found->is_number_integer();
  if (is_whole && *found >= 0 && *found <= max) return found->get<int64_t>();
  return fail(Code::kData, "'{}' is not an integer from 0 to {}", key, max);
}

Result<double> number(const json& object, const char* key) {
  const auto found = object.find(key);
  if (found != object.end() && found->is_number()) return found->get<double>();
  return fail(Code::kData, "'{}' is not a number", key);
}

Result<const json*> array(const json& object, const char* key) {
  const auto found = object.find(key);
  if (found != object.end() && found->is_array()) return &*found;
  return fail(Code::kData, "'{}' is not a list", key);
}

std::string text(const json& object, const char* key) {
  const auto found = object.find(key);
  return found != object.end() && found->is_string() ? found->get<std::string>() : "";
}

Result<> read_counts(const json& list, ClassCounts& counts) {
  for (const json& count : list) {
    const bool is_triple = count.is_array() && count.size() == 3 && std::ranges::all_of(count, [](const json& part) {
                             return part.is_number_integer() && part >= 0 && part <= kImagesMax;
                           });
    if (!is_triple || count[0] >= kClassesMax || count[1] >= kClassesMax) {
      return fail(Code::kData, "'counts' has an entry that is not a label, a prediction and a number of images");
    }
    counts.add(count[0].get<int64_t>(), count[1].get<int64_t>(), count[2].get<int64_t>());
  }
  return {};
}

Result<JudgedImage> read_image(const json& object) {
  if (!object.is_object()) return fail(Code::kData, "'worst' has an entry that is not an object");
  JudgedImage image;
  DT_TRY(image.label, integer(object, "label", kClassesMax));
  DT_TRY(image.prediction, integer(object, "prediction", kClassesMax));
  DT_TRY(image.probability, number(object, "probability"));
  DT_TRY(image.loss, number(object, "loss"));
  image.name = text(object, "name");
  image.image = text(object, "picture");
  if (is_base64(image.image)) return image;
  return fail(Code::kData, "'picture' is not in base64");
}

nlohmann::ordered_json json_of(const JudgedImage& image) {
  nlohmann::ordered_json object{{"label", image.label},
                                {"prediction", image.prediction},
                                {"probability", image.probability},
                                {"loss", image.loss},
                                {"name", image.name}};
  if (!image.image.empty()) object["picture"] = image.image;
  return object;
}

}  // namespace

void ClassCounts::add(const ClassCounts& other) {
  for (const auto& [pair, images] : other.counts_) counts_[pair] += images;
}

int64_t ClassCounts::images() const {
  int64_t all = 0;
  for (const auto& [pair, images] : counts_) all += images;
  return all;
}

std::vector<ClassAccuracy> ClassCounts::accuracies() const {
  std::vector<ClassAccuracy> classes;  // sorted by label, because the map is sorted by label
  for (const auto& [pair, images] : counts_) {
    if (classes.empty() || classes.back().label != pair.first) classes.push_back({.label = pair.first});
    classes.back().images += images;
    if (pair.second == pair.first) classes.back().right += images;
  }
  std::erase_if(classes, [](const ClassAccuracy& one) { return one.images == 0; });
  std::ranges::stable_sort(classes, {}, [](const ClassAccuracy& one) { return one.accuracy(); });
  return classes;
}

std::vector<Confusion> ClassCounts::confusions() const {
  std::map<int64_t, int64_t> images_of;
  for (const auto& [pair, images] : counts_) images_of[pair.first] += images;
  std::vector<Confusion> confusions;
  for (const auto& [pair, images] : counts_) {
    if (pair.first == pair.second || images == 0) continue;
    confusions.push_back({pair.first, pair.second, images, images_of[pair.first]});
  }
  std::ranges::stable_sort(confusions, std::ranges::greater(), &Confusion::images);
  return confusions;
}

void keep_worst(std::vector<JudgedImage>& images) {
  std::ranges::stable_sort(images, std::ranges::greater(), &JudgedImage::loss);
  if (images.size() > kWorstImages) images.resize(kWorstImages);
}

std::string class_results_file(int64_t rank) {
  return fmt::format("validation-{}.json", rank);
}

bool is_class_results_file(std::string_view name) {
  constexpr std::string_view kBegin = "validation-", kEnd = ".json";
  if (!name.starts_with(kBegin) || !name.ends_with(kEnd) || name.size() <= kBegin.size() + kEnd.size()) return false;
  const std::string_view rank = name.substr(kBegin.size(), name.size() - kBegin.size() - kEnd.size());
  return rank.find_first_not_of("0123456789") == std::string_view::npos;
}

std::string to_json(const ClassResults& results) {
  nlohmann::ordered_json counts = nlohmann::ordered_json::array(), worst = nlohmann::ordered_json::array();
  for (const auto& [pair, images] : results.counts.counts()) counts.push_back({pair.first, pair.second, images});
  for (const JudgedImage& image : results.worst) worst.push_back(json_of(image));
  nlohmann::ordered_json object{{"epoch", results.epoch},
                                {"step", results.step},
                                {"rank", results.rank},
                                {"workers", results.workers},
                                {"images", results.images},
                                {"result", results.result},
                                {"class_names", results.class_names},
                                {"counts", std::move(counts)},
                                {"worst", std::move(worst)}};
  return json_text(object) + "\n";
}

Result<ClassResults> parse_class_results(std::string_view text_of_file) {
  const json object = parse_json(text_of_file);
  if (!object.is_object()) return fail(Code::kData, "the file is not a JSON object; it may be cut short");
  ClassResults results;
  DT_TRY(results.epoch, integer(object, "epoch", kImagesMax));
  DT_TRY(const int64_t step, integer(object, "step", kImagesMax));
  results.step = static_cast<uint64_t>(step);
  DT_TRY(results.rank, integer(object, "rank", kClassesMax));
  DT_TRY(results.workers, integer(object, "workers", kClassesMax));
  DT_TRY(results.images, integer(object, "images", kImagesMax));
  results.result = text(object, "result");
  DT_TRY(const json* names, array(object, "class_names"));
  for (const json& name : *names) results.class_names.push_back(name.is_string() ? name.get<std::string>() : "");
  DT_TRY(const json* counts, array(object, "counts"));
  DT_TRY_VOID(read_counts(*counts, results.counts));
  DT_TRY(const json* worst, array(object, "worst"));
  for (const json& one : *worst) {
    DT_TRY(results.worst.emplace_back(), read_image(one));
  }
  keep_worst(results.worst);
  return results;
}

}  // namespace dtrain::telemetry
