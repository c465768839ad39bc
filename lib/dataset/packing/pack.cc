#include "dataset/packing/pack.h"

#include <algorithm>
#include <bit>
#include <filesystem>
#include <thread>

#include "base/printable.h"
#include "base/progress_bar.h"
#include "base/thread.h"
#include "dataset/packing/reorder_window.h"
#include "images/image.h"

namespace dtrain::dataset {
namespace {

// Warns if the records have different numbers of labels: training expects the same number in each record, and treats a
// record with a different number as broken.
void warn_of_different_numbers(const std::vector<data::ListEntry>& entries, const Log& log) {
  if (entries.empty()) return;
  const size_t usual = entries.front().labels.size();
  const auto other =
      std::ranges::find_if(entries, [&](const data::ListEntry& entry) { return entry.labels.size() != usual; });
  if (other == entries.end()) return;
  log.warn(
      "{} has {} label{}, but {} has {}: training with --label-width N skips records with a different number of labels",
      printable(entries.front().path), usual, usual == 1 ? "" : "s", printable(other->path), other->labels.size());
}

void warn_of_labels(const std::vector<data::ListEntry>& entries, const PackOptions& options, const Log& log) {
  if (options.pack_label) return warn_of_different_numbers(entries, log);
  const auto several =
      std::ranges::count_if(entries, [](const data::ListEntry& entry) { return entry.labels.size() > 1; });
  if (several == 0) return;
  log.warn(
      "{} of {} images have more than one label; only the first is packed (--pack-label or pack_label=1 packs all)",
      several, entries.size());
}

// FNV-1a hash of everything that the records depend on.
class ListHash {
 public:
  void add(std::string_view bytes) {
    for (const char c : bytes) add_byte(static_cast<uint8_t>(c));
    add_byte(0);
  }
  void add(uint64_t value) {
    for (int i = 0; i < 8; i++) add_byte(static_cast<uint8_t>(value >> (8 * i)));
  }
  [[nodiscard]] uint64_t value() const { return value_; }

 private:
  void add_byte(uint8_t byte) { value_ = (value_ ^ byte) * 0x100000001b3; }
  uint64_t value_ = 0xcbf29ce484222325;
};

// The settings in the journal. A run can continue an earlier one only if both have the same settings.
std::string run_settings(const std::vector<data::ListEntry>& entries, const std::string& root,
                         const PackOptions& options) {
  ListHash hash;
  for (const data::ListEntry& entry : entries) {
    hash.add(entry.id);
    for (const float label : entry.labels) hash.add(std::bit_cast<uint32_t>(label));
    hash.add(entry.path);
  }
  std::error_code error;
  const std::filesystem::path directory = std::filesystem::weakly_canonical(root.empty() ? "." : root, error);
  return fmt::format("{} images={} list={:016x} root={}", settings_text(options), entries.size(), hash.value(),
                     printable(directory.string(), directory.string().size()));
}

// The threads that create the payloads of the records. The destructor ends them.
class PackThreads {
 public:
  PackThreads(const std::vector<data::ListEntry>& entries, const ImageDirectory& directory, const PackOptions& options,
              ReorderWindow& window, const Log& log)
      : entries_(entries), directory_(directory), options_(options), window_(window), log_(log) {
    for (int i = 0; i < options.threads; i++) {
      threads_.emplace_back([this, i] {
        name_thread(fmt::format("im2rec-{}", i));
        work();
      });
    }
  }
  ~PackThreads() {
    window_.stop();
    for (std::thread& thread : threads_) thread.join();
  }
  PackThreads(const PackThreads&) = delete;
  PackThreads& operator=(const PackThreads&) = delete;

 private:
  void work() {
    ImagePacker packer(options_, directory_, log_);
    while (const std::optional<size_t> place = window_.take()) {
      std::vector<uint8_t> payload = window_.spare();
      const Result<> packed = catching([&] { return packer.pack(entries_[*place], *place, payload); },
                                       "an image, its pixels and its record");
      window_.put(*place, packed ? Result<std::vector<uint8_t>>(std::move(payload)) : tl::unexpected(packed.error()));
    }
  }

