#include "data/pack.h"

#include <algorithm>
#include <chrono>

#include "base/file.h"
#include "base/thread.h"
#include "data/image.h"
#include "data/image_record.h"
#include "data/record_writer.h"

namespace dtrain::data {

Result<> check(const PackOptions& options) {
  if (options.color < -1 || options.color > 1) return fail(Code::kUsage, "color {}: must be 1, 0 or -1", options.color);
  if (options.encoding != ".jpg" && options.encoding != ".png") {
    return fail(Code::kUsage, "encoding '{}': must be .jpg or .png", options.encoding);
  }
  if (options.quality < 0 || options.quality > 100) {
    return fail(Code::kUsage, "quality {}: must be from 0 to 100", options.quality);
  }
  constexpr int kEdgeMax = 16384;
  if (options.resize < 0 || options.resize > kEdgeMax) {
    return fail(Code::kUsage, "resize {}: must be from 0 (off) to {}", options.resize, kEdgeMax);
  }
  const PackOptions usual;
  const bool changes_pictures = options.resize > 0 || options.center_crop || options.color != usual.color ||
                                options.quality != usual.quality || options.encoding != usual.encoding;
  if (options.pass_through && changes_pictures) {
    return fail(
        Code::kUsage,
        "--pass-through (unchanged=1) packs the files unchanged: it cannot be combined with resize, center-crop, "
        "color, quality or encoding");
  }
  if (options.threads < 1) return fail(Code::kUsage, "{} threads: must be at least 1", options.threads);
  return {};
}

namespace {

Result<Image> decode(Bytes file, int color) {
  Image image;
  ImageDecoder decoder;
  if (color < 0) {
    DT_TRY_VOID(decoder.decode_as_stored(file, image), "keeping the stored colors (color -1; 1 and 0 convert them)");
  } else {
    DT_TRY_VOID(decoder.decode(file, color == 0 ? 1 : 3, image));
  }
  return image;
}

Result<std::vector<uint8_t>> encode_again(Bytes file, const PackOptions& options) {
  DT_TRY(Image image, decode(file, options.color));
  if (options.center_crop) image = central_square(image);
  if (options.resize > 0) {
    DT_TRY(image, resize_shorter_edge(std::move(image), options.resize));
  }
  return encode_image(image, options.encoding, options.quality);
}

// Makes the payload of a record.
Result<std::vector<uint8_t>> make_payload(const ListEntry& entry, const std::string& root, const PackOptions& options) {
  const std::string path = root.empty() || root.ends_with('/') ? root + entry.path : root + '/' + entry.path;
  DT_TRY(const std::string file, read_file(path, kDataBytesMax));
  if (file.empty()) return fail(Code::kData, "{}: the file is empty", path);
  std::vector<uint8_t> payload;
  const std::span<const float> labels(entry.labels.data(), options.pack_label ? entry.labels.size() : 1);
  if (options.pass_through) {
    append_image_record(payload, entry.id, labels, as_bytes(file));
  } else {
    DT_TRY(const std::vector<uint8_t> encoded, encode_again(as_bytes(file), options), "packing '{}'", path);
    append_image_record(payload, entry.id, labels, encoded);
  }
  return payload;
}

void warn_of_labels(const std::vector<ListEntry>& entries, const PackOptions& options, const Log& log) {
  if (options.pack_label) return;
  const auto several = std::ranges::count_if(entries, [](const ListEntry& entry) { return entry.labels.size() > 1; });
  if (several == 0) return;
  log.warn(
      "{} of {} images have more than one label; only the first is packed (--pack-label or pack_label=1 packs all)",
      several, entries.size());
}

class Progress {
 public:
  Progress(int64_t total, const Log& log) : total_(total), log_(log) {}
  void report(int64_t done) {
    constexpr double kEverySeconds = 5.0;
    const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin_).count();
    if (seconds < last_ + kEverySeconds) return;
    last_ = seconds;
    log_.info("packed {} of {} images, {:.0f} per second", done, total_, static_cast<double>(done) / seconds);
  }

 private:
  int64_t total_;
  const Log& log_;
  double last_ = 0;
  std::chrono::steady_clock::time_point begin_ = std::chrono::steady_clock::now();
};

}  // namespace

Result<PackReport> pack_images(const std::vector<ListEntry>& entries, const std::string& root, const std::string& out,
                               const PackOptions& options, const Log& log) {
  DT_TRY_VOID(check(options));
  use_own_threads_only();
  warn_of_labels(entries, options, log);
  DT_TRY(RecordWriter writer, RecordWriter::create(out));
  ThreadPool pool(options.threads, "im2rec");
  Progress progress(static_cast<int64_t>(entries.size()), log);
  PackReport report;
  // One block of images after another: encoded in parallel, written in order.
  constexpr size_t kBlock = 256;
  std::vector<Result<std::vector<uint8_t>>> payloads;
  for (size_t first = 0; first < entries.size(); first += kBlock) {
    payloads.assign(std::min(kBlock, entries.size() - first), {});
    pool.parallel_for(static_cast<int64_t>(payloads.size()), [&](int64_t i) {
      auto& payload = payloads[static_cast<size_t>(i)];
      const Result<> caught = catching([&]() -> Result<> {
        payload = make_payload(entries[first + static_cast<size_t>(i)], root, options);
        return {};
      });
      if (!caught) payload = tl::unexpected(caught.error());
    });
    for (size_t i = 0; i < payloads.size(); i++) {
      if (payloads[i]) {
        DT_TRY_VOID(writer.append(entries[first + i].id, *payloads[i]));
      } else {
        log.warn("skipped an image: {}", payloads[i].error().line());
        report.skipped++;
      }
    }
    progress.report(static_cast<int64_t>(first + payloads.size()));
  }
  report.packed = writer.records();
  if (report.packed == 0)
    return fail(Code::kData, "'{}' was not written: none of {} images can be packed", out, entries.size());
  DT_TRY_VOID(writer.commit());
  return report;
}

}  // namespace dtrain::data
