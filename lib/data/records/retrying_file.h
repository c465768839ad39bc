// A file that is read from a disk or a file server that may fail for a moment.
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

// The calls by which a file is read. Tests replace them to inject faults, and to wait for nothing.
struct FileCalls {
  std::function<int(const char* path)> open;                                     // as ::open for reading
  std::function<int64_t(int fd, void* out, size_t bytes, int64_t offset)> read;  // as ::pread
  std::function<void(std::chrono::milliseconds)> pause;
  std::function<void(int fd, int64_t offset, int64_t bytes)> will_read;  // reads ahead, and does not wait
  static FileCalls of_system();
};

// An open file. Threads may share it.
//
// A read that fails for a cause that may pass (EIO, ESTALE, ETIMEDOUT and the like, or an end of the file before the
// size that it had when it was opened) is tried again, kTriesMax times in all with growing pauses, about 14 seconds in
// all. After ESTALE the file is opened again, if it is still the same by its size and its first bytes. A success after
// failures is logged. If all tries fail, the result is Code::kDevice: the contents of the file are not known to be bad.
class RetryingFile {
 public:
  static constexpr int kTriesMax = 6;

  // Code::kNotFound; kUsage if it is no regular file; kDevice as above; kData if it cannot be opened.
  static Result<std::unique_ptr<RetryingFile>> open(std::string path, const Log& log,
                                                    FileCalls calls = FileCalls::of_system());

  // Fills `out` with the bytes from `offset` on. Code::kData if the file ended earlier when it was opened; kDevice if
  // it cannot be read; kUsage if another file has taken its place.
  Result<> read_at(int64_t offset, std::span<uint8_t> out) const;
  // Asks the kernel to read these bytes into its cache, and does not wait for them.
  void will_read(int64_t offset, int64_t bytes) const;

  [[nodiscard]] const std::string& path() const { return path_; }
  [[nodiscard]] int64_t size() const { return size_; }

 private:
  // By which a file is known again.
  struct Mark {
    int64_t size = 0;
    std::array<uint8_t, 8> begin = {};
    bool operator==(const Mark&) const = default;
  };
  class Tries;

  RetryingFile(std::string path, const Log& log, FileCalls calls)
      : path_(std::move(path)), log_(log), calls_(std::move(calls)) {}
  // Opens the file and reads its mark: 0 or an errno.
  int open_once(UniqueFd& fd, Mark& mark) const;
  Result<> open_again() const;
  Result<> open_first();

  const std::string path_;
  const Log log_;
  const FileCalls calls_;
  UniqueFd fd_;  // keeps its number when the file is opened again
  int64_t size_ = 0;
  Mark mark_;
  mutable std::atomic<uint64_t> faults_ = 0;  // reads that succeeded only when they were tried again
};

}  // namespace dtrain::data
