// Follows the logs of a run: the files *.log of its directory.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace dtrain::observe {

struct LogLine {
  std::string process;  // from the file's name: "worker 0", "scheduler"
  std::string text;     // text of the line, at most kLogLineBytesMax bytes
  bool operator==(const LogLine&) const = default;
};
inline constexpr size_t kLogLineBytesMax = 400;

// Each process appends to its own log. On the host that starts a job, all of the job's logs are in one directory,
// including those of processes on other hosts. One thread uses a LogTail.
class LogTail {
 public:
  explicit LogTail(std::string directory) : directory_(std::move(directory)) {}
  // Returns the complete lines added since the last call, in order within each file, but only those in the last 64 KiB
  // of a file. A file that cannot be read contributes no lines.
  std::vector<LogLine> take();

 private:
  struct File {
    int64_t offset = 0;
    std::string rest;  // the beginning of a line whose end has not been written yet
  };
  static void read(const std::string& path, const std::string& process, File& file, std::vector<LogLine>& lines);

  std::string directory_;
  std::map<std::string, File> files_;  // the files that have been read, indexed by name
};

}  // namespace dtrain::observe
