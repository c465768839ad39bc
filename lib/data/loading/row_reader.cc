#include "data/loading/row_reader.h"

#include <cmath>
#include <utility>

namespace dtrain::data {

RowReader::RowReader(std::shared_ptr<const Dataset> dataset, Options options, Log log)
    : dataset_(std::move(dataset)), options_(std::move(options)), log_(std::move(log)) {
  DT_CHECK(!options_.pixels || dataset_->normalisation() != nullptr, "the data set cannot return pixels");
  DT_CHECK(options_.labels.size() <= dataset_->label_width(), "{} labels of {}", options_.labels.size(),
           dataset_->label_width());
}

Result<bool> RowReader::read(BatchRows& rows, int64_t row, int64_t epoch, int64_t record) {
  if (any_broken_ && known_broken(record)) return false;
  std::vector<float> of_record(dataset_->label_width());
  if (const Result<> read = read_image(rows, row, epoch, record, of_record); !read) {
    if (read.error().code != Code::kData) return tl::unexpected(read.error());
    DT_TRY_VOID(note_broken(record, read.error()));
    return false;
  }
  DT_TRY_VOID(set_labels(rows.labels(row), record, of_record));
  RandomStream keys(options_.seed, Use::kDropout, static_cast<uint64_t>(epoch), static_cast<uint64_t>(record));
  rows.set_key(row, keys.next());
  return true;
}

Result<> RowReader::read_image(BatchRows& rows, int64_t row, int64_t epoch, int64_t record, std::span<float> labels) {
  RandomStream random(options_.seed, Use::kAugment, static_cast<uint64_t>(epoch), static_cast<uint64_t>(record));
  if (!options_.pixels) return dataset_->load(record, random, rows.floats(row), labels);
  DT_TRY(const bool mirrored, dataset_->load_pixels(record, random, rows.pixels(row), labels));
  rows.set_mirrored(row, mirrored);
  return {};
}

Result<> RowReader::set_labels(std::span<float> labels, int64_t record, std::span<const float> of_record) const {
  for (size_t i = 0; i < labels.size(); i++) {
    const BatchLabel& label = options_.labels[i];
    labels[i] = of_record[i];
    if (label.classes == 0) continue;
    const bool in_range = labels[i] >= 0.0f && labels[i] < static_cast<float>(label.classes);
    if (in_range && labels[i] == std::trunc(labels[i])) continue;
    return fail(Code::kData, "{}: label {}{} is not {} 0 to {}; check {}", dataset_->describe(record), labels[i],
                labels.size() == 1 ? "" : fmt::format(" for '{}'", label.name),
                in_range ? "a whole number from" : "in the range", label.classes - 1,
                in_range ? "the labels of the data" : "--num-classes");
  }
  return {};
}

bool RowReader::known_broken(int64_t record) const {
  const MutexLock lock(mutex_);
  return broken_.contains(record);
}

Result<> RowReader::note_broken(int64_t record, const Error& error) {
  int64_t count = 0;
  {
    const MutexLock lock(mutex_);
    if (!broken_.insert(record).second) return {};  // another thread found the broken record at the same time
    count = static_cast<int64_t>(broken_.size());
    any_broken_ = true;
  }
  if (options_.max_bad_records == 0) {
    return fail(Code::kData, "{} (--max-bad-records N skips up to N records that cannot be read)", error.message);
  }
  log_.warn("skipped broken record {} (--max-bad-records {}): {}", count, options_.max_bad_records, error.message);
  if (count > options_.max_bad_records) {
    return fail(Code::kData, "found {} broken records, more than --max-bad-records {}; the last of them: {}", count,
                options_.max_bad_records, error.message);
  }
  return {};
}

int64_t RowReader::bad_records() const {
  const MutexLock lock(mutex_);
  return static_cast<int64_t>(broken_.size());
}

}  // namespace dtrain::data
