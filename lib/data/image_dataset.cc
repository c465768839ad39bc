#include "data/image_dataset.h"

#include <mutex>
#include <utility>

namespace dtrain::data {
namespace {

class ImageDataset : public Dataset {
 public:
  ImageDataset(std::shared_ptr<const ImageSource> source, AugmentOptions options)
      : source_(std::move(source)), augmenter_(std::move(options)) {}

  [[nodiscard]] int64_t size() const override { return source_->size(); }
  [[nodiscard]] const Shape& image() const override { return augmenter_.options().image; }
  [[nodiscard]] std::string describe(int64_t index) const override { return source_->describe(index); }

  Result<float> load(int64_t index, RandomStream& random, std::span<float> out) const override {
    std::unique_ptr<Scratch> scratch = take_scratch();
    auto label = load(index, random, out, *scratch);
    give_back(std::move(scratch));
    return label;
  }

 private:
  struct Scratch {
    ReadScratch read;
    Augmenter::Scratch augment;
  };

  Result<float> load(int64_t index, RandomStream& random, std::span<float> out, Scratch& scratch) const {
    DT_TRY(const float label, source_->read(index, scratch.read));
    if (const auto done = augmenter_.apply(scratch.read.image, random, scratch.augment, out); !done) {
      return fail(Code::kData, "{}: {}", describe(index), done.error().message);
    }
    return label;
  }

  // Scratch memory is lent for one picture, so that callers need not know of it; there is as much as threads were
  // inside at once.
  std::unique_ptr<Scratch> take_scratch() const {
    {
      const std::lock_guard lock(mutex_);
      if (!free_.empty()) {
        std::unique_ptr<Scratch> scratch = std::move(free_.back());
        free_.pop_back();
        return scratch;
      }
    }
    return std::make_unique<Scratch>();
  }
  void give_back(std::unique_ptr<Scratch> scratch) const {
    const std::lock_guard lock(mutex_);
    free_.push_back(std::move(scratch));
  }

  std::shared_ptr<const ImageSource> source_;
  Augmenter augmenter_;
  mutable std::mutex mutex_;
  mutable std::vector<std::unique_ptr<Scratch>> free_;
};

}  // namespace

std::shared_ptr<const Dataset> augmented(std::shared_ptr<const ImageSource> source, AugmentOptions options) {
  return std::make_shared<const ImageDataset>(std::move(source), std::move(options));
}

}  // namespace dtrain::data
