// A change of the learning rate that a user requests while a run trains: a small file in the run directory, which
// worker 0 reads at the next meeting of the workers.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "base/error.h"
#include "base/log.h"
#include "base/unique_fd.h"

namespace dtrain::train {

struct RateRequest {
  enum class Kind { kRate, kFactor };
  Kind kind = Kind::kRate;
  double value = 0;  // the new rate, or the factor by which the rate is multiplied; always above 0
};
// Parses "0.01" as a rate and "x0.1" as a factor. Code::kUsage for anything else.
Result<RateRequest> parse_rate_request(std::string_view text);
std::string to_string(const RateRequest& request);

// Whether worker 0 of a run is training in the directory of this metrics.jsonl, on this host or, if the file system
// shares locks between hosts, on another one.
bool is_training(const std::string& metrics_path);

// Leaves a request for the run, next to its metrics.jsonl (`metrics_path`). Code::kUsage if no worker 0 is training in
// this directory on this host.
Result<> request_rate(const std::string& metrics_path, const RateRequest& request);

// Worker 0's side. is_training() is true while this object exists.
class RateRequests {
 public:
  RateRequests() = default;  // an object that takes no requests
  // Removes a request that an earlier process of the run has not read. The result takes no requests if the file cannot
  // be locked.
  static RateRequests open(const std::string& metrics_path);
  // Reads and removes the request, if there is one. A malformed request is logged and removed.
  std::optional<RateRequest> take(const Log& log);

 private:
  UniqueFd lock_;
  std::string path_;  // path of the request; empty: takes no requests
};

}  // namespace dtrain::train