  const std::vector<data::ListEntry>& entries_;
  const ImageDirectory& directory_;
  const PackOptions& options_;
  ReorderWindow& window_;
  const Log& log_;
  std::vector<std::thread> threads_;
};

// A disk fault or a lack of memory ends the run. It does not mean that the image is broken; if the image were skipped,
// the files would differ from those of a run without the fault.
bool ends_run(const Error& error) {
  return error.code == Code::kDevice;
}

// Logs the skipped images, but only as many as a person would read.
class SkippedImages {
 public:
  void add(const Error& error, const Log& log) {
    if (++count_ > kShown) return;
    log.warn("skipped an image: {}{}", error.line(),
             count_ == kShown ? "; further skipped images are only counted" : "");
  }

 private:
  static constexpr int64_t kShown = 20;
  int64_t count_ = 0;
};

// Writes the records in order until all are written, until `stop` is true, or until an image has an error that ends the
// run.
Result<> write_in_order(const std::vector<data::ListEntry>& entries, ReorderWindow& window, PackedRecords& records,
                        ProgressBar& progress, const Log& log, const std::atomic<bool>* stop) {
  constexpr std::chrono::milliseconds kPatience{100};
  SkippedImages skipped;
  while (records.items() < static_cast<int64_t>(entries.size()) && (stop == nullptr || !*stop)) {
    progress.show(records.items(), records.left_out() > 0 ? fmt::format("{} skipped", records.left_out()) : "");
    auto payload = window.next(kPatience);
    if (!payload) continue;
    if (*payload) {
      DT_TRY_VOID(records.append(entries[static_cast<size_t>(records.items())].id, **payload));
      window.reuse(std::move(**payload));
    } else if (ends_run(payload->error())) {
      DT_TRY_VOID(records.sync());
      return tl::unexpected(std::move(payload->error())
                                .with(fmt::format("packing image {} of {} (the same command continues with this image)",
                                                  records.items() + 1, entries.size())));
    } else {
      DT_TRY_VOID(records.leave_out());
      skipped.add(payload->error(), log);
    }
  }
  return {};
}

// This window is large enough for one slow image among a hundred ordinary ones, even with many threads.
constexpr size_t kWindowItems = 4096;
constexpr size_t kWindowBytes = size_t{256} << 20;
// The window for files that are only copied, which all take about the same time per byte. With the larger window, the
// threads would only run ahead of the disk, and fill memory that the system has to clear and that is not in any cache:
// it took 1.2 times the CPU time. A window of 4 MiB instead of 8 MiB is 2 % faster, but would hold only a few large
// files.
constexpr size_t kCopyWindowBytes = size_t{8} << 20;

}  // namespace

Result<PackReport> pack_images(const std::vector<data::ListEntry>& entries, const std::string& root,
                               const std::string& out, const PackOptions& options, const Log& log, const PackRun& run) {
  DT_TRY_VOID(check(options));
  images::use_own_threads_only();
  warn_of_labels(entries, options, log);
  DT_TRY(PackedRecords records, PackedRecords::open(out, run_settings(entries, root, options), log));
  const int64_t total = static_cast<int64_t>(entries.size()), before = records.items();
  if (before > 0) {
    log.info("'{}': an earlier run packed {} of {} images and skipped {}; this run continues after them", out,
             records.records(), total, records.left_out());
  }
  {
    ReorderWindow window(static_cast<size_t>(before), entries.size(), kWindowItems,
                         options.copies_files() ? kCopyWindowBytes : kWindowBytes);
    const ImageDirectory directory{.root = root, .read = run.read, .calls = run.calls};
    const PackThreads threads(entries, directory, options, window, log);
    ProgressBar progress({std::filesystem::path(out).filename().string(), "images", total}, log);
    progress.show(before);
    DT_TRY_VOID(write_in_order(entries, window, records, progress, log, run.stop));
  }
  if (records.items() < total) {
    DT_TRY_VOID(records.sync());
    return fail(Code::kPreempted,
                "'{}' is not complete: stopped by a signal after {} of {} images. The same command continues with the "
                "next image",
                out, records.items(), total);
  }
  if (records.records() == 0) {
    records.discard();
    return fail(Code::kData, "'{}' was not written: none of {} images can be packed", out, total);
  }
  DT_TRY_VOID(records.commit());
  if (!run.keeps_journal) PackedRecords::forget(out);
  return PackReport{.packed = records.records(), .skipped = records.left_out()};
}

}  // namespace dtrain::dataset
