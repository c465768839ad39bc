// The contact sheet of data_stat.h.
#include <algorithm>

#include "base/file.h"
#include "data/loading/batch_pictures.h"
#include "data/loading/loader.h"
#include "data/pictures/contact_sheet.h"
#include "role/setup/data.h"
#include "role/setup/network.h"
#include "tools/data_stat.h"

namespace dtrain::tools {
namespace {

constexpr int64_t kLabelsMax = int64_t{1} << 40;  // labels are only shown, so any is allowed

}  // namespace

Result<> write_sheet(job::Flags flags, int64_t count, const std::string& out, const Log& log) {
  if (flags.job.augment.benchmark) return fail(Code::kUsage, "--sheet shows pictures; --benchmark 1 has none");
  DT_TRY_VOID(role::complete_flags(flags));
  DT_TRY(const data::DataSets sets, role::open_data(flags, 0, log));
  const bool pixels = sets.train->normalisation() != nullptr;
  const int64_t shown = std::min(count, sets.train->size());
  data::Loader loader(sets.train,
                      {.share = {0, sets.train->size()},
                       .batch_size = shown,
                       .batches = 1,
                       .labels = {{.name = "label", .position = 0, .classes = kLabelsMax}},
                       .pixels = pixels,
                       .shuffle = flags.job.augment.shuffle,
                       .seed = flags.job.seed.value_or(0),
                       .threads = std::max(1, static_cast<int>(flags.data.data_threads)),
                       .prefetch = 1,
                       .max_bad_records = flags.data.max_bad_records},
                      log);
  loader.start(0);
  DT_TRY(const data::LoadedBatch* batch, loader.next());
  const std::vector<data::SheetPicture> pictures =
      data::pictures_of(*batch, sets.train->image(), shown, sets.class_names);
  DT_TRY(const data::Image sheet, data::contact_sheet(pictures));
  constexpr int kCompression = 3;
  DT_TRY(const std::vector<uint8_t> png, data::encode_image(sheet, ".png", kCompression));
  return write_file_atomic(out, {reinterpret_cast<const char*>(png.data()), png.size()});
}

}  // namespace dtrain::tools
