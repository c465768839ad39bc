#include "dataset/synth.h"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <numbers>

#include "base/file.h"
#include "base/progress_bar.h"
#include "data/records/image_record.h"
#include "data/records/record_writer.h"

namespace dtrain::dataset {
namespace {

constexpr int64_t kOrientationsMax = 10;
constexpr int64_t kTints = 7;  // number of tints: the nonempty subsets of {blue, green, red}

// The constants below were chosen so that LeNet, trained with --batch-size 64 --lr 0.01 --scale 0.0078125, reaches an
// accuracy of 0.20 to 0.29 after one epoch and 0.98 to 0.99 after five (four seeds); logistic regression reaches 0.21
// to 0.36. With less noise, LeNet learns the set in one epoch; with more, it does not learn it in five. Without
// --scale, the inputs saturate LeNet's tanh; with --lr 0.02 the accuracies are then 0.20 and 0.96 to 0.99.
constexpr double kContrast = 40;
constexpr double kContrastLeast = 0.3;
constexpr double kNoise = 38;
constexpr double kJitter = 0.25;

struct Grating {
  double wave_x, wave_y, phase;
  double contrast[3], base[3];  // one value for each channel
};

Grating draw_grating(int64_t label, int64_t classes, RandomStream& random) {
  const int64_t orientations = std::min(classes, kOrientationsMax);
  const double angle = std::numbers::pi *
                       (static_cast<double>(label % orientations) + random.uniform(-kJitter, kJitter)) /
                       static_cast<double>(orientations);
  const double frequency = 2 * std::numbers::pi / random.uniform(5.0, 9.0);
  const double contrast = kContrast * random.uniform(kContrastLeast, 1.0);
  const int64_t tint = classes <= kOrientationsMax ? kTints : label / orientations + 1;
  Grating grating{.wave_x = frequency * std::cos(angle),
                  .wave_y = frequency * std::sin(angle),
                  .phase = random.uniform(0, 2 * std::numbers::pi),
                  .contrast = {},
                  .base = {}};
  for (int k = 0; k < 3; k++) {
    const double strength = random.uniform(0.5, 1.0);
    grating.contrast[k] = (tint >> k & 1) != 0 ? contrast * strength : 0;
    grating.base[k] = random.uniform(95, 145);
  }
  return grating;
}

Result<> check(const SynthOptions& options) {
  if (options.classes < 2 || options.classes > kOrientationsMax * kTints) {
    return fail(Code::kUsage, "--classes {}: must be from 2 to {}", options.classes, kOrientationsMax * kTints);
  }
  if (options.count < 4 || options.count > 10'000'000)
    return fail(Code::kUsage, "--count {}: must be from 4 to 10000000", options.count);
  if (options.size < 16 || options.size > 512)
    return fail(Code::kUsage, "--size {}: must be from 16 to 512", options.size);
  if (options.out.empty()) return fail(Code::kUsage, "--out: give the directory to write to");
  return {};
}

// Refuses to overwrite the record files of another data set, which may be the only copy.
Result<> refuse_other_set(const std::string& directory) {
  for (const char* name : {"/train.rec", "/test.rec"}) {
    std::error_code none;
    if (!std::filesystem::exists(directory + name, none)) continue;
    return fail(Code::kUsage, "{}{} already exists: delete it, or give another directory with --out", directory, name);
  }
  return {};
}

// Writes the training or the test set. `set` is a number that makes the random draws of the two sets differ.
Result<> write_set(const SynthOptions& options, uint64_t set, const std::string& path, int64_t count, const Log& log) {
  DT_TRY(data::RecordWriter writer, data::RecordWriter::create(path));
  std::vector<uint8_t> payload;
  ProgressBar bar({path, "images", count}, log);
  for (int64_t i = 0; i < count; i++) {
    bar.show(i);
    RandomStream random(options.seed, Use::kSynthetic, set, static_cast<uint64_t>(i));
    const auto label = static_cast<float>(i % options.classes);
    constexpr int kQuality = 95;
    DT_TRY(const std::vector<uint8_t> jpeg,
           images::encode_image(draw_synthetic(i % options.classes, options.classes, options.size, random), ".jpg",
                                kQuality));
    payload.clear();
    data::append_image_record(payload, static_cast<uint64_t>(i), std::span(&label, 1), jpeg);
    DT_TRY_VOID(writer.append(static_cast<uint64_t>(i), payload));
  }
  return writer.commit();
}

}  // namespace

images::Image draw_synthetic(int64_t label, int64_t classes, int size, RandomStream& random) {
  const Grating grating = draw_grating(label, classes, random);
  images::Image image;
  image.resize(size, size, 3);
  for (int y = 0; y < size; y++) {
    for (int x = 0; x < size; x++) {
      const double wave = std::cos(grating.wave_x * x + grating.wave_y * y + grating.phase);
      for (int k = 0; k < 3; k++) {
        const double value = grating.base[k] + grating.contrast[k] * wave + kNoise * random.normal();
        image.at(y, x)[k] = static_cast<uint8_t>(std::lround(std::clamp(value, 0.0, 255.0)));
      }
    }
  }
  return image;
}

Result<> synthesize(const SynthOptions& options, const Log& log) {
  DT_TRY_VOID(check(options));
  DT_TRY_VOID(refuse_other_set(options.out));
  DT_TRY_VOID(make_directories(options.out));
  const int64_t test_count = options.count / 4;
  DT_TRY_VOID(write_set(options, 1, options.out + "/train.rec", options.count, log));
  DT_TRY_VOID(write_set(options, 2, options.out + "/test.rec", test_count, log));
  log.info("wrote {} training images and {} test images of {} classes to '{}'", options.count, test_count,
           options.classes, options.out);
  return {};
}

}  // namespace dtrain::dataset
