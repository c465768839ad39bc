// Batches for training and validation: shares, order, decoding on threads, prefetch.
#pragma once

#include <fmt/format.h>

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
#include "data/share.h"
#include "tensor/batch.h"
#include "tensor/parameter_memory.h"
#include "tensor/pixels.h"
#include "tensor/shape.h"

namespace dtrain::data {

// Labelled images in a fixed order, read at random. Threads may share it.
class Dataset {
 public:
  virtual ~Dataset() = default;
  [[nodiscard]] virtual int64_t size() const = 0;        // records
  [[nodiscard]] virtual const Shape& image() const = 0;  // [c, h, w] of what load writes
  // Decodes, augments and normalises record `index` into `out` (image() elements, channels first) and returns its
  // label. The draws come from `random` alone. Code::kData: a broken record, with file, offset and reason.
  virtual Result<float> load(int64_t index, RandomStream& random, std::span<float> out) const = 0;
  // What load does with the pixels of its images; nullptr: they never were pixels.
  [[nodiscard]] virtual std::shared_ptr<const Normalisation> normalisation() const { return nullptr; }
  // As load, with the same draws, but the images as pixels, which normalisation() makes load's numbers of. Only where
  // there is one.
  struct PixelLabel {
    float label = 0;
    bool mirrored = false;
  };
  virtual Result<PixelLabel> load_pixels(int64_t index, RandomStream& random, std::span<uint8_t> out) const;
  // "data/train.rec: record 12 at offset 3456", for messages.
  [[nodiscard]] virtual std::string describe(int64_t index) const { return fmt::format("record {}", index); }
};

struct LoaderOptions {
  enum class Mode { kTraining, kValidation };
  Mode mode = Mode::kTraining;
  Share share;
  // The share in a given epoch, if shares rotate. Its size is that of `share`, which is the first epoch's.
  std::function<Share(int64_t epoch)> share_in = nullptr;
  int64_t batch_size = 1;
  int64_t batches = 0;  // per epoch; 0: what the share fills. Training: the last ones are filled from the start of the
                        // same epoch's order. Validation: beyond the share there is only padding
  int64_t classes = 0;  // labels must lie in [0, classes): else Code::kData at once, naming the record
  bool pixels = false;  // batches of pixels, of a data set that has a normalisation(); else of numbers
  FloatAllocator allocate = allocate_floats;  // of the memory in which batches lie
  bool shuffle = true;  // training: a new permutation of the share in every epoch, from (seed, epoch)
  uint64_t seed = 0;
  int threads = 1;                     // that decode
  int64_t prefetch = 4;                // batches kept ahead
  int64_t max_bad_records = 100;       // skipped, counted once each however often they come; one more is an error
  std::chrono::seconds wait_max{600};  // next() gives up when no decoder has got anywhere for that long
};

// batch_size images.
struct LoadedBatch : Batch {
  int64_t count = 0;    // training: batch_size. Validation: the records that count, the rest is padding
  uint64_t serial = 0;  // counts the batches that the loader has given out: no two have the same
};

// One thread calls it; its own threads decode. Equal options give equal batches whatever `threads` is.
//
// Training: a broken record's place is taken by the next record of the order, which keeps its own place too, so that
// what a place holds depends on nothing else. Validation: it is left out, and `count` is less.
class Loader {
 public:
  Loader(std::shared_ptr<const Dataset> dataset, LoaderOptions options, Log log);
  ~Loader();

  // Begins `epoch` at batch `first` (resume). Whatever was prefetched of another epoch is dropped.
  void start(int64_t epoch, int64_t first = 0);
  // The next batch, valid until the next call; nullptr at the end of the epoch. Waits for the decoders. Code::kData:
  // too many broken records, a label out of range, a share without a record; the epoch is over then.
  Result<const LoadedBatch*> next();
  // In training: the batch that the next call of next() will return, if it is there already and start() is not called
  // before; else nullptr. It stays as it is until that call, and what next() returned last stays valid.
  const LoadedBatch* peek();
  [[nodiscard]] int64_t bad_records() const;  // skipped so far
  [[nodiscard]] int64_t batches() const;      // per epoch

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace dtrain::data
