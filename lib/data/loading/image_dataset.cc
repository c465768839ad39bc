#include "data/loading/image_dataset.h"

#include <atomic>
#include <utility>

#include "base/mutex.h"
#include "telemetry/timeline.h"

namespace dtrain::data {
namespace {

class ImageDataset : public Dataset {
 public:
  ImageDataset(std::shared_ptr<const ImageSource> source, images::AugmentOptions options)
      : source_(std::move(source)), augmenter_(std::move(options)) {}

  [[nodiscard]] int64_t size() const override { return source_->size(); }
  [[nodiscard]] const Shape& image() const override { return augmenter_.options().image; }
  [[nodiscard]] size_t label_width() const override { return source_->label_width(); }
  [[nodiscard]] std::string describe(int64_t index) const override { return source_->describe(index); }
  [[nodiscard]] int64_t stored_bytes(int64_t index) const override {
    const int64_t bytes = source_->stored_bytes(index);
    return bytes > 0 ? bytes : Dataset::stored_bytes(index);
  }
  void will_load(std::span<const int64_t> records) const override { source_->will_read(records); }

  void record_on(telemetry::Timeline* timeline) const override { timeline_ = timeline; }

  [[nodiscard]] std::shared_ptr<const Normalisation> normalisation() const override {
    return augmenter_.normalisation();
  }

  [[nodiscard]] images::Stages stages() const override DT_EXCLUDES(mutex_) {
    const MutexLock lock(mutex_);
    return stages_;
  }

  Result<> load(int64_t index, RandomStream& random, std::span<float> out, std::span<float> labels) const override {
    return with_scratch([&](Scratch& scratch) -> Result<> {
      DT_TRY_VOID(read(index, scratch, labels));
      const telemetry::Span span(timeline_, "decode", "data");
      return with_place(index, augmenter_.apply(scratch.read, random, scratch.augment, out));
    });
  }

  Result<bool> load_pixels(int64_t index, RandomStream& random, std::span<uint8_t> out,
                           std::span<float> labels) const override {
    return with_scratch([&](Scratch& scratch) -> Result<bool> {
      DT_TRY_VOID(read(index, scratch, labels));
      const telemetry::Span span(timeline_, "decode", "data");
      return with_place(index, augmenter_.crop(scratch.read, random, scratch.augment, out));
    });
  }

 private:
  // One image in kTimedEvery is timed, because timing reads the clock seven times, which would slow down small images.
  // Common batch sizes are not multiples of 7, so over time all rows of a batch are timed. (On a slow disk the first
  // row waits longest.)
  static constexpr uint64_t kTimedEvery = 7;

  struct Scratch {
    ReadScratch read;
    images::Augmenter::Scratch augment;
    uint64_t images = 0;
    images::Stages stages;  // times of the current image
  };

  Result<> read(int64_t index, Scratch& scratch, std::span<float> labels) const {
    telemetry::Span span(timeline_, "read", "data");
    span.with("record", index);
    const bool is_timed = scratch.read.stages != nullptr;
    Result<> read;
    {
      const images::StageTimer timer(is_timed ? &scratch.stages.read : nullptr);
      read = source_->read(index, scratch.read, labels);
    }
    // The source's time includes the time for the header and, with a cache, for decoding the image. They are stages of
    // their own, so they are subtracted.
    if (is_timed) scratch.stages.read -= scratch.stages.header + scratch.stages.decode;
    return read;
  }

  // Adds the image's location to an error.
  template <class T>
  Result<T> with_place(int64_t index, Result<T> result) const {
    if (!result) return fail(result.error().code, "{}: {}", describe(index), result.error().message);
    return result;
  }

  // Lends scratch memory for one image, so that callers need not manage it. The pool grows to the largest number of
  // threads that have been inside at the same time.
  template <class Work>
  std::invoke_result_t<Work, Scratch&> with_scratch(const Work& work) const {
    std::unique_ptr<Scratch> scratch = take_scratch();
    const bool is_timed = scratch->images++ % kTimedEvery == 0;
    scratch->stages = {};
    scratch->read.stages = scratch->augment.stages = is_timed ? &scratch->stages : nullptr;
    double seconds = 0;
    auto result = [&] {
      const images::StageTimer timer(is_timed ? &seconds : nullptr);
      return work(*scratch);
    }();
    if (is_timed && result) note_times(seconds, scratch->stages);
    give_back(std::move(scratch));
    return result;
  }
  // Records the times of an image. The time for the rows is the part of `seconds` that the other stages do not account
  // for.
  void note_times(double seconds, images::Stages times) const DT_EXCLUDES(mutex_) {
    times.images = 1;
    times.rows = seconds - times.all();
    const MutexLock lock(mutex_);
    stages_ += times;
  }
  std::unique_ptr<Scratch> take_scratch() const DT_EXCLUDES(mutex_) {
    {
      const MutexLock lock(mutex_);
      if (!free_.empty()) {
        std::unique_ptr<Scratch> scratch = std::move(free_.back());
        free_.pop_back();
        return scratch;
      }
    }
    return std::make_unique<Scratch>();
  }
  void give_back(std::unique_ptr<Scratch> scratch) const DT_EXCLUDES(mutex_) {
    const MutexLock lock(mutex_);
    free_.push_back(std::move(scratch));
  }

  std::shared_ptr<const ImageSource> source_;
  images::Augmenter augmenter_;
  mutable std::atomic<telemetry::Timeline*> timeline_ = nullptr;
  mutable Mutex mutex_;
  mutable std::vector<std::unique_ptr<Scratch>> free_ DT_GUARDED_BY(mutex_);
  mutable images::Stages stages_ DT_GUARDED_BY(mutex_);
};

}  // namespace

std::shared_ptr<const Dataset> augmented(std::shared_ptr<const ImageSource> source, images::AugmentOptions options) {
  return std::make_shared<const ImageDataset>(std::move(source), std::move(options));
}

}  // namespace dtrain::data
