#include "data/loader.h"

#include <algorithm>
#include <atomic>
#include <numeric>
#include <optional>
#include <set>
#include <thread>
#include <utility>

#include "base/mutex.h"
#include "base/thread.h"
#include "data/batch_rows.h"

namespace dtrain::data {

Result<bool> Dataset::load_pixels(int64_t index, RandomStream&, std::span<uint8_t>, std::span<float>) const {
  DT_CHECK(false, "{}: the data set cannot return pixels", describe(index));
  return false;
}

// A ring of batches. Decoders take runs of rows from it in order and fill them. The consumer holds one batch, while up
// to `prefetch` more are being filled. Memory is allocated once.
class Loader::Impl {
 public:
  Impl(std::shared_ptr<const Dataset> dataset, LoaderOptions options, Log log);
  ~Impl();

  void start(int64_t epoch, int64_t first);
  Result<const LoadedBatch*> next();
  const LoadedBatch* peek();
  [[nodiscard]] int64_t bad_records() const;
  [[nodiscard]] int64_t batches() const { return options_.batches; }

 private:
  struct Slot {
    BatchRows rows;
    std::vector<int64_t> records;  // by row
    std::vector<uint8_t> broken;   // by row, in validation: 1 if left out
    LoadedBatch batch = {};
  };
  // How far the decoders are with a slot.
  struct Filling {
    int64_t missing = 0;  // rows that are not filled yet
    std::optional<Error> error;
  };
  // Rows [begin, end) of one batch.
  struct Run {
    int64_t batch = 0, begin = 0, end = 0;
  };

  void serve();
  std::optional<Run> take_run() DT_EXCLUDES(mutex_);
  void finish_run(const Run& run, Result<> result) DT_EXCLUDES(mutex_);
  void fail_next_batch(const Error& error) DT_EXCLUDES(mutex_);

  Result<> fill(const Run& run);
  Result<> fill_training_row(Slot& slot, int64_t row, int64_t place);
  Result<> fill_validation_row(Slot& slot, int64_t row, int64_t place);
  // True if the row was filled; false if the record is broken, as found now or before.
  Result<bool> load(Slot& slot, int64_t row, int64_t record);
  Result<> note_broken(int64_t record, const Error& error) DT_EXCLUDES(mutex_);
  bool known_broken(int64_t record) const DT_EXCLUDES(mutex_);
  Result<> load_image(Slot& slot, int64_t row, int64_t record, std::span<float> labels);
  Result<> set_labels(Slot& slot, int64_t row, int64_t record, std::span<const float> of_record);
  Slot& slot_of(int64_t batch) { return slots_[static_cast<size_t>(batch) % slots_.size()]; }
  Filling& filling_of(int64_t batch) DT_REQUIRES(mutex_) {
    return filling_[static_cast<size_t>(batch) % filling_.size()];
  }
  void set_batch(Slot& slot);
  void make_order();
  void prepare(int64_t batch) DT_REQUIRES(mutex_);
  Result<Slot*> take_batch() DT_EXCLUDES(mutex_);
  bool await(const Filling& filling) DT_REQUIRES(mutex_);

  const std::shared_ptr<const Dataset> dataset_;
  LoaderOptions options_;
  const Log log_;
  int64_t run_rows_ = 1;  // few enough that all threads have work, many enough that the lock costs nothing

  // Written by start() while no run is in flight, as is options_.share. Decoders read them while they hold a run.
  std::vector<int64_t> order_;  // record numbers in this epoch's order
  int64_t epoch_ = -1;
  // A row is written by the decoder that holds its run. The caller's thread may use a slot once no row is missing.
  std::vector<Slot> slots_;
  // Used by the caller's thread only.
  uint64_t serial_ = 0;  // of the batch that next() returned last
  bool failed_ = false;  // an error was returned

