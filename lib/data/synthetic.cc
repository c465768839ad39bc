#include "data/synthetic.h"

#include <algorithm>

namespace dtrain::data {
namespace {

class Synthetic : public Dataset {
 public:
  explicit Synthetic(const SyntheticOptions& options)
      : image_(options.image),
        size_(options.batch_size * options.batches),
        data_(static_cast<size_t>(options.batch_size * element_count(options.image))),
        labels_(static_cast<size_t>(options.batch_size)) {
    RandomStream random(options.seed, Use::kSynthetic, static_cast<uint64_t>(options.rank));
    for (float& x : data_) x = static_cast<float>(random.uniform(-1.0, 1.0));
    for (float& label : labels_) label = static_cast<float>(random.below(options.classes));
  }

  [[nodiscard]] int64_t size() const override { return size_; }
  [[nodiscard]] const Shape& image() const override { return image_; }
  Result<float> load(int64_t index, RandomStream&, std::span<float> out) const override {
    const size_t row = static_cast<size_t>(index) % labels_.size();
    const auto begin = data_.begin() + static_cast<ptrdiff_t>(row * out.size());
    std::copy(begin, begin + static_cast<ptrdiff_t>(out.size()), out.begin());
    return labels_[row];
  }

 private:
  Shape image_;
  int64_t size_;
  std::vector<float> data_, labels_;
};

}  // namespace

std::shared_ptr<const Dataset> synthetic(const SyntheticOptions& options) {
  return std::make_shared<const Synthetic>(options);
}

}  // namespace dtrain::data
