#include "data/sources/picture_cache.h"

#include <algorithm>
#include <utility>
#include <vector>

namespace dtrain::data {

bool CacheBudget::take(int64_t bytes) {
  int64_t left = left_;
  while (left >= bytes) {
    if (left_.compare_exchange_weak(left, left - bytes)) return true;
  }
  return false;
}

namespace {

struct KeptPicture {
  images::Image image;
  std::vector<float> labels;

  [[nodiscard]] int64_t bytes() const {
    constexpr size_t kAllocationBytes = 16;  // what the allocator keeps beside each of three pieces of memory
    return static_cast<int64_t>(sizeof *this + 3 * kAllocationBytes + image.pixels.capacity() +
                                labels.capacity() * sizeof(float));
  }
};

// Each picture has a place, which is empty until a thread has decoded it and never changes after that. So readers need
// no lock.
class CachedSource : public ImageSource {
 public:
  CachedSource(std::shared_ptr<const ImageSource> source, PictureCacheOptions options, Log log)
      : source_(std::move(source)),
        options_(std::move(options)),
        log_(std::move(log)),
        places_(static_cast<size_t>(source_->size())) {
    options_.budget->take(static_cast<int64_t>(places_.size() * sizeof places_[0]));
  }
  ~CachedSource() override {
    for (std::atomic<const KeptPicture*>& place : places_) delete place.load();
  }
  CachedSource(const CachedSource&) = delete;
  CachedSource& operator=(const CachedSource&) = delete;

  [[nodiscard]] int64_t size() const override { return source_->size(); }
  [[nodiscard]] int channels() const override { return source_->channels(); }
  [[nodiscard]] size_t label_width() const override { return source_->label_width(); }
  [[nodiscard]] int64_t stored_bytes(int64_t index) const override { return source_->stored_bytes(index); }
  [[nodiscard]] std::string describe(int64_t index) const override { return source_->describe(index); }
  [[nodiscard]] CacheUse cache_use() const override { return {hits_, misses_, pictures_, bytes_}; }

  void will_read(std::span<const int64_t> pictures) const override {
    std::vector<int64_t> missing;
    for (const int64_t index : pictures) {
      if (place(index).load(std::memory_order_relaxed) == nullptr) missing.push_back(index);
    }
    if (!missing.empty()) source_->will_read(missing);
  }

  Result<> read(int64_t index, ReadScratch& scratch, std::span<float> labels) const override {
    if (const KeptPicture* kept = place(index).load(std::memory_order_acquire)) {
      hits_++;
      scratch.open_image(kept->image);
      std::ranges::copy(kept->labels, labels.begin());
      return {};
    }
    misses_++;
    DT_TRY_VOID(source_->read(index, scratch, labels));
    if (is_full_) return {};
    if (const KeptPicture* kept = keep(index, scratch, labels)) {
      scratch.open_image(kept->image);
      return {};
    }
    // The pixels were used, so the picture is opened again.
    return source_->read(index, scratch, labels);
  }

 private:
  std::atomic<const KeptPicture*>& place(int64_t index) const { return places_[static_cast<size_t>(index)]; }

  // Null: the picture cannot be decoded as a whole, or does not fit.
  const KeptPicture* keep(int64_t index, ReadScratch& scratch, std::span<const float> labels) const {
    auto picture = std::make_unique<KeptPicture>();
    picture->labels.assign(labels.begin(), labels.end());
    if (!take_pixels(scratch, picture->image)) return nullptr;
    const int64_t bytes = picture->bytes();
    if (!options_.budget->take(bytes)) {
      is_full_ = true;
      return nullptr;
    }
    const KeptPicture* kept = nullptr;
    if (!place(index).compare_exchange_strong(kept, picture.get(), std::memory_order_acq_rel)) {
      options_.budget->give_back(bytes);  // another thread kept it at the same time
      return kept;
    }
    kept = picture.release();
    bytes_ += bytes;
    if (++pictures_ == kForecastAfter) forecast();
    return kept;
  }

  bool take_pixels(ReadScratch& scratch, images::Image& out) const {
    const images::ImageSize size = scratch.size();
    const auto [to, first_method] = images::first_resize(options_.resize, options_.interpolation, size, options_.crop);
    const int divisor = options_.scaled_decoding ? images::divisor_before_resize(size, to) : 1;
    if (divisor > 1) scratch.shrink(divisor);
    const Result<const images::Image*> decoded = scratch.decode();
    if (!decoded) return false;
    if (to == (*decoded)->size()) {
      out = **decoded;
      return true;
    }
    const images::StageTimer timer(scratch.stages == nullptr ? nullptr : &scratch.stages->decode);
    RandomStream none(0, Use::kAugment, 0, 0);
    const images::Interpolation method = choose(first_method, size, to, none);
    return images::resize_image(**decoded, to.height, to.width, out, method).has_value();
  }

  void forecast() const {
    const int64_t each = bytes_ / kForecastAfter;
    const int64_t fit = std::min(size(), options_.budget->bytes() / each);
    log_.info(
        "--data-cache: a decoded picture takes about {} KiB, so about {} of the {} pictures of the files, {} %, fit "
        "in {} MiB",
        each >> 10, fit, size(), 100 * fit / size(), options_.budget->bytes() >> 20);
  }

  static constexpr int64_t kForecastAfter = 64;  // pictures

  const std::shared_ptr<const ImageSource> source_;
  const PictureCacheOptions options_;
  const Log log_;
  mutable std::vector<std::atomic<const KeptPicture*>> places_;
  mutable std::atomic<bool> is_full_ = false;
  mutable std::atomic<int64_t> hits_ = 0, misses_ = 0, pictures_ = 0, bytes_ = 0;
};

}  // namespace

std::shared_ptr<const ImageSource> cached(std::shared_ptr<const ImageSource> source, PictureCacheOptions options,
                                          Log log) {
  DT_CHECK(options.resize == images::kKeepSize || options.interpolation != images::Interpolation::kRandom,
           "a random resize is not kept");
  return std::make_shared<const CachedSource>(std::move(source), std::move(options), std::move(log));
}

}  // namespace dtrain::data
