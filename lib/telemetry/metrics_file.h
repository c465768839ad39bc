// metrics.jsonl: one JSON object per line, for programs to read. See docs/formats.md, "Run directory".
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "base/error.h"
#include "base/unique_fd.h"
#include "telemetry/record.h"

namespace dtrain::telemetry {

// Appends records. Each line is normally written by a single system call, so several processes of a host may share the
// file.
class MetricsFile final : public Sink {
 public:
  // Code::kUsage if the file cannot be opened.
  static Result<std::unique_ptr<MetricsFile>> open(const std::string& path, std::string role, uint32_t rank);

  // Appends a line. A value that is not finite is written as null, and the values of a metric with a label as one
  // object. Code::kData if the line cannot be written.
  Result<> write(const Record& record) override;

 private:
  MetricsFile(std::string path, std::string role, uint32_t rank, UniqueFd file)
      : path_(std::move(path)), role_(std::move(role)), rank_(rank), file_(std::move(file)) {}

  std::string path_, role_;
  uint32_t rank_;
  UniqueFd file_;
};

}  // namespace dtrain::telemetry
