#include "data/loading/loader.h"

#include <algorithm>
#include <optional>
#include <thread>
#include <utility>

#include "base/thread.h"
#include "data/loading/batch_ring.h"
#include "data/loading/batch_rows.h"
#include "data/loading/epoch_order.h"
#include "data/loading/row_reader.h"
#include "telemetry/timeline.h"

namespace dtrain::data {

std::string Dataset::describe(int64_t index) const {
  return fmt::format("record {}", index);
}

Result<bool> Dataset::load_pixels(int64_t index, RandomStream&, std::span<uint8_t>, std::span<float>) const {
  DT_CHECK(false, "{}: the data set cannot return pixels", describe(index));
  return false;
}

int64_t Dataset::stored_bytes(int64_t /*index*/) const {
  return element_count(image());
}

// Decoder threads take runs of rows from the ring and fill them. Memory is allocated once.
class Loader::Impl {
 public:
  Impl(std::shared_ptr<const Dataset> dataset, LoaderOptions options, Log log);
  ~Impl();

  void start(int64_t epoch, int64_t first);
  void set_share(const LoaderOptions& options);
  Result<> start_rest(const RestOfEpoch& of);
  Result<const LoadedBatch*> next();
  const LoadedBatch* peek();
  void set_threads(int threads);
  [[nodiscard]] int64_t bad_records() const { return reader_.bad_records(); }
  [[nodiscard]] int64_t batches() const { return options_.batches; }
  [[nodiscard]] int64_t ready_batches() { return ring_.ready_batches(); }

 private:
  struct Slot {
    BatchRows rows;
    std::vector<int64_t> records;  // the number of each row's record, indexed by row
    std::vector<uint8_t> broken;   // indexed by row; in validation: 1 if the row's record is left out
    LoadedBatch batch = {};
  };

  void serve(int decoder);
  Result<> fill(const BatchRing::Run& run);
  Result<> fill_training_row(Slot& slot, int64_t row, int64_t place);
  Result<> fill_validation_row(Slot& slot, int64_t row, int64_t place);
  Result<bool> read(Slot& slot, int64_t row, int64_t record);
  void announce(int64_t batch) const;
  [[nodiscard]] bool is_training() const { return options_.mode == LoaderOptions::Mode::kTraining; }
  Slot& slot_of(int64_t batch) { return slots_[static_cast<size_t>(ring_.slot_of(batch))]; }
  void set_batch(Slot& slot);
  void begin_at(int64_t first);
  [[nodiscard]] EpochOrder order_in_epoch() const;
  void make_order();

  const std::shared_ptr<const Dataset> dataset_;
  LoaderOptions options_;
  RowReader reader_;
  BatchRing ring_;

  // Written by start() while the ring is paused, as is options_.share. Decoders read them while they hold a run.
  std::vector<int64_t> order_;  // record numbers in this epoch's order
  int64_t epoch_ = -1;
  // A row is written by the decoder that holds its run. The caller's thread may use a slot once no row is missing.
  std::vector<Slot> slots_;
  // Used by the caller's thread only.
  uint64_t serial_ = 0;  // serial number of the batch that next() returned last
  bool failed_ = false;  // whether next() has returned an error

