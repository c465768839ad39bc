// Where a command writes its results: a file that appears only when it is complete, or standard output.
#pragma once

#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>

#include "base/file.h"

namespace dtrain::cmd {

// Flushes standard output. Code::kUsage if this write or an earlier one has failed, for example because the disk is
// full.
Result<> flush_output();

// Code::kUsage if the file name `out` (of --out) has none of the `endings`, such as ".png".
Result<> check_ending(std::string_view out, std::initializer_list<std::string_view> endings);

class OutputFile {
 public:
  // `path`: empty for standard output.
  static Result<OutputFile> open(const std::string& path);

  Result<> write(std::string_view piece);
  // Must be called after the last write: completes the output.
  Result<> finish();

 private:
  OutputFile() = default;
  std::optional<AtomicFile> file_;  // the file that is written; nullopt: standard output
};

}  // namespace dtrain::cmd
