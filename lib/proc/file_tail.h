// Reads a file while another process, perhaps on another host, appends to it.
#pragma once

#include <cstdint>
#include <string>
#include <utility>

#include "proc/lines.h"

namespace dtrain::proc {

class FileTail {
 public:
  explicit FileTail(std::string path) : path_(std::move(path)) {}

  enum class Found { kNoFile, kAll, kMore };
  // Delivers lines that were added since the last call, up to a limit; kMore means that there are more of them. The
  // file is opened each time, because a network file system may show changes by other hosts only then. A file that has
  // become shorter is read from the beginning again.
  Found read(const LineSplitter::Sink& sink);
  // The file's size; 0 if it does not exist.
  [[nodiscard]] int64_t size() const;
  // Must be called when nothing more will be added: delivers the last line even if it is incomplete.
  void finish(const LineSplitter::Sink& sink) { lines_.finish(sink); }

  [[nodiscard]] const std::string& path() const { return path_; }

 private:
  std::string path_;
  LineSplitter lines_;
  int64_t offset_ = 0;
};

}  // namespace dtrain::proc
