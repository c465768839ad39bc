// A file to which the launcher appends what a process on another host prints. A full disk costs lines, not the job.
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
  LineLog() = default;  // nothing may be appended
  explicit LineLog(std::string path) : path_(std::move(path)) {}

  [[nodiscard]] bool is_set() const { return !path_.empty(); }

  // Appends the line, which has no newline. If that fails, the line is left out; only the first failure in a row is
  // returned. The first line after a failure is preceded by one that says how many lines are missing.
  Result<> append(std::string_view line);

 private:
  [[nodiscard]] bool write(std::string_view bytes);

  std::string path_;
  UniqueFd file_;
  uint64_t missing_ = 0;        // lines that could not be written since one could
  bool has_part_line_ = false;  // the file ends within a line
};

}  // namespace dtrain::launch
