// A file to which the launcher appends the output of a process on another host. If the disk is full, lines are lost,
// but the job continues.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>

#include "base/error.h"
#include "base/unique_fd.h"

namespace dtrain::launch {

class LineLog {
 public:
  LineLog() = default;  // an empty log, to which nothing may be appended
  explicit LineLog(std::string path) : path_(std::move(path)) {}

  [[nodiscard]] bool is_set() const { return !path_.empty(); }

  // Appends the line, which has no newline. If that fails, the line is dropped; of successive failures only the first
  // one is returned. Before the first line after a failure, a line reports how many lines are missing.
  Result<> append(std::string_view line);

 private:
  [[nodiscard]] bool write(std::string_view bytes);

  std::string path_;
  UniqueFd file_;
  uint64_t missing_ = 0;        // number of lines dropped since the last successful write
  bool has_part_line_ = false;  // the last line of the file is incomplete
};

}  // namespace dtrain::launch
