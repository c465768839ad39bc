#include "data/loading/synthetic.h"

#include <algorithm>

namespace dtrain::data {
namespace {

class Synthetic : public Dataset {
 public:
  explicit Synthetic(const SyntheticOptions& options)
      : image_(options.image),
        rows_(static_cast<size_t>(options.batch_size)),
        label_width_(options.classes.size()),
        size_(options.batch_size * options.batches),
        data_(static_cast<size_t>(options.batch_size * element_count(options.image))),
        labels_(rows_ * label_width_) {
    RandomStream random(options.seed, Use::kSynthetic, static_cast<uint64_t>(options.rank));
    for (float& x : data_) x = static_cast<float>(random.uniform(-1.0, 1.0));
    for (size_t i = 0; i < labels_.size(); i++) {
      labels_[i] = static_cast<float>(random.below(options.classes[i % label_width_]));
    }
  }

  [[nodiscard]] int64_t size() const override { return size_; }
  [[nodiscard]] const Shape& image() const override { return image_; }
  [[nodiscard]] size_t label_width() const override { return label_width_; }
  Result<> load(int64_t index, RandomStream&, std::span<float> out, std::span<float> labels) const override {
    const size_t row = static_cast<size_t>(index) % rows_;
    const auto begin = data_.begin() + static_cast<ptrdiff_t>(row * out.size());
    std::copy(begin, begin + static_cast<ptrdiff_t>(out.size()), out.begin());
    std::ranges::copy(std::span(labels_).subspan(row * label_width_, label_width_), labels.begin());
    return {};
  }

 private:
  Shape image_;
  size_t rows_, label_width_;
  int64_t size_;
  std::vector<float> data_, labels_;
};

}  // namespace

std::shared_ptr<const Dataset> synthetic(const SyntheticOptions& options) {
  return std::make_shared<const Synthetic>(options);
}

}  // namespace dtrain::data
