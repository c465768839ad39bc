// `dtrain bench input`: measures how many images per second the decoder threads can read, decode and augment for
// training, and how long each stage takes.
#pragma once

#include <cstdint>
#include <string>

#include "base/error.h"
#include "base/log.h"
#include "data/loading/loader.h"
#include "images/augmentation/stages.h"

namespace dtrain::job {
struct Flags;
}

namespace dtrain::bench {

struct BenchInputOptions {
  // What the batches contain: pixels (bytes, which the device normalizes) or floats (float32, normalized by the
  // decoders). kAuto: the form that training uses, which is pixels whenever the augmentation allows it.
  enum class Form { kAuto, kPixels, kFloats };
  int64_t num_batches = 100, num_warmup_batches = 10;
  Form form = Form::kAuto;
};

struct BenchInputResult {
  std::string source;   // where the images come from, as text
  bool pixels = false;  // whether the batches contained pixels; otherwise they contained floats
  int64_t images = 0;   // number of images in the measured batches
  int threads = 0;      // number of decoder threads
  double seconds = 0;
  double cpu_seconds = 0;  // CPU time of all threads of the process
  int64_t bad_records = 0;
  images::Stages stages;

  [[nodiscard]] const char* form() const;  // the form of the images in batches: "pixels" or "floats"
  [[nodiscard]] std::string json() const;  // the result as JSON, on one line
  [[nodiscard]] std::string text() const;  // the result as text for people
};

// Takes batches from a loader, one epoch after another. The loader must outlive this object.
class BatchConsumer {
 public:
  explicit BatchConsumer(data::Loader& loader) : loader_(loader) { loader_.start(epoch_); }

  // Fails for the same reasons as Loader::next.
  Result<> take(int64_t batches);
  // Discards the batches that the loader has already read, so that take() returns only batches that are read after this
  // call.
  void drop_prefetched();

 private:
  data::Loader& loader_;
  int64_t epoch_ = 0, taken_ = 0;  // `taken_`: number of batches taken in the epoch `epoch_`
};

// `flags`: the flags of a training job. --data-nthreads is the number of decoder threads; its default is --threads, or
// the number of cores. The training data are repeated as often as needed. Code::kUsage for synthetic data, or for
// pixels if the augmentation changes normalized floats; otherwise fails like open_data.
Result<BenchInputResult> bench_input(job::Flags flags, const BenchInputOptions& options, const Log& log);

}  // namespace dtrain::bench
