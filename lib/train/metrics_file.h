// metrics.jsonl: one JSON object per line, for programs to read. See docs/formats.md, "Run directory".
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/error.h"

namespace dtrain::train {

struct MetricsRecord {
  std::optional<int64_t> epoch = 0;  // nullopt: written by a server, which does not know epochs
  uint64_t step = 0;                 // updates since the start of the run
  // The names are listed in docs/formats.md, "Run directory". A value that is not finite is written as null.
  std::vector<std::pair<std::string, double>> values;
};

// Appends records. Each line is written by one system call, so several processes of a host may share the file.
class MetricsFile {
 public:
  MetricsFile() = default;  // no file: append does nothing
  // Code::kUsage if the file cannot be opened.
  static Result<MetricsFile> open(const std::string& path, std::string role, uint32_t rank);
  MetricsFile(MetricsFile&& other) noexcept;
  MetricsFile& operator=(MetricsFile&& other) noexcept;
  ~MetricsFile();

  // Code::kData if the line cannot be written.
  Result<> append(const MetricsRecord& record);

 private:
  std::string path_, role_;
  uint32_t rank_ = 0;
  int fd_ = -1;
};

}  // namespace dtrain::train
