#include "data/loading/mean_image.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <filesystem>
#include <optional>

#include "base/file.h"
#include "base/thread.h"
#include "data/loading/image_dataset.h"
#include "tensor/ndarray_file.h"

namespace dtrain::data {
namespace {

// The sums of one thread. They are integers, so they are exact, and the order in which threads add does not matter.
struct Sums {
  explicit Sums(size_t elements) : sum(elements), image(elements) {}
  std::vector<uint64_t> sum;
  std::vector<float> image;
  int64_t count = 0;
  std::optional<Error> fault;  // set after a fault of the disk; broken images are only left out
};

images::AugmentOptions not_normalised(const Shape& image, const images::Distortion& distortion) {
  const auto channels = static_cast<size_t>(image[0]);
  return {.image = image,
          .distortion = distortion,
          .mean = std::vector<float>(channels, 0.0f),
          .std = std::vector<float>(channels, 1.0f)};
}

void add_images(const Dataset& images, int64_t begin, int64_t end, Sums& sums) {
  RandomStream unused(0, Use::kAugment);
  std::vector<float> labels(images.label_width());
  for (int64_t i = begin; i < end; i++) {
    if (const Result<> loaded = images.load(i, unused, sums.image, labels); !loaded) {
      if (loaded.error().code == Code::kData) continue;
      sums.fault = loaded.error();
      return;
    }
    for (size_t k = 0; k < sums.sum.size(); k++) sums.sum[k] += static_cast<uint64_t>(sums.image[k]);
    sums.count++;
  }
}

double seconds_since(std::chrono::steady_clock::time_point begin) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

Result<std::vector<float>> compute_mean(const Dataset& images, int threads, const Log& log) {
  const auto elements = static_cast<size_t>(element_count(images.image()));
  ThreadPool pool(threads, "mean-image");
  std::vector<Sums> sums(static_cast<size_t>(threads), Sums(elements));
  const auto begin = std::chrono::steady_clock::now();
  constexpr int64_t kReportEvery = 10000;
  for (int64_t first = 0; first < images.size(); first += kReportEvery) {
    const int64_t count = std::min(kReportEvery, images.size() - first);
    pool.parallel_for(threads, [&](int64_t t) {
      add_images(images, first + count * t / threads, first + count * (t + 1) / threads, sums[static_cast<size_t>(t)]);
    });
    for (const Sums& part : sums) {
      if (part.fault) return tl::unexpected(*part.fault);
    }
    log.info("{} images processed, {:.0f} sec elapsed", first + count, seconds_since(begin));
  }
  int64_t count = 0;
  for (const Sums& part : sums) count += part.count;
  if (count == 0) return fail(Code::kData, "none of the training images can be decoded");
  std::vector<float> mean(elements);
  for (size_t k = 0; k < elements; k++) {
    uint64_t sum = 0;
    for (const Sums& part : sums) sum += part.sum[k];
    mean[k] = static_cast<float>(static_cast<double>(sum) / static_cast<double>(count));
  }
  return mean;
}

Result<> make_mean_image(const std::string& path, const images::AugmentOptions& cut,
                         std::shared_ptr<const ImageSource> source, int threads, const Log& log) {
  // Finds out whether the file can be written, before all images are read.
  if (const Result<AtomicFile> trial = AtomicFile::create(path); !trial) return tl::unexpected(trial.error());
  log.info("Cannot find {}: create mean image, this will take some time...", path);
  DT_TRY(std::vector<float> mean, compute_mean(*augmented(std::move(source), cut), threads, log));
  const NamedArray array{"mean_img", cut.image, std::move(mean)};
  DT_TRY_VOID(write_ndarray_file(path, {&array, 1}));
  log.info("Save mean image to {}..", path);
  return {};
}

}  // namespace

Result<std::shared_ptr<const std::vector<float>>> mean_image(const std::string& path, const Shape& image,
                                                             const images::Distortion& distortion,
                                                             std::shared_ptr<const ImageSource> source, int threads,
                                                             const Log& log) {
  std::error_code unknown;
  if (!std::filesystem::exists(path, unknown)) {
    DT_TRY_VOID(make_mean_image(path, not_normalised(image, distortion), std::move(source), threads, log),
                "computing the mean image '{}'", path);
  }
  DT_TRY(std::vector<NamedArray> arrays, read_ndarray_file(path), "loading the mean image '{}'", path);
  if (arrays.size() != 1)
    return fail(Code::kData, "{}: the file has {} arrays, but a mean image file has one", path, arrays.size());
  if (arrays[0].shape != image) {
    return fail(Code::kData, "{}: the mean image has shape {}, but the network's images have {}", path,
                to_string(arrays[0].shape), to_string(image));
  }
  log.info("Load mean image from {}", path);
  return std::make_shared<const std::vector<float>>(std::move(arrays[0].values));
}

}  // namespace dtrain::data
