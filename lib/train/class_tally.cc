#include "train/class_tally.h"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <utility>

#include "base/base64.h"
#include "base/file.h"
#include "data/loading/batch_images.h"

namespace dtrain::train {
namespace {

bool can_be_shown(const Shape& image) {
  return image.size() == 3 && (image[0] == 1 || image[0] == 3 || image[0] == 4);
}

// Returns the image as a PNG whose shorter edge has at most kEdgeMax pixels, in base64. Empty if that fails, which is
// no reason to end the training.
std::string small_png(const images::Image& image) {
  constexpr int64_t kEdgeMax = 64;
  constexpr int kCompression = 6;
  images::Image small = image;
  if (std::min(image.height, image.width) > kEdgeMax) {
    const images::ImageSize size = images::size_of_shorter_edge(image.size(), kEdgeMax);
    if (!images::resize_image(image, size.height, size.width, small, images::Interpolation::kArea)) return "";
  }
  const Result<std::vector<uint8_t>> png = images::encode_image(small, ".png", kCompression);
  return png ? base64(*png) : "";
}

}  // namespace

ClassTally::ClassTally(const MetricSpec& spec, Shape image)
    : labels_(spec.labels),
      label_(spec.heads.front().label),
      image_(can_be_shown(image) ? std::move(image) : Shape{}) {}

void ClassTally::start() {
  counts_ = {};
  worst_.clear();
}

void ClassTally::add(std::span<const float> probabilities, const data::LoadedBatch& batch) {
  const size_t rows = batch.labels.size() / labels_, classes = probabilities.size() / rows;
  for (size_t row = 0; row < static_cast<size_t>(batch.count); row++) {
    const std::span<const float> p = probabilities.subspan(row * classes, classes);
    if (std::ranges::any_of(p, [](float value) { return std::isnan(value); })) continue;
    const auto label = static_cast<int64_t>(batch.labels[row * labels_ + label_]);
    const int64_t prediction = std::ranges::max_element(p) - p.begin();
    counts_.add(label, prediction);
    const double loss = row_cross_entropy(p[static_cast<size_t>(label)]);
    consider(
        {.label = label, .prediction = prediction, .probability = p[static_cast<size_t>(prediction)], .loss = loss},
        batch, static_cast<int64_t>(row));
  }
}

void ClassTally::consider(const telemetry::JudgedImage& judged, const data::LoadedBatch& batch, int64_t row) {
  const bool is_full = worst_.size() == telemetry::kWorstImages;
  if (is_full && judged.loss <= worst_.back().judged.loss) return;
  if (is_full) worst_.pop_back();
  Candidate candidate{.judged = judged, .record = batch.records[static_cast<size_t>(row)], .image = {}};
  if (!image_.empty()) candidate.image = data::image_of(batch, image_, row);
  const auto place = std::ranges::upper_bound(worst_, judged.loss, std::ranges::greater(),
                                              [](const Candidate& other) { return other.judged.loss; });
  worst_.insert(place, std::move(candidate));
}

std::vector<telemetry::JudgedImage> ClassTally::worst(const data::Dataset& dataset) const {
  std::vector<telemetry::JudgedImage> images;
  for (const Candidate& candidate : worst_) {
    telemetry::JudgedImage& image = images.emplace_back(candidate.judged);
    image.name = dataset.describe(candidate.record);
    if (!candidate.image.pixels.empty()) image.image = small_png(candidate.image);
  }
  return images;
}

ClassReport::ClassReport(Options options) : options_(std::move(options)), tally_(options_.metrics, options_.image) {}

void ClassReport::end(const Pass& pass) {
  const std::vector<MetricHead>& heads = options_.metrics.heads;
  const telemetry::ClassResults results{.epoch = pass.epoch,
                                        .step = pass.step,
                                        .rank = options_.rank,
                                        .workers = options_.workers,
                                        .images = pass.images,
                                        .result = heads.size() > 1 ? heads.front().name : "",
                                        .class_names = options_.class_names,
                                        .counts = tally_.counts(),
                                        .worst = tally_.worst(options_.dataset)};
  const std::filesystem::path file =
      std::filesystem::path(options_.directory) / telemetry::class_results_file(results.rank);
  const Result<> written = write_file_atomic(file.string(), telemetry::to_json(results));
  if (!written) options_.log.warn("a report of this run will lack the newest validation: {}", written.error().message);
}

}  // namespace dtrain::train
