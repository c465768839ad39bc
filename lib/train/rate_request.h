// A change of the learning rate that a person asks for while a run trains: a small file in the run directory, which
// worker 0 reads when the workers meet next.
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
  double value = 0;  // above 0: the rate of the next update, or what to multiply the rate by
};
// "0.01" is a rate, "x0.1" a factor. Code::kUsage for anything else.
Result<RateRequest> parse_rate_request(std::string_view text);
std::string to_string(const RateRequest& request);

// Whether worker 0 of a run trains in the directory of this metrics.jsonl, on this host or, if the file system has
// locks for all hosts, on another one.
bool is_training(const std::string& metrics_path);

// Leaves a request for the run. `metrics_path`: of its metrics.jsonl, beside which the request is written.
// Code::kUsage: no worker 0 trains in this directory on this host.
Result<> request_rate(const std::string& metrics_path, const RateRequest& request);

// Worker 0's side. While it exists, is_training() is true.
class RateRequests {
 public:
  RateRequests() = default;  // takes no requests
  // Removes a request that an earlier process has not read. Takes none if the file cannot be locked.
  static RateRequests open(const std::string& metrics_path);
  // Reads and removes the request, if there is one. One that cannot be read is logged and removed.
  std::optional<RateRequest> take(const Log& log);

 private:
  UniqueFd lock_;
  std::string path_;  // of the request; empty: takes none
};

}  // namespace dtrain::train
