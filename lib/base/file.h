// Files: read whole, written whole or not at all.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>

#include "base/error.h"

namespace dtrain {

// The most that is read of a text file, and of anything that is not a regular file: /dev/zero has no end.
inline constexpr uint64_t kTextBytesMax = uint64_t{64} << 20;
// The most that is read of a file of weights, records, indexes or logs.
inline constexpr uint64_t kDataBytesMax = uint64_t{1} << 40;

// The whole file. Code::kNotFound if it is not there; kData if it cannot be read, is larger than `bytes_max` or does
// not fit into memory.
Result<std::string> read_file(const std::string& path, uint64_t bytes_max = kTextBytesMax);

// Writes a file so that a reader sees the old content or the new one and never a part: a file without a name, fsync, a
// temporary name in the same directory, rename, fsync of the directory. A failure leaves the old file and nothing else,
// and so does a process that is killed while it writes. (On file systems without files that have no name, NFS for one,
// the temporary name is there from the beginning, and a kill leaves it.)
class AtomicFile {
 public:
  // Called before each system call that can fail ("open", "write", "fsync", "link", "close", "rename"); an errno other
  // than 0 makes the call fail so. Tests fail the n-th call for every n.
  using Fault = std::function<int(const char* call)>;

  static Result<AtomicFile> create(std::string path, Fault fault = nullptr);
  AtomicFile(AtomicFile&& other) noexcept;
  AtomicFile& operator=(AtomicFile&&) = delete;
  ~AtomicFile();  // not committed: the temporary file is removed

  Result<> write(std::span<const std::byte> bytes);
  Result<> write(std::string_view text) { return write(std::as_bytes(std::span(text))); }
  Result<> commit();

 private:
  AtomicFile(std::string path, Fault fault) : path_(std::move(path)), fault_(std::move(fault)) {}
  [[nodiscard]] bool injected(const char* call) const;
  [[nodiscard]] Error error(const char* call) const;
  Result<> open();
  Result<> give_name();

  std::string path_;
  std::string temporary_;
  bool is_named_ = false;  // something bears the temporary name
  Fault fault_;
  int fd_ = -1;
};

Result<> write_file_atomic(const std::string& path, std::string_view content);
// Creates the directory and its parents; fine if it is there.
Result<> make_directories(const std::string& path);

}  // namespace dtrain
