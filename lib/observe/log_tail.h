// Follows the logs of a run: the files *.log of its directory.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace dtrain::observe {

struct LogLine {
  std::string process;  // from the file's name: "worker 0", "scheduler"
  std::string text;     // at most kLogLineBytesMax bytes
  bool operator==(const LogLine&) const = default;
};
inline constexpr size_t kLogLineBytesMax = 400;

// A log is appended to by its process; on the host that starts a job, all of its logs lie in one directory, also
// those of processes on other hosts. One thread uses a LogTail.
class LogTail {
 public:
  explicit LogTail(std::string directory) : directory_(std::move(directory)) {}
  // The complete lines that were added since the last call, each file's in order, but only those in the last 64 KiB of
  // a file. A file that cannot be read has none.
  std::vector<LogLine> take();

 private:
  struct File {
    int64_t offset = 0;
    std::string rest;  // the beginning of a line whose end is not there yet
  };
  static void read(const std::string& path, const std::string& process, File& file, std::vector<LogLine>& lines);

  std::string directory_;
  std::map<std::string, File> files_;  // by name
};

}  // namespace dtrain::observe