  mutable Mutex mutex_;
  ConditionVariable work_, ready_;
  std::vector<Filling> filling_ DT_GUARDED_BY(mutex_);  // of each slot
  int64_t next_ DT_GUARDED_BY(mutex_) = 0;              // the batch that next() returns
  Run cursor_ DT_GUARDED_BY(mutex_);                    // the next run begins at row `begin` of `batch`
  bool running_ DT_GUARDED_BY(mutex_) = false;          // runs may be taken
  int64_t in_flight_ DT_GUARDED_BY(mutex_) = 0;         // runs taken and not finished
  int64_t finished_ DT_GUARDED_BY(mutex_) = 0;          // runs finished
  bool stop_ DT_GUARDED_BY(mutex_) = false;
  std::set<int64_t> broken_ DT_GUARDED_BY(mutex_);
  std::atomic<bool> any_broken_ = false;
  std::vector<std::thread> threads_;
};

Loader::Impl::Impl(std::shared_ptr<const Dataset> dataset, LoaderOptions options, Log log)
    : dataset_(std::move(dataset)), options_(std::move(options)), log_(std::move(log)) {
  DT_CHECK(options_.batch_size > 0 && options_.threads > 0, "batch size {}, threads {}", options_.batch_size,
           options_.threads);
  DT_CHECK(
      0 <= options_.share.begin && options_.share.begin <= options_.share.end && options_.share.end <= dataset_->size(),
      "share [{}, {}) of {} records", options_.share.begin, options_.share.end, dataset_->size());
  DT_CHECK(!options_.pixels || dataset_->normalisation() != nullptr, "the data set cannot return pixels");
  for (const BatchLabel& label : options_.labels) {
    DT_CHECK(label.position < dataset_->label_width(), "label {} of {}", label.position, dataset_->label_width());
  }
  if (options_.batches == 0) options_.batches = batches_per_epoch(options_.share.size(), options_.batch_size);
  constexpr int64_t kRunRowsMax = 32;
  run_rows_ = std::clamp<int64_t>(options_.batch_size / (int64_t{4} * options_.threads), 1, kRunRowsMax);
  const auto rows = static_cast<size_t>(options_.batch_size);
  const BatchRows::Form form{.rows = rows,
                             .image_elements = static_cast<size_t>(element_count(dataset_->image())),
                             .labels = options_.labels.size(),
                             .pixels = options_.pixels};
  for (int64_t i = 0; i < std::max<int64_t>(options_.prefetch, 1) + 1; i++) {
    slots_.push_back({.rows = BatchRows(form, options_.allocate),
                      .records = std::vector<int64_t>(rows),
                      .broken = std::vector<uint8_t>(rows)});
  }
  filling_.resize(slots_.size());
  for (int i = 0; i < options_.threads; i++) threads_.emplace_back([this] { serve(); });
}

Loader::Impl::~Impl() {
  {
    const MutexLock lock(mutex_);
    stop_ = true;
  }
  work_.notify_all();
  for (std::thread& thread : threads_) thread.join();
}

void Loader::Impl::start(int64_t epoch, int64_t first) {
  const MutexLock lock(mutex_);
  running_ = false;
  const bool ended =
      ready_.wait_for(mutex_, options_.wait_max, [this]() DT_REQUIRES(mutex_) { return in_flight_ == 0; });
  DT_CHECK(ended, "a decoder thread did not finish its images within the time limit");
  if (epoch_ != epoch) {
    epoch_ = epoch;
    if (options_.share_in) options_.share = options_.share_in(epoch);
    make_order();
  }
  next_ = first;
  serial_++;  // next() will not return what peek() returned
  cursor_ = {.batch = first};
  prepare(first);
  failed_ = false;
  running_ = true;
  work_.notify_all();
}

void Loader::Impl::make_order() {
  const Share share = options_.share;
  if (options_.mode == LoaderOptions::Mode::kTraining && options_.shuffle) {
    RandomStream random(options_.seed, Use::kShuffle, static_cast<uint64_t>(epoch_),
                        static_cast<uint64_t>(share.begin));
    order_ = permutation(share.size(), random);
    for (int64_t& record : order_) record += share.begin;
  } else {
    order_.resize(static_cast<size_t>(share.size()));
    std::iota(order_.begin(), order_.end(), share.begin);
  }
}

void Loader::Impl::prepare(int64_t batch) {
  filling_of(batch) = {.missing = options_.batch_size, .error = std::nullopt};
}

void Loader::Impl::serve() {
  name_thread("decode");
  flush_denormals();
  const Result<> served = catching([&]() -> Result<> {
    while (const std::optional<Run> run = take_run()) finish_run(*run, catching([&] { return fill(*run); }));
    return {};
  });
  if (!served) fail_next_batch(served.error());
}

void Loader::Impl::fail_next_batch(const Error& error) {
  const MutexLock lock(mutex_);
  filling_of(next_).error = error;
  running_ = false;
  ready_.notify_all();
}

std::optional<Loader::Impl::Run> Loader::Impl::take_run() {
  const MutexLock lock(mutex_);
  work_.wait(mutex_, [this]() DT_REQUIRES(mutex_) {
    const int64_t limit = std::min(next_ + static_cast<int64_t>(slots_.size()) - 1, options_.batches);
    return stop_ || (running_ && cursor_.batch < limit);
  });
  if (stop_) return std::nullopt;
  if (cursor_.begin == 0) prepare(cursor_.batch);
  const Run run{cursor_.batch, cursor_.begin, std::min(cursor_.begin + run_rows_, options_.batch_size)};
  cursor_.begin = run.end;
  if (run.end == options_.batch_size) cursor_ = {.batch = run.batch + 1};
  in_flight_++;
  return run;
}

void Loader::Impl::finish_run(const Run& run, Result<> result) {
  const MutexLock lock(mutex_);
  Filling& filling = filling_of(run.batch);
  filling.missing -= run.end - run.begin;
  if (!result && !filling.error) {
    filling.error = std::move(result.error());
    running_ = false;  // earlier batches are already taken by decoders, later ones will not be returned
  }
  in_flight_--;
  finished_++;
  if (filling.missing == 0 || filling.error || in_flight_ == 0) ready_.notify_all();
}

Result<> Loader::Impl::fill(const Run& run) {
  Slot& slot = slot_of(run.batch);
  for (int64_t row = run.begin; row < run.end; row++) {
    const int64_t place = run.batch * options_.batch_size + row;
    DT_TRY_VOID(options_.mode == LoaderOptions::Mode::kTraining ? fill_training_row(slot, row, place)
                                                                : fill_validation_row(slot, row, place));
  }
  return {};
}

Result<> Loader::Impl::fill_training_row(Slot& slot, int64_t row, int64_t place) {
  for (size_t i = 0; i < order_.size(); i++) {
    const int64_t record = order_[(static_cast<size_t>(place) + i) % order_.size()];
    DT_TRY(const bool filled, load(slot, row, record));
    if (filled) return {};
  }
  return fail(Code::kData, "none of the records {} to {}, this worker's share, can be read", options_.share.begin,
              options_.share.end - 1);
}

Result<> Loader::Impl::fill_validation_row(Slot& slot, int64_t row, int64_t place) {
  bool filled = false;
  if (place < static_cast<int64_t>(order_.size())) {
    DT_TRY(filled, load(slot, row, order_[static_cast<size_t>(place)]));
  }
  slot.broken[static_cast<size_t>(row)] = filled ? 0 : 1;
  if (!filled) slot.rows.clear(row);
  return {};
}

Result<> Loader::Impl::load_image(Slot& slot, int64_t row, int64_t record, std::span<float> labels) {
  RandomStream random(options_.seed, Use::kAugment, static_cast<uint64_t>(epoch_), static_cast<uint64_t>(record));
  if (!options_.pixels) return dataset_->load(record, random, slot.rows.numbers(row), labels);
  DT_TRY(const bool mirrored, dataset_->load_pixels(record, random, slot.rows.pixels(row), labels));
  slot.rows.set_mirrored(row, mirrored);
  return {};
}

Result<> Loader::Impl::set_labels(Slot& slot, int64_t row, int64_t record, std::span<const float> of_record) {
  const std::span<float> labels = slot.rows.labels(row);
  for (size_t i = 0; i < labels.size(); i++) {
    const BatchLabel& label = options_.labels[i];
    labels[i] = of_record[label.position];
    if (labels[i] >= 0.0f && labels[i] < static_cast<float>(label.classes)) continue;
    return fail(Code::kData, "{}: label {}{} is not in the range 0 to {}; check --num-classes",
                dataset_->describe(record), labels[i], labels.size() == 1 ? "" : fmt::format(" for '{}'", label.name),
                label.classes - 1);
  }
  return {};
}

Result<bool> Loader::Impl::load(Slot& slot, int64_t row, int64_t record) {
  if (any_broken_ && known_broken(record)) return false;
  std::vector<float> of_record(dataset_->label_width());
  if (const Result<> loaded = load_image(slot, row, record, of_record); !loaded) {
    if (loaded.error().code != Code::kData) return tl::unexpected(loaded.error());
    DT_TRY_VOID(note_broken(record, loaded.error()));
    return false;
  }
  DT_TRY_VOID(set_labels(slot, row, record, of_record));
  slot.records[static_cast<size_t>(row)] = record;
  RandomStream keys(options_.seed, Use::kDropout, static_cast<uint64_t>(epoch_), static_cast<uint64_t>(record));
  slot.rows.set_key(row, keys.next());
  return true;
}

bool Loader::Impl::known_broken(int64_t record) const {
  const MutexLock lock(mutex_);
  return broken_.contains(record);
}

Result<> Loader::Impl::note_broken(int64_t record, const Error& error) {
  int64_t count = 0;
  {
    const MutexLock lock(mutex_);
    if (!broken_.insert(record).second) return {};  // another thread found it at the same time
    count = static_cast<int64_t>(broken_.size());
    any_broken_ = true;
  }
  if (options_.max_bad_records == 0) {
    return fail(Code::kData, "{} (--max-bad-records N leaves out up to N that cannot be read)", error.message);
  }
  log_.warn("skipped broken record {} (--max-bad-records {}): {}", count, options_.max_bad_records, error.message);
  if (count > options_.max_bad_records) {
    return fail(Code::kData, "found {} broken records, more than --max-bad-records {}; the last one: {}", count,
                options_.max_bad_records, error.message);
  }
  return {};
}

// Waits until the slot of `filling` is full or has failed. False if nothing made progress for wait_max.
bool Loader::Impl::await(const Filling& filling) {
  while (filling.missing > 0 && !filling.error) {
    const int64_t before = finished_;
    if (ready_.wait_for(mutex_, options_.wait_max) == std::cv_status::timeout && finished_ == before) return false;
  }
  return true;
}

// Waits for the slot of the next batch and lets decoders begin one more. Null at the end of the epoch.
Result<Loader::Impl::Slot*> Loader::Impl::take_batch() {
  const MutexLock lock(mutex_);
  if (next_ >= options_.batches) return nullptr;
  const Filling& filling = filling_of(next_);
  if (!await(filling)) {
    failed_ = true;
    return fail(Code::kData, "no image could be read for {} s; check that the disk with the data responds",
                options_.wait_max.count());
  }
  if (filling.error) {
    failed_ = true;
    return tl::unexpected(*filling.error);
  }
  Slot& slot = slot_of(next_);
  next_++;
  // If no decoder has begun batch next_ yet, all its rows are marked as missing here.
  if (next_ == cursor_.batch && cursor_.begin == 0) prepare(next_);
  return &slot;
}

Result<const LoadedBatch*> Loader::Impl::next() {
  DT_CHECK(epoch_ >= 0 && !failed_, "next() before start(), or after an error");
  DT_TRY(Slot* const slot, take_batch());
  if (slot == nullptr) return nullptr;
  work_.notify_all();
  set_batch(*slot);
  slot->batch.serial = ++serial_;
  return &slot->batch;
}

// There are at least two slots, so that this is not the one of the batch that next() returned last.
const LoadedBatch* Loader::Impl::peek() {
  const MutexLock lock(mutex_);
  DT_CHECK(options_.mode == LoaderOptions::Mode::kTraining, "peek() is for training batches only");
  if (next_ >= options_.batches || cursor_.batch <= next_) return nullptr;
  const Filling& filling = filling_of(next_);
  if (filling.missing > 0 || filling.error) return nullptr;
  Slot& slot = slot_of(next_);
  set_batch(slot);
  slot.batch.serial = serial_ + 1;
  return &slot.batch;
}

// Sets slot.batch. In validation, moves the rows that count to the front.
void Loader::Impl::set_batch(Slot& slot) {
  int64_t count = options_.batch_size;
  if (options_.mode == LoaderOptions::Mode::kValidation) {
    count = 0;
    for (int64_t row = 0; row < options_.batch_size; row++) {
      if (slot.broken[static_cast<size_t>(row)] != 0) continue;
      if (row != count) {
        slot.rows.copy(row, count);
        slot.records[static_cast<size_t>(count)] = slot.records[static_cast<size_t>(row)];
      }
      count++;
    }
  }
  slot.batch = {slot.rows.view(), count, slot.records, 0};
}

int64_t Loader::Impl::bad_records() const {
  const MutexLock lock(mutex_);
  return static_cast<int64_t>(broken_.size());
}

Loader::Loader(std::shared_ptr<const Dataset> dataset, LoaderOptions options, Log log)
    : impl_(std::make_unique<Impl>(std::move(dataset), std::move(options), std::move(log))) {}
Loader::~Loader() = default;
void Loader::start(int64_t epoch, int64_t first) {
  impl_->start(epoch, first);
}
Result<const LoadedBatch*> Loader::next() {
  return impl_->next();
}
const LoadedBatch* Loader::peek() {
  return impl_->peek();
}
int64_t Loader::bad_records() const {
  return impl_->bad_records();
}
int64_t Loader::batches() const {
  return impl_->batches();
}

}  // namespace dtrain::data
