// A data set whose records are two numbers each, and what tests of the loader have in common.
#pragma once

#include <algorithm>
#include <atomic>
#include <map>
#include <mutex>
#include <set>
#include <stdexcept>
#include <vector>

#include "data/loading/loader.h"
#include "support/must.h"

namespace dtrain::test {

// Record i has two numbers: i and a random number. Its label is i % classes. Some records are broken.
class Numbers : public data::Dataset {
 public:
  explicit Numbers(int64_t size) : size_(size) {}
  [[nodiscard]] int64_t size() const override { return size_; }
  [[nodiscard]] const Shape& image() const override { return image_; }
  Result<> load(int64_t index, RandomStream& random, std::span<float> out, std::span<float> labels) const override {
    loads++;
    if (throws) throw std::runtime_error("a library threw");
    if (broken.contains(index)) return fail(Code::kData, "numbers: record {}: broken on purpose", index);
    out[0] = static_cast<float>(index);
    out[1] = static_cast<float>(random.uniform());
    labels[0] = static_cast<float>(index % classes) + label_excess;
    return {};
  }

  void will_load(std::span<const int64_t> records) const override {
    const std::lock_guard lock(mutex);
    announced.insert(announced.end(), records.begin(), records.end());
  }
  size_t announced_count() const {
    const std::lock_guard lock(mutex);
    return announced.size();
  }

  mutable std::mutex mutex;
  mutable std::vector<int64_t> announced;
  std::set<int64_t> broken;
  int64_t classes = 10;
  float label_excess = 0;
  bool throws = false;
  mutable std::atomic<int64_t> loads = 0;

 private:
  Shape image_ = {2, 1, 1};
  int64_t size_;
};

inline data::LoaderOptions training(int64_t records, int64_t batch_size) {
  return {.share = {0, records}, .batch_size = batch_size, .labels = {{.name = {}, .classes = 10}}, .seed = 7};
}

struct Row {
  float record = 0, draw = 0, label = 0;
  uint64_t key = 0;
  bool operator==(const Row&) const = default;
};

inline Row row_of(const data::LoadedBatch& batch, size_t i) {
  return {batch.images().floats[2 * i], batch.images().floats[2 * i + 1], batch.labels[i], batch.keys[i]};
}

// The rows of an epoch, batch after batch. Of validation batches only those that count, without padding.
inline std::vector<Row> epoch_rows(data::Loader& loader, int64_t epoch, int64_t first = 0) {
  std::vector<Row> rows;
  loader.start(epoch, first);
  while (const data::LoadedBatch* batch = must(loader.next())) {
    for (size_t i = 0; i < static_cast<size_t>(batch->count); i++) rows.push_back(row_of(*batch, i));
  }
  return rows;
}

inline std::map<float, int> count_records(const std::vector<Row>& rows) {
  std::map<float, int> counts;
  for (const Row& row : rows) counts[row.record]++;
  return counts;
}

// Runs an epoch that must fail, and returns its error.
inline Error failing_epoch(data::Loader& loader) {
  loader.start(0);
  while (true) {
    const auto batch = loader.next();
    if (!batch) return batch.error();
    if (*batch == nullptr) throw std::runtime_error("the epoch ended without an error");
  }
}

}  // namespace dtrain::test
