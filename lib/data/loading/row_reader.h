// Reads records into the rows of a batch, and keeps track of broken records.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <set>
#include <span>
#include <vector>

#include "base/log.h"
#include "base/mutex.h"
#include "data/loading/batch_rows.h"
#include "data/loading/loader.h"

namespace dtrain::data {

// Shared by the decoder threads.
class RowReader {
 public:
  struct Options {
    std::vector<BatchLabel> labels;
    bool pixels = false;  // whether images are written as pixels; otherwise as floats
    uint64_t seed = 0;
    int64_t max_bad_records = 0;
  };
  RowReader(std::shared_ptr<const Dataset> dataset, Options options, Log log);

  // Writes the image, labels and key of a record into a row, with the random numbers of (seed, epoch, record). Returns
  // false if the record is broken, whether this is found now or was found earlier; the record is counted and logged
  // once. Code::kData: there are more broken records than max_bad_records, or a label is not a class.
  Result<bool> read(BatchRows& rows, int64_t row, int64_t epoch, int64_t record);
  [[nodiscard]] int64_t bad_records() const DT_EXCLUDES(mutex_);

 private:
  Result<> read_image(BatchRows& rows, int64_t row, int64_t epoch, int64_t record, std::span<float> labels);
  Result<> set_labels(std::span<float> labels, int64_t record, std::span<const float> of_record) const;
  Result<> note_broken(int64_t record, const Error& error) DT_EXCLUDES(mutex_);
  bool known_broken(int64_t record) const DT_EXCLUDES(mutex_);

  const std::shared_ptr<const Dataset> dataset_;
  const Options options_;
  const Log log_;
  std::atomic<bool> any_broken_ = false;
  mutable Mutex mutex_;
  std::set<int64_t> broken_ DT_GUARDED_BY(mutex_);
};

}  // namespace dtrain::data