  std::vector<std::thread> threads_;
};

namespace {

LoaderOptions checked(LoaderOptions options, const Dataset& dataset) {
  const Share& share = options.share;
  DT_CHECK(options.batch_size > 0 && options.threads > 0, "batch size {}, threads {}", options.batch_size,
           options.threads);
  DT_CHECK(0 <= share.begin && share.begin <= share.end && share.end <= dataset.size(),
           "the share [{}, {}) is not within the {} records", share.begin, share.end, dataset.size());
  if (options.batches == 0) options.batches = batches_per_epoch(share.size(), options.batch_size);
  options.threads_max = std::max(options.threads_max, options.threads);
  return options;
}

// The size of runs: short enough to give every thread work, and long enough that the cost of the lock does not matter.
BatchRing::Options ring_options(const LoaderOptions& options) {
  constexpr int64_t kRunRowsMax = 32;
  return {.slots = std::max<int64_t>(options.prefetch, 1) + 1,
          .batch_size = options.batch_size,
          .batches = options.batches,
          .run_rows = std::clamp<int64_t>(options.batch_size / (int64_t{4} * options.threads_max), 1, kRunRowsMax),
          .decoders = options.threads,
          .wait_max = options.wait_max};
}

RowReader::Options reader_options(const LoaderOptions& options) {
  return {.labels = options.labels,
          .pixels = options.pixels,
          .seed = options.seed,
          .max_bad_records = options.max_bad_records};
}

}  // namespace

Loader::Impl::Impl(std::shared_ptr<const Dataset> dataset, LoaderOptions options, Log log)
    : dataset_(std::move(dataset)),
      options_(checked(std::move(options), *dataset_)),
      reader_(dataset_, reader_options(options_), std::move(log)),
      ring_(ring_options(options_)) {
  const auto rows = static_cast<size_t>(options_.batch_size);
  const BatchRows::Form form{.rows = rows,
                             .image_elements = static_cast<size_t>(element_count(dataset_->image())),
                             .labels = options_.labels.size(),
                             .pixels = options_.pixels};
  for (int64_t i = 0; i < ring_options(options_).slots; i++) {
    slots_.push_back({.rows = BatchRows(form, options_.allocate),
                      .records = std::vector<int64_t>(rows),
                      .broken = std::vector<uint8_t>(rows)});
  }
  if (options_.timeline != nullptr) dataset_->record_on(options_.timeline);
  for (int i = 0; i < options_.threads_max; i++) threads_.emplace_back([this, i] { serve(i); });
}

Loader::Impl::~Impl() {
  ring_.stop();
  for (std::thread& thread : threads_) thread.join();
}

void Loader::Impl::start(int64_t epoch, int64_t first) {
  ring_.pause();
  if (epoch_ != epoch) {
    epoch_ = epoch;
    if (options_.share_in) options_.share = options_.share_in(epoch);
    make_order();
  }
  begin_at(first);
}

void Loader::Impl::set_share(const LoaderOptions& options) {
  LoaderOptions changed = options_;
  changed.share = options.share;
  changed.share_in = options.share_in;
  changed.batches = options.batches;
  ring_.pause();
  options_ = checked(std::move(changed), *dataset_);
  ring_.set_batches(options_.batches);
  epoch_ = -1;  // so that the next start() makes a new order
}

Result<> Loader::Impl::start_rest(const RestOfEpoch& of) {
  for (const Share& share : of.rest.read.front().shares) {
    if (share.end > dataset_->size()) {
      return fail(Code::kData, "the epoch was begun with {} records, but there are only {}", share.end,
                  dataset_->size());
    }
  }
  ring_.pause();
  epoch_ = of.epoch;
  const std::vector<int64_t> left = records_left(of.rest, of.epoch, order_in_epoch(),
                                                 [this](int64_t record) { return dataset_->stored_bytes(record); });
  order_ = order_of_rest(of.rest, left, of.rank, of.workers, options_.batch_size);
  begin_at(of.first);
  return {};
}

void Loader::Impl::begin_at(int64_t first) {
  serial_++;  // gives the next batch another number than that of a batch that peek() has returned
  failed_ = false;
  for (int64_t batch = first; batch < first + static_cast<int64_t>(slots_.size()) - 1; batch++) announce(batch);
  ring_.resume(first);
}

EpochOrder Loader::Impl::order_in_epoch() const {
  return {
      .shuffle = is_training() && options_.shuffle, .seed = options_.seed, .chunk_bytes = options_.shuffle_chunk_bytes};
}

void Loader::Impl::make_order() {
  order_ = records_in_order(options_.share, epoch_, order_in_epoch(),
                            [this](int64_t record) { return dataset_->stored_bytes(record); });
}

// Announces the records of a batch to the data set, unless its places are past the end of the order: those repeat
// records that were announced earlier.
void Loader::Impl::announce(int64_t batch) const {
  const int64_t places = static_cast<int64_t>(order_.size());
  const int64_t begin = std::min(batch * options_.batch_size, places);
  const int64_t end = std::min(begin + options_.batch_size, places);
  if (batch >= options_.batches || begin == end) return;
  dataset_->will_load(std::span(order_).subspan(static_cast<size_t>(begin), static_cast<size_t>(end - begin)));
}

void Loader::Impl::serve(int decoder) {
  name_thread("decode");
  flush_denormals();
  bind_thread(options_.cpus);
  const Result<> served = catching([&]() -> Result<> {
    while (const std::optional<BatchRing::Run> run = ring_.take_run(decoder)) {
      ring_.finish_run(*run, catching([&] { return fill(*run); }));
    }
    return {};
  });
  if (!served) ring_.fail_next_batch(served.error());
}

Result<> Loader::Impl::fill(const BatchRing::Run& run) {
  telemetry::Span span(options_.timeline, "fill rows of a batch", "data");
  span.with("batch", run.batch).with("rows", run.end - run.begin);
  if (run.begin == 0) announce(run.batch + static_cast<int64_t>(slots_.size()) - 1);
  Slot& slot = slot_of(run.batch);
  for (int64_t row = run.begin; row < run.end; row++) {
    const int64_t place = run.batch * options_.batch_size + row;
    DT_TRY_VOID(is_training() ? fill_training_row(slot, row, place) : fill_validation_row(slot, row, place));
  }
  return {};
}

Result<> Loader::Impl::fill_training_row(Slot& slot, int64_t row, int64_t place) {
  for (size_t i = 0; i < order_.size(); i++) {
    DT_TRY(const bool filled, read(slot, row, order_[(static_cast<size_t>(place) + i) % order_.size()]));
    if (filled) return {};
  }
  return fail(Code::kData, "none of the records in this worker's share, {} to {}, can be read", options_.share.begin,
              options_.share.end - 1);
}

Result<> Loader::Impl::fill_validation_row(Slot& slot, int64_t row, int64_t place) {
  bool filled = false;
  if (place < static_cast<int64_t>(order_.size())) {
    DT_TRY(filled, read(slot, row, order_[static_cast<size_t>(place)]));
  }
  slot.broken[static_cast<size_t>(row)] = filled ? 0 : 1;
  if (!filled) slot.rows.clear(row);
  return {};
}

Result<bool> Loader::Impl::read(Slot& slot, int64_t row, int64_t record) {
  DT_TRY(const bool filled, reader_.read(slot.rows, row, epoch_, record));
  if (filled) slot.records[static_cast<size_t>(row)] = record;
  return filled;
}

Result<const LoadedBatch*> Loader::Impl::next() {
  DT_CHECK(epoch_ >= 0 && !failed_, "next() before start(), or after an error");
  const Result<std::optional<int64_t>> batch = ring_.take_batch();
  failed_ = !batch;
  if (!batch) return tl::unexpected(batch.error());
  if (!*batch) return nullptr;
  Slot& slot = slot_of(**batch);
  set_batch(slot);
  slot.batch.serial = ++serial_;
  return &slot.batch;
}

// The slot that is returned is not the slot of the batch that next() returned last, because there are at least two
// slots.
const LoadedBatch* Loader::Impl::peek() {
  DT_CHECK(is_training(), "peek() is for training batches only");
  const std::optional<int64_t> batch = ring_.complete_batch();
  if (!batch) return nullptr;
  Slot& slot = slot_of(*batch);
  set_batch(slot);
  slot.batch.serial = serial_ + 1;
  return &slot.batch;
}

// Sets slot.batch. In validation, first moves the rows that are not left out to the front.
void Loader::Impl::set_batch(Slot& slot) {
  int64_t count = options_.batch_size;
  if (!is_training()) {
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

void Loader::Impl::set_threads(int threads) {
  DT_CHECK(1 <= threads && threads <= options_.threads_max, "{} decoder threads of {}", threads, options_.threads_max);
  ring_.set_decoders(threads);
}

Loader::Loader(std::shared_ptr<const Dataset> dataset, LoaderOptions options, Log log)
    : impl_(std::make_unique<Impl>(std::move(dataset), std::move(options), std::move(log))) {}
Loader::~Loader() = default;
void Loader::set_share(const LoaderOptions& options) {
  impl_->set_share(options);
}
void Loader::start(int64_t epoch, int64_t first) {
  impl_->start(epoch, first);
}
Result<> Loader::start_rest(const RestOfEpoch& of) {
  return impl_->start_rest(of);
}
Result<const LoadedBatch*> Loader::next() {
  return impl_->next();
}
const LoadedBatch* Loader::peek() {
  return impl_->peek();
}
void Loader::set_threads(int threads) {
  impl_->set_threads(threads);
}
int64_t Loader::bad_records() const {
  return impl_->bad_records();
}
int64_t Loader::ready_batches() const {
  return impl_->ready_batches();
}
int64_t Loader::batches() const {
  return impl_->batches();
}

}  // namespace dtrain::data
