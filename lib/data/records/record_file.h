// RecordIO files: random reads by many threads, and scans. Their indexes are in record_index.h.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/log.h"
#include "data/records/recordio.h"
#include "data/records/retrying_file.h"

namespace dtrain::data {

// An open record file. Threads may share it, each with its own buffer. The contents of the file are not trusted.
//
// A fault of the disk or the file server does not count as a broken record: reads are retried, and then fail with a
// code other than kData (retrying_file.h).
class RecordFile {
 public:
  // `log` receives faults after which a retry succeeded.
  static Result<RecordFile> open(std::string path, const Log& log = Log::silent(),
                                 FileCalls calls = FileCalls::of_system());

  // Returns the payload of the record that begins at `offset`. It is a view into `buffer`, which only grows. `end`:
  // where the next record begins, if known, so that a single read is enough. Code::kData with file, offset and reason.
  Result<Bytes> read(int64_t offset, int64_t end, std::vector<uint8_t>& buffer) const;
  // Fills `out` with the bytes from `offset` on; Code::kData if the file ends earlier.
  Result<> read_at(int64_t offset, std::span<uint8_t> out) const { return file_->read_at(offset, out); }
  // Asks the kernel to read these bytes into its cache, and does not wait for them.
  void will_read(int64_t offset, int64_t bytes) const { file_->will_read(offset, bytes); }
  [[nodiscard]] const std::string& path() const { return file_->path(); }
  [[nodiscard]] int64_t size() const { return file_->size(); }

 private:
  explicit RecordFile(std::unique_ptr<RetryingFile> file) : file_(std::move(file)) {}
  struct Reading;

  std::unique_ptr<RetryingFile> file_;
};

// Code::kData if the file is clearly not a record file: a text, an image, empty. A file that does not begin with a
// record may still be a damaged record file.
Result<> check_is_record_file(const RecordFile& file);

// The result of a scan over all parts of a file.
struct RecordScan {
  struct Broken {
    int64_t offset = 0;
    std::string reason;
  };
  std::vector<int64_t> offsets;  // offsets of the sound records, ascending
  std::vector<Broken>
      broken;  // places where a record should begin or end but does not; the scan continues at the next record start
};
// Called repeatedly during a scan, with the offset that the scan has reached. An error that it returns ends the scan.
using ScanProgress = std::function<Result<>(int64_t offset)>;
// Finds all records of the file, in time proportional to its size. Code::kData: the file is too damaged for that.
Result<RecordScan> scan_records(const RecordFile& file, const ScanProgress& progress = nullptr);

}  // namespace dtrain::data
