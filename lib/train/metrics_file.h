// metrics.jsonl: one object a line, for machines. formats.md 7.6.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/error.h"

namespace dtrain::train {

struct MetricsRecord {
  std::optional<int64_t> epoch = 0;  // nothing: a server, which knows of updates only
  uint64_t step = 0;                 // since the start of the run
  // Names of formats.md 7.6. What is not finite is written as null.
  std::vector<std::pair<std::string, double>> values;
};

// Appends; each line is written by one call, so several processes of a host may share the file.
class MetricsFile {
 public:
  MetricsFile() = default;  // none: append does nothing
  // Code::kUsage if the file cannot be opened.
  static Result<MetricsFile> open(const std::string& path, std::string role, uint32_t rank);
  MetricsFile(MetricsFile&& other) noexcept;
  MetricsFile& operator=(MetricsFile&& other) noexcept;
  ~MetricsFile();

  // Code::kData if the line could not be written.
  Result<> append(const MetricsRecord& record);

 private:
  std::string path_, role_;
  uint32_t rank_ = 0;
  int fd_ = -1;
};

}  // namespace dtrain::train
