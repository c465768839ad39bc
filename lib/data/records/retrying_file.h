// A file on a disk or a file server that may fail temporarily.
#pragma once

#include <array>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>

#include "base/error.h"
#include "base/log.h"
#include "base/unique_fd.h"

namespace dtrain::data {

// The system calls with which a file is read. Tests replace them to inject faults and to avoid real pauses.
struct FileCalls {
  std::function<int(const char* path)> open;  // opens a file for reading, like ::open
  std::function<int64_t(int fd, void* out, size_t bytes, int64_t offset)> read;  // reads a part of a file, like ::pread
  std::function<void(std::chrono::milliseconds)> pause;
  std::function<void(int fd, int64_t offset, int64_t bytes)> will_read;  // reads ahead without waiting
  static FileCalls of_system();
};

// An open file. Threads may share it.
//
// A read that fails for a temporary cause (EIO, ESTALE, ETIMEDOUT and the like, or a file that ends before the size
// that it had when it was opened) is retried: up to kTriesMax tries with growing pauses, about 14 seconds altogether.
// After ESTALE the file is opened again, if its size and its first bytes show that it is still the same. A success
// after failures is logged. If all tries fail, the result is Code::kDevice, because the contents of the file are not
// known to be bad.
class RetryingFile {
 public:
  static constexpr int kTriesMax = 6;

  // Code::kNotFound if there is no such file; kUsage if it is not a regular file; kDevice if a fault remains after all
  // tries; kData if it cannot be opened.
  static Result<std::unique_ptr<RetryingFile>> open(std::string path, const Log& log,
                                                    FileCalls calls = FileCalls::of_system());

  // Fills `out` with the bytes from `offset` on. Code::kData if the file was already shorter when it was opened;
  // kDevice if it cannot be read; kUsage if another file has replaced it.
  Result<> read_at(int64_t offset, std::span<uint8_t> out) const;
  // Asks the kernel to read these bytes into its cache. Does not wait for them.
  void will_read(int64_t offset, int64_t bytes) const;

  [[nodiscard]] const std::string& path() const { return path_; }
  [[nodiscard]] int64_t size() const { return size_; }

 private:
  // The properties by which a file is recognized when it is opened again.
  struct Mark {
    int64_t size = 0;
    std::array<uint8_t, 8> begin = {};
    bool operator==(const Mark&) const = default;
  };
  class Tries;

  RetryingFile(std::string path, const Log& log, FileCalls calls)
      : path_(std::move(path)), log_(log), calls_(std::move(calls)) {}
  // Opens the file and reads its mark. Returns 0 or an errno.
  int open_once(UniqueFd& fd, Mark& mark) const;
  Result<> open_again() const;
  Result<> open_first();

  const std::string path_;
  const Log log_;
  const FileCalls calls_;
  UniqueFd fd_;  // the open file; the descriptor keeps its number when the file is opened again
  int64_t size_ = 0;
  Mark mark_;
  mutable std::atomic<uint64_t> faults_ = 0;  // number of reads that succeeded only after a retry
};

}  // namespace dtrain::data
