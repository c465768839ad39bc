// write_sheet and write_array of stat.h: the contact sheet and the array.
#include <algorithm>

#include "base/file.h"
#include "data/loading/batch_images.h"
#include "data/loading/loader.h"
#include "dataset/stat.h"
#include "images/contact_sheet.h"
#include "job/flags/flags.h"
#include "role/setup/data.h"
#include "role/setup/network.h"
#include "tensor/npy.h"

namespace dtrain::dataset {
namespace {

Result<data::DataSets> open_images(job::Flags& flags, const char* name, const Log& log) {
  if (flags.job.augment.benchmark) return fail(Code::kUsage, "{} shows images, but --benchmark 1 uses none", name);
  DT_TRY_VOID(role::complete_flags(flags));
  return role::open_data(flags, 0, log);
}

// Options for a loader that loads the first `count` images of an epoch, in batches.
data::LoaderOptions loader_options(const job::Flags& flags, const data::Dataset& images, int64_t count, int64_t batch) {
  return {.share = {0, images.size()},
          .batch_size = batch,
          .batches = (count + batch - 1) / batch,
          .labels = {{.name = "label", .classes = 0}},  // the labels are only shown, so any label is allowed
          .shuffle = flags.job.augment.shuffle,
          .shuffle_chunk_bytes = flags.job.augment.shuffle_chunk << 20,
          .seed = flags.job.seed.value_or(0),
          .threads = std::max(1, static_cast<int>(flags.data.data_threads)),
          .prefetch = 1,
          .max_bad_records = flags.data.max_bad_records};
}

// Returns the number of images to load: `count`, or the number of available images if it is smaller.
int64_t available(int64_t count, const data::Dataset& images, const Log& log) {
  if (count > images.size()) log.warn("there are only {} images, although {} were requested", images.size(), count);
  return std::min(count, images.size());
}

}  // namespace

Result<> write_sheet(job::Flags flags, int64_t count, const std::string& out, const Log& log) {
  DT_TRY(const data::DataSets sets, open_images(flags, "--sheet", log));
  const int64_t shown = available(count, *sets.train, log);
  data::LoaderOptions options = loader_options(flags, *sets.train, shown, shown);
  options.pixels = sets.train->normalisation() != nullptr;
  data::Loader loader(sets.train, options, log);
  loader.start(0);
  DT_TRY(const data::LoadedBatch* batch, loader.next());
  const std::vector<images::SheetImage> images = data::images_of(*batch, sets.train->image(), shown, sets.class_names);
  DT_TRY(const images::Image sheet, images::contact_sheet(images));
  constexpr int kCompression = 3;
  DT_TRY(const std::vector<uint8_t> png, images::encode_image(sheet, ".png", kCompression));
  return write_file_atomic(out, {reinterpret_cast<const char*>(png.data()), png.size()});
}

Result<> write_array(job::Flags flags, int64_t count, const std::string& out, const Log& log) {
  DT_TRY(const data::DataSets sets, open_images(flags, "--npy", log));
  constexpr int64_t kBatch = 64;
  int64_t missing = available(count, *sets.train, log);
  Shape shape = sets.train->image();
  shape.insert(shape.begin(), missing);
  DT_TRY(AtomicFile file, AtomicFile::create(out));
  DT_TRY_VOID(file.write(npy_header(shape)));
  data::Loader loader(sets.train, loader_options(flags, *sets.train, missing, std::min(missing, kBatch)), log);
  loader.start(0);
  while (missing > 0) {
    DT_TRY(const data::LoadedBatch* batch, loader.next());
    const int64_t rows = std::min(missing, batch->count);
    const auto each = static_cast<size_t>(element_count(sets.train->image()));
    DT_TRY_VOID(file.write(npy_values(batch->images().floats.first(static_cast<size_t>(rows) * each))));
    missing -= rows;
  }
  return file.commit();
}

}  // namespace dtrain::dataset
