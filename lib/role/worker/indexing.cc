#include "role/worker/indexing.h"

#include <algorithm>
#include <atomic>
#include <utility>

#include "role/worker/meeting.h"

namespace dtrain::role {
namespace {

using Clock = std::chrono::steady_clock;
// Largest number of files: a sum over the workers has one number for each file.
constexpr size_t kFilesMax = job::kSumNumbersMax;

double percent(double done, int64_t all) {
  return all <= 0 ? 0 : 100 * done / static_cast<double>(all);
}

// A file whose index is missing on some worker. All workers call the same methods in the same order.
class SharedIndex {
 public:
  SharedIndex(const data::RecordFile& file, const data::IndexedFile& named, size_t number, const Indexing& indexing)
      : file_(file), named_(named), number_(number), indexing_(indexing) {}

  // On worker 0: reads or makes the offsets and returns them. Meanwhile reports the progress to the other workers.
  Result<std::vector<int64_t>> make() {
    const Clock::time_point begin = Clock::now();
    std::vector<int64_t> offsets;
    if (data::lacks_index(named_)) {
      DT_TRY(offsets,
             data::make_index(
                 file_, indexing_.log, [this](int64_t offset) { return report(offset); }, indexing_.directory));
      DT_TRY_VOID(indexing_.pacer.wait(begin));
    } else {
      DT_TRY(offsets, data::record_offsets(file_, named_.index, indexing_.log));
    }
    DT_TRY_VOID(share_progress({.is_done = true, .offset = static_cast<uint64_t>(file_.size())}));
    return offsets;
  }

  // On the other workers: waits until worker 0 has the offsets.
  Result<> wait() {
    std::atomic<double> done = 0;
    indexing_.log.info("{}: a worker has no '{}'; waiting until worker 0 has indexed the file", file_.path(),
                       data::index_path(file_.path()));
    const Waits::Wait wait(indexing_.waits, [this, &done] { return name_of_wait(done); });
    while (true) {
      auto progress = share_progress({});
      if (!progress) return tl::unexpected(std::move(progress).error().with("waiting for " + name_of_wait(done)));
      if (progress->is_done) return {};
      done = static_cast<double>(progress->offset);
    }
  }

 private:
  [[nodiscard]] std::string name_of_wait(double done) const {
    return fmt::format("worker 0 to index '{}' ({:.0f}% done)", file_.path(), percent(done, file_.size()));
  }

  Result<> report(int64_t offset) {
    if (Clock::now() - reported_ < indexing_.report_interval) return {};
    DT_TRY_VOID(share_progress({.is_done = false, .offset = static_cast<uint64_t>(offset)}));
    reported_ = Clock::now();
    return {};
  }

  // Shares `mine`, and returns the progress of worker 0.
  Result<job::IndexProgress> share_progress(job::IndexProgress mine) {
    DT_TRY(const std::vector<job::IndexProgress> all,
           indexing_.coordinator.all_gather(fmt::format("the index of record file {}", number_), mine));
    return all.front();
  }

  const data::RecordFile& file_;
  const data::IndexedFile& named_;
  const size_t number_;
  const Indexing& indexing_;
  Clock::time_point reported_ = Clock::now();
};

Result<> check_numbers_of_files(size_t own, const Indexing& indexing) {
  job::Coordinator& job = indexing.coordinator;
  DT_TRY(const std::vector<job::FileCount> all,
         job.all_gather("the number of record files", job::FileCount{.files = own}));
  if (all.front().files == own && own <= kFilesMax) return {};
  if (own > kFilesMax) {
    return fail(Code::kUsage,
                "there are {} record files, and at least one has no index: at most {} files can be indexed at the "
                "start of a job; index them with 'dtrain data index'",
                own, kFilesMax);
  }
  return fail(Code::kUsage, "worker {} has {} record files, but worker 0 has {}", job.rank(), own, all.front().files);
}

// For each file, the number of workers that lack its index.
Result<std::vector<double>> count_lacking(const std::vector<data::IndexedFile>& files, job::Coordinator& job) {
  std::vector<double> lacking;
  lacking.reserve(files.size());
  for (const data::IndexedFile& file : files) lacking.push_back(data::lacks_index(file) ? 1 : 0);
  return job.sum("record files without an index", lacking);
}

// Shares the offsets of one file. Adds them to `known`, unless this worker now finds an index next to its file.
Result<> share_one(const data::IndexedFile& named, size_t number, const Indexing& indexing, data::KnownOffsets& known) {
  job::Coordinator& job = indexing.coordinator;
  DT_TRY(const data::RecordFile file, data::RecordFile::open(named.path, indexing.log));
  DT_TRY_VOID(data::check_is_record_file(file));
  SharedIndex index(file, named, number, indexing);
  std::string packed;
  if (job.rank() == 0) {
    DT_TRY(std::vector<int64_t> offsets, index.make());
    DT_TRY(packed, data::pack_offsets(file, offsets));
    known[named.path] = std::move(offsets);
  } else {
    DT_TRY_VOID(index.wait());
  }
  const bool lacks = job.rank() != 0 && data::lacks_index(named);
  DT_TRY(const std::vector<double> lacking,
         job.sum("record files still without an index", std::vector<double>{lacks ? 1.0 : 0.0}));
  if (lacking[0] == 0) return {};
  DT_TRY(packed, broadcast(job, fmt::format("the offsets of record file {}", number), packed));
  if (!lacks) return {};
  DT_TRY(known[named.path], data::unpack_offsets(file, packed), "using the index that worker 0 has sent");
  indexing.log.info("{}: worker 0 has sent the offsets of {} records", named.path, known[named.path].size());
  return {};
}

}  // namespace

Result<data::KnownOffsets> share_indexes(const std::vector<data::IndexedFile>& files, const Indexing& indexing) {
  data::KnownOffsets known;
  DT_TRY_VOID(check_numbers_of_files(files.size(), indexing));
  DT_TRY(const std::vector<double> lacking, count_lacking(files, indexing.coordinator));
  for (size_t i = 0; i < files.size(); i++) {
    if (lacking[i] == 0) continue;
    DT_TRY_VOID(share_one(files[i], i, indexing, known), "indexing '{}' as worker {}", files[i].path,
                indexing.coordinator.rank());
  }
  return known;
}

Result<data::KnownOffsets> make_indexes(const std::vector<data::IndexedFile>& files, const std::string& directory,
                                        const Log& log) {
  data::KnownOffsets known;
  for (const data::IndexedFile& named : files) {
    if (!data::lacks_index(named)) continue;
    DT_TRY(const data::RecordFile file, data::RecordFile::open(named.path, log));
    DT_TRY_VOID(data::check_is_record_file(file));
    DT_TRY(known[named.path], data::make_index(file, log, nullptr, directory));
  }
  return known;
}

}  // namespace dtrain::role
