#include "dataset/stat.h"

#include <algorithm>

#include "base/mutex.h"
#include "base/progress_bar.h"
#include "base/thread.h"
#include "data/records/image_record.h"
#include "data/records/record_file.h"
#include "images/image.h"
#include "images/image_facts.h"

namespace dtrain::dataset {
namespace {

// The headers of most images fit into this number of bytes; an EXIF thumbnail may make them longer.
constexpr int64_t kHeadBytes = 8 << 10;
constexpr int64_t kRecordsPerBlock = 256;

void add_broken(DataStat& stat, DataStat::Broken broken) {
  stat.broken_count++;
  if (stat.broken.size() < DataStat::kBrokenShown) stat.broken.push_back(std::move(broken));
}

void note(DataStat& stat, const data::ImageRecord& record, const images::ImageFacts& facts) {
  stat.images++;
  stat.labels[record.label_at(0)]++;
  stat.label_counts[std::max<uint32_t>(record.flag, 1)]++;
  stat.formats[facts.format + (facts.colors.empty() ? "" : ", " + facts.colors)]++;
  stat.sizes[{facts.height, facts.width}]++;
  if (facts.orientation != 1) stat.orientations[facts.orientation]++;
}

template <class Key>
void add_counts(std::map<Key, int64_t>& all, const std::map<Key, int64_t>& some) {
  for (const auto& [key, count] : some) all[key] += count;
}

void merge(DataStat& all, const DataStat& some) {
  all.images += some.images;
  all.image_bytes += some.image_bytes;
  all.broken_count += some.broken_count;
  all.broken.insert(all.broken.end(), some.broken.begin(), some.broken.end());
  add_counts(all.labels, some.labels);
  add_counts(all.label_counts, some.label_counts);
  add_counts(all.formats, some.formats);
  add_counts(all.sizes, some.sizes);
  add_counts(all.orientations, some.orientations);
}

// Examines records of one file.
class RecordReader {
 public:
  RecordReader(const data::RecordFile& file, bool decodes) : file_(file), decodes_(decodes) {}

  // Examines the record at [offset, end); the range includes the padding.
  Result<> look_at(int64_t offset, int64_t end, DataStat& stat) {
    if (!decodes_ && end - offset > 2 * kHeadBytes) {
      DT_TRY(const bool is_enough, look_at_head(offset, end, stat));
      if (is_enough) return {};
    }
    DT_TRY(const Bytes payload, file_.read(offset, end, buffer_));
    DT_TRY(const data::ImageRecord record, data::parse_image_record(payload));
    DT_TRY(const images::ImageFacts facts, images::image_facts(record.image));
    if (decodes_) DT_TRY_VOID(decoder_.decode(record.image, 3, image_));
    stat.image_bytes += static_cast<int64_t>(record.image.size());
    note(stat, record, facts);
    return {};
  }

 private:
  // Examines only the beginning of the record. Returns false if that is not enough to find the image's header.
  Result<bool> look_at_head(int64_t offset, int64_t end, DataStat& stat) {
    buffer_.resize(static_cast<size_t>(kHeadBytes));
    DT_TRY_VOID(file_.read_at(offset, buffer_));
    const data::PartHeader part = data::parse_part_header(buffer_);
    if (!part.begins_record() || part.flag != 0 || part.padded_bytes() != end - offset) return false;
    const Result<data::ImageRecord> record = data::parse_image_record(Bytes(buffer_).subspan(data::PartHeader::kBytes));
    if (!record) return false;
    const Result<images::ImageFacts> facts = images::image_facts(record->image);
    if (!facts) return false;
    stat.image_bytes += part.length - data::ImageRecord::kHeaderBytes - 4 * int64_t{record->flag};
    note(stat, *record, *facts);
    return true;
  }

  const data::RecordFile& file_;
  bool decodes_;
  std::vector<uint8_t> buffer_;
  images::ImageDecoder decoder_;
  images::Image image_;
};

// Sums the results of several threads for one file.
class FileSum {
 public:
  FileSum(const data::RecordFile& file, const Log& log) : bar_({"reading " + file.path(), "", file.size()}, log) {}

  // Adds the results for some records, the last of which begins at `offset`.
  void add(const DataStat& some, int64_t offset) DT_EXCLUDES(mutex_) {
    const MutexLock lock(mutex_);
    merge(sum_, some);
    bar_.show(offset);
  }
  DataStat take() DT_EXCLUDES(mutex_) {
    const MutexLock lock(mutex_);
    return std::move(sum_);
  }

 private:
  Mutex mutex_;
  ProgressBar bar_ DT_GUARDED_BY(mutex_);
  DataStat sum_ DT_GUARDED_BY(mutex_);
};

// Adds the records of a file to `all`.
Result<> add_file(const std::string& path, const DataStatOptions& options, DataStat& all, const Log& log) {
  DT_TRY(const data::RecordFile file, data::RecordFile::open(path));
  DT_TRY_VOID(data::check_is_record_file(file));
  ProgressBar scanning({"finding the records of " + path, "", file.size()}, log);
  DT_TRY(const data::RecordScan scan, data::scan_records(file, [&](int64_t offset) -> Result<> {
           scanning.show(offset);
           return {};
         }));
  const auto count = static_cast<int64_t>(scan.offsets.size());
  ThreadPool pool(options.threads, "stat");
  FileSum sum(file, log);
  pool.parallel_for((count + kRecordsPerBlock - 1) / kRecordsPerBlock, [&](int64_t block) {
    RecordReader reader(file, options.decodes);
    DataStat some;
    const int64_t last = std::min(count, (block + 1) * kRecordsPerBlock);
    for (int64_t i = block * kRecordsPerBlock; i < last; i++) {
      const int64_t offset = scan.offsets[static_cast<size_t>(i)];
      const int64_t end = i + 1 < count ? scan.offsets[static_cast<size_t>(i) + 1] : file.size();
      const Result<> looked = reader.look_at(offset, end, some);
      if (!looked) add_broken(some, {path, offset, looked.error().message});
    }
    sum.add(some, scan.offsets[static_cast<size_t>(last) - 1]);
  });
  DataStat of_file = sum.take();
  for (const data::RecordScan::Broken& broken : scan.broken) {
    add_broken(of_file, {path, broken.offset, broken.reason});
  }
  std::ranges::sort(of_file.broken, {}, &DataStat::Broken::offset);
  all.files.push_back({path, file.size(), count});
  merge(all, of_file);
  if (all.broken.size() > DataStat::kBrokenShown) all.broken.resize(DataStat::kBrokenShown);
  return {};
}

}  // namespace

Result<DataStat> data_stat(const std::vector<std::string>& files, const DataStatOptions& options, const Log& log) {
  images::use_own_threads_only();
  DataStat stat;
  for (const std::string& path : files) DT_TRY_VOID(add_file(path, options, stat, log));
  return stat;
}

}  // namespace dtrain::dataset
