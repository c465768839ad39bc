// Reading whole files, writing files atomically, and lists of paths.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "base/unique_fd.h"

namespace dtrain {

// Limit for text files, and for anything that is not a regular file (/dev/zero never ends).
inline constexpr uint64_t kTextBytesMax = uint64_t{64} << 20;
// Limit for files of weights, records, indexes or logs.
inline constexpr uint64_t kDataBytesMax = uint64_t{1} << 40;

// Reads the whole file. Code::kNotFound if it does not exist; kData if it cannot be read, is larger than `bytes_max` or
// does not fit into memory.
Result<std::string> read_file(const std::string& path, uint64_t bytes_max = kTextBytesMax);

// Writes a file so that readers see either the old content or the complete new content. It writes an unnamed file
// (O_TMPFILE), calls fsync, links it to a temporary name in the same directory, renames it, and calls fsync on the
// directory. If a call fails, or if the process is killed while it writes, the old file is unchanged and no other file
// is left. (Some file systems, such as NFS, do not support unnamed files. There the temporary name exists from the
// beginning, and remains if the process is killed.)
class AtomicFile {
 public:
  // For tests: called before each system call that can fail ("open", "write", "fsync", "link", "close", "rename"). If
  // it returns an errno other than 0, the call fails with that error.
  using Fault = std::function<int(const char* call)>;

  static Result<AtomicFile> create(std::string path, Fault fault = nullptr);
  AtomicFile(AtomicFile&& other) noexcept;
  AtomicFile& operator=(AtomicFile&&) = delete;
  ~AtomicFile();  // removes the temporary file if commit() has not succeeded

  Result<> write(std::span<const std::byte> bytes);
  Result<> write(std::string_view text) { return write(std::as_bytes(std::span(text))); }
  // Writes everything to the disk, which is the slow part of commit().
  Result<> flush();
  Result<> commit();

 private:
  AtomicFile(std::string path, Fault fault) : path_(std::move(path)), fault_(std::move(fault)) {}
  [[nodiscard]] bool injected(const char* call) const;
  [[nodiscard]] Error error(const char* call) const;
  Result<> open();
  Result<> give_name();

  std::string path_;
  std::string temporary_;
  bool is_named_ = false;  // whether the file has its temporary name already
  bool is_flushed_ = false;
  Fault fault_;
  int fd_ = -1;
};

// Opens a file for writing line by line, and creates it if it does not exist. `flags`: O_APPEND or O_TRUNC.
// Code::kUsage: the file cannot be written, or it is a pipe, because a writing thread might wait forever for the pipe's
// reader.
Result<UniqueFd> open_for_lines(const std::string& path, int flags);

Result<> write_file_atomic(const std::string& path, std::string_view content);
// Creates the directory and its parents. Succeeds if it exists already.
Result<> make_directories(const std::string& path);

// The paths in a list "a.rec;b.rec" of files in the directory (empty: the current directory). If the whole text is the
// path of an existing file, it is one path, even if it contains ';'.
std::vector<std::string> split_paths(const std::string& list, const std::string& directory = {});

}  // namespace dtrain
