// Reads a file that another process appends to, perhaps on another host.
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
  // Delivers a limited number of the lines that were added since the last call: kMore means that there are others. The
  // file is opened each time, because a network file system may show other writers' changes only then. A file that has
  // become shorter is read again from the beginning.
  Found read(const LineSplitter::Sink& sink);
  // The file's size; 0 if it does not exist.
  [[nodiscard]] int64_t size() const;
  // Called when nothing more will be added: delivers an unfinished last line.
  void finish(const LineSplitter::Sink& sink) { lines_.finish(sink); }

  [[nodiscard]] const std::string& path() const { return path_; }

 private:
  std::string path_;
  LineSplitter lines_;
  int64_t offset_ = 0;
};

}  // namespace dtrain::proc
