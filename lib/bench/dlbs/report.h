// The output of a DLBS benchmark: lines "__NAME__=JSON", which DLBS's log parser reads. If several lines have the same
// name, the parser takes the last one.
#pragma once

#include <chrono>
#include <cstdint>
#include <fstream>
#include <optional>
#include <string>
#include <vector>

#include "base/error.h"
#include "bench/dlbs/benchmark.h"
#include "bench/dlbs/parameters.h"
#include "bench/train.h"

namespace dtrain::bench {

// The timing of the batches after the warm-up.
struct DlbsTimes {
  struct Part {
    double samples = 0, seconds = 0;
    std::vector<double> batches_ms;
  };
  Part job;  // the samples of all nodes, and the times of the slowest node
  Part own;  // the samples and times of this node only
  // How long this node waited for data and for the network, in seconds; own.seconds includes both times.
  double wait_data_s = 0, wait_network_s = 0;
  // Bytes that this node has sent and received; nullopt: unknown.
  std::optional<double> bytes_sent = {}, bytes_received = {};
};
// Reads the file that --time-batches-after makes the job write to the run directory. Code::kData if it is not such a
// file.
Result<DlbsTimes> read_dlbs_times(const std::string& run_dir, int64_t rank);
DlbsTimes dlbs_times_of(const BenchTrainResult& inference);

// "__exp.model__="resnet50"\n".
std::string dlbs_line(const std::string& name, const DlbsParameters::Json& value);
// All parameters, one line each.
std::string dlbs_header(const DlbsParameters& parameters);
// The lines with the results. There must be at least one batch.
std::string dlbs_results(const DlbsTimes& times);
// The lines that mark a benchmark as failed.
std::string dlbs_failure(const std::string& why);
// "2026-11-25:01:30:00:123", local time.
std::string dlbs_clock(std::chrono::system_clock::time_point time);
// True if the log contains results. With exp.rerun=onfail, a benchmark with such a log is not repeated.
bool dlbs_succeeded(const std::string& log);

// Writes to stdout and to the log file.
class DlbsLog {
 public:
  // Creates the file and its directory; replaces an existing file. `path`: if it is empty or /dev/stdout, there is no
  // file.
  static Result<DlbsLog> create(const std::string& path);
  // Code::kData if the file could not be written.
  Result<> write(const std::string& text);

 private:
  std::string path_;
  std::ofstream file_;
};

}  // namespace dtrain::bench
