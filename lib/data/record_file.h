// RecordIO files: random reads by many threads, and scans. Their indexes are in record_index.h.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "base/error.h"
#include "data/recordio.h"

namespace dtrain::data {

// An open record file. Threads may share it, each with its own buffer. The contents of the file are not trusted.
class RecordFile {
 public:
  static Result<RecordFile> open(std::string path);
  RecordFile(RecordFile&& other) noexcept;
  RecordFile& operator=(RecordFile&&) = delete;
  ~RecordFile();

  // Returns the payload of the record that begins at `offset`. It is a view into `buffer`, which only grows. `end`:
  // where the next record begins, if known, so that a single read is enough. Code::kData with file, offset and reason.
  Result<Bytes> read(int64_t offset, int64_t end, std::vector<uint8_t>& buffer) const;
  // Fills `out` with the bytes from `offset` on; Code::kData if the file ends earlier.
  Result<> read_at(int64_t offset, std::span<uint8_t> out) const;
  [[nodiscard]] const std::string& path() const { return path_; }
  [[nodiscard]] int64_t size() const { return size_; }

 private:
  RecordFile(std::string path, int fd, int64_t size) : path_(std::move(path)), fd_(fd), size_(size) {}
  struct Reading;

  std::string path_;
  int fd_ = -1;
  int64_t size_ = 0;
};

// Code::kData if the file is clearly something else: a text, a picture, empty. A file that does not begin with a record
// may still be a damaged record file.
Result<> check_is_record_file(const RecordFile& file);

// The result of a scan over all parts of a file.
struct RecordScan {
  struct Broken {
    int64_t offset = 0;
    std::string reason;
  };
  std::vector<int64_t> offsets;  // of the sound records, ascending
  std::vector<Broken>
      broken;  // places where a record should begin or end and does not; the walk goes on at the next start
};
// Called repeatedly during a scan, with the offset that it has reached. An error from it ends the scan.
using ScanProgress = std::function<Result<>(int64_t offset)>;
// Finds all records of the file, in time proportional to its size. Code::kData: the file is too damaged for that.
Result<RecordScan> scan_records(const RecordFile& file, const ScanProgress& progress = nullptr);

}  // namespace dtrain::data
