// Batches for training and validation: shares, order, decoding on threads, prefetch.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/log.h"
#include "base/random.h"
#include "data/loading/epoch_rest.h"
#include "data/records/share.h"
#include "images/augmentation/stages.h"
#include "tensor/batch.h"
#include "tensor/parameter_memory.h"
#include "tensor/pixels.h"
#include "tensor/shape.h"

namespace dtrain::telemetry {
class Timeline;
}  // namespace dtrain::telemetry

namespace dtrain::data {

// Labeled images in a fixed order, with random access. Threads may share a data set.
class Dataset {
 public:
  virtual ~Dataset() = default;
  [[nodiscard]] virtual int64_t size() const = 0;                 // number of records
  [[nodiscard]] virtual const Shape& image() const = 0;           // [c, h, w] of the images that load() writes
  [[nodiscard]] virtual size_t label_width() const { return 1; }  // number of labels of every record
  // Decodes, augments and normalizes record `index` into `out` (image() elements, channels first), and reads its
  // labels, label_width() of them. All randomness comes from `random`. Code::kData: a broken record, with file, offset
  // and reason.
  virtual Result<> load(int64_t index, RandomStream& random, std::span<float> out, std::span<float> labels) const = 0;
  // The normalization that load() applies to the pixels of its images; nullptr if the images do not come from pixels.
  [[nodiscard]] virtual std::shared_ptr<const Normalisation> normalisation() const { return nullptr; }
  // Like load(), with the same random numbers, but writes pixels, which normalisation() turns into the floats that
  // load() would write. Returns true if the image is to be mirrored. Requires that normalisation() is not null.
  virtual Result<bool> load_pixels(int64_t index, RandomStream& random, std::span<uint8_t> out,
                                   std::span<float> labels) const;
  // Describes a record for messages: "data/train.rec: record 12 at offset 3456".
  [[nodiscard]] virtual std::string describe(int64_t index) const;
  // The size of a record where it is stored; the size of the image's pixels if it is not known.
  [[nodiscard]] virtual int64_t stored_bytes(int64_t index) const;
  // Announces that these records will be loaded soon, in this order: the data set may have the system read them ahead.
  virtual void will_load(std::span<const int64_t> /*records*/) const {}
  // The times of some of the records loaded so far; all zero if there are no images to read.
  [[nodiscard]] virtual images::Stages stages() const { return {}; }
  // From now on records the times of reading and decoding in this timeline; null: stops recording.
  virtual void record_on(telemetry::Timeline* /*timeline*/) const {}
};

// One label of a batch and of a record. Its values are integers in [0, classes).
struct BatchLabel {
  std::string name;     // name of the network's variable, for messages; may be empty if there is only one label
  int64_t classes = 0;  // number of classes of the label; 0: the label may have any value
};

struct LoaderOptions {
  enum class Mode { kTraining, kValidation };
  Mode mode = Mode::kTraining;
  Share share;
  // Returns the share of a given epoch, if shares rotate. It must have the size of `share`, which is the first epoch's.
  std::function<Share(int64_t epoch)> share_in = nullptr;
  int64_t batch_size = 1;
  // Batches per epoch; 0: as many as the share fills. In training, missing records at the end are taken from the start
  // of the same epoch's order; in validation, rows past the end of the share are padding.
  int64_t batches = 0;
  std::vector<BatchLabel> labels = {};  // a label out of range fails with Code::kData, naming the record
  // Whether batches hold pixels, which requires a data set with a normalisation(); otherwise floats.
  bool pixels = false;
  FloatAllocator allocate = allocate_floats;  // allocates the memory of the batches
  bool shuffle = true;                        // training: a new order of the share in every epoch, from (seed, epoch)
  // size of the chunks in which records are shuffled (epoch_order.h); 0: the whole share is one chunk
  int64_t shuffle_chunk_bytes = 0;
  uint64_t seed = 0;
  int threads = 1;             // number of decoder threads
  int threads_max = 0;         // the largest number that set_threads() accepts; 0: `threads`
  std::vector<int> cpus = {};  // the CPUs on which the decoder threads run; empty: all
  int64_t prefetch = 4;        // number of batches that are prepared ahead
  // Limit on skipped records, each counted once even if it is read again; one more record is an error.
  int64_t max_bad_records = 100;
  std::chrono::seconds wait_max{600};       // next() fails if no decoder makes progress for this long
  telemetry::Timeline* timeline = nullptr;  // where the decoders' times are recorded; null: nowhere
};

// What one of `workers` reads of an epoch that others have begun, from batch `first` on.
struct RestOfEpoch {
  int64_t epoch = 0, first = 0;
  const EpochRest& rest;  // of at least one part
  int64_t rank = 0, workers = 1;
};

// A batch of batch_size images.
struct LoadedBatch : Batch {
  [[nodiscard]] const Input& images() const { return inputs[0]; }  // the batch's only input

  int64_t count = 0;  // training: batch_size. Validation: the number of records; the other rows are padding
  // For each row of the batch, the number of its record; undefined beyond `count`.
  std::span<const int64_t> records = {};
  uint64_t serial = 0;  // different for every batch that the loader returns
};

// One thread calls the loader, and the loader's own threads decode. Equal options give equal batches, regardless of
// `threads`.
//
// Training: a broken record is replaced by the next record in the order, which is read again at its own position. The
// contents of a position therefore do not depend on other broken records. Validation: a broken record is left out, and
// `count` is smaller.
class Loader {
 public:
  Loader(std::shared_ptr<const Dataset> dataset, LoaderOptions options, Log log);
  ~Loader();

  // Begins `epoch` at batch `first` (not 0 when training resumes). Drops batches that were prefetched earlier.
  void start(int64_t epoch, int64_t first = 0);
  // Replaces share, share_in and batches by those of `options`, from the next start() on. Drops batches that were
  // prefetched; one that next() has returned is no longer valid.
  void set_share(const LoaderOptions& options);
  // Training only: like start(), for an epoch that other workers have begun. Reads this worker's part of the rest, in
  // place of the share. Code::kData if the rest names records that do not exist.
  Result<> start_rest(const RestOfEpoch& of);
  // The next batch, valid until the next call; nullptr at the end of the epoch. Waits for the decoders. After
  // Code::kData (too many broken records, a label out of range, no readable record in the share) the epoch is over.
  Result<const LoadedBatch*> next();
  // Training only: the batch that the next call of next() will return, provided that start() is not called before;
  // nullptr if it is not complete yet. It stays unchanged until that call, and the batch that next() returned last
  // stays valid.
  const LoadedBatch* peek();
  // Changes the number of decoder threads, from 1 to threads_max, at any time between the other calls. Does not change
  // the batches.
  void set_threads(int threads);
  [[nodiscard]] int64_t bad_records() const;  // number of records skipped so far
  [[nodiscard]] int64_t batches() const;      // number of batches per epoch
  // The number of complete batches that next() has not returned yet. Any thread may call it.
  [[nodiscard]] int64_t ready_batches() const;

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace dtrain::data
