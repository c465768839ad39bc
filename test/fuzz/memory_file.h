// A file in memory, for readers that take a path.
#pragma once

#include <fmt/core.h>
#include <sys/mman.h>

#include <string>
#include <string_view>

#include "base/error.h"
#include "base/unique_fd.h"

namespace dtrain::fuzz {

class MemoryFile {
 public:
  explicit MemoryFile(std::string_view bytes) : fd_(::memfd_create("fuzz", MFD_CLOEXEC)) {
    const bool whole = bytes.empty() || ::write(fd_.get(), bytes.data(), bytes.size()) == std::ssize(bytes);
    DT_CHECK(fd_.open() && whole, "cannot make a file in memory");
  }
  [[nodiscard]] std::string path() const { return fmt::format("/proc/self/fd/{}", fd_.get()); }

 private:
  UniqueFd fd_;
};

}  // namespace dtrain::fuzz
