// The destination of a command's results: a file that appears only when it is complete, or standard output.
#pragma once

#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>

#include "base/file.h"

namespace dtrain::cmd {

// Flushes standard output. Code::kUsage: this or an earlier write has failed, for example because the disk is full.
Result<> flush_output();

// Refuses a name for --out that has none of these endings, such as ".png". Code::kUsage.
Result<> check_ending(std::string_view out, std::initializer_list<std::string_view> endings);

class OutputFile {
 public:
  // An empty path: standard output.
  static Result<OutputFile> open(const std::string& path);

  Result<> write(std::string_view piece);
  // Completes the output.
  Result<> finish();

 private:
  OutputFile() = default;
  std::optional<AtomicFile> file_;  // nullopt: standard output
};

}  // namespace dtrain::cmd
