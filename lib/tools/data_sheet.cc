// The contact sheet of data_stat.h.
#include <algorithm>

#include "base/file.h"
#include "data/loading/loader.h"
#include "data/pictures/contact_sheet.h"
#include "role/setup/data.h"
#include "role/setup/network.h"
#include "tools/data_stat.h"

namespace dtrain::tools {
namespace {

constexpr int64_t kLabelsMax = int64_t{1} << 40;  // labels are only shown, so any is allowed

std::string caption(const data::DataSets& sets, float label, int64_t record) {
  const auto number = static_cast<size_t>(label);
  const bool is_named = number < sets.class_names.size();
  return fmt::format("{}{} #{}", label, is_named ? " " + sets.class_names[number] : "", record);
}

// Picture `row` of a batch of pixels, mirrored if it is to be.
data::Image picture_of(const Batch::Input& images, const Shape& shape, int64_t row) {
  const auto width = static_cast<int>(shape[2]), height = static_cast<int>(shape[1]);
  const auto channels = static_cast<int>(shape[0]);
  data::Image image;
  image.resize(height, width, channels);
  const size_t each = image.pixels.size();
  std::ranges::copy(images.pixels.subspan(static_cast<size_t>(row) * each, each), image.pixels.begin());
  if (images.mirrored[static_cast<size_t>(row)] == 0) return image;
  for (int y = 0; y < height; y++) {
    for (int x = 0; x < width / 2; x++) {
      std::swap_ranges(image.at(y, x), image.at(y, x) + channels, image.at(y, width - 1 - x));
    }
  }
  return image;
}

// Numbers of a batch as pixels again: the least of the picture becomes black and the largest white.
data::Image picture_of_numbers(const Batch::Input& images, const Shape& shape, int64_t row) {
  const auto each = static_cast<size_t>(element_count(shape));
  const std::span<const float> numbers = images.numbers.subspan(static_cast<size_t>(row) * each, each);
  const auto [least, most] = std::ranges::minmax(numbers);
  const float factor = most > least ? 255.0f / (most - least) : 0.0f;
  const auto channels = static_cast<int>(shape[0]);
  data::Image image;
  image.resize(static_cast<int>(shape[1]), static_cast<int>(shape[2]), channels);
  const size_t plane = each / static_cast<size_t>(channels);
  for (size_t i = 0; i < plane; i++) {
    for (int k = 0; k < channels; k++) {
      const int source = k < 3 && channels >= 3 ? 2 - k : k;  // red, green, blue to blue, green, red
      const float number = numbers[static_cast<size_t>(source) * plane + i];
      image.pixels[i * static_cast<size_t>(channels) + static_cast<size_t>(k)] =
          static_cast<uint8_t>((number - least) * factor);
    }
  }
  return image;
}

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
  std::vector<data::SheetPicture> pictures;
  for (int64_t row = 0; row < shown; row++) {
    const auto i = static_cast<size_t>(row);
    pictures.push_back({pixels ? picture_of(batch->images(), sets.train->image(), row)
                               : picture_of_numbers(batch->images(), sets.train->image(), row),
                        caption(sets, batch->labels[i], batch->records[i])});
  }
  DT_TRY(const data::Image sheet, data::contact_sheet(pictures));
  constexpr int kCompression = 3;
  DT_TRY(const std::vector<uint8_t> png, data::encode_image(sheet, ".png", kCompression));
  return write_file_atomic(out, {reinterpret_cast<const char*>(png.data()), png.size()});
}

}  // namespace dtrain::tools
