#include "train/rate_request.h"

#include <fcntl.h>
#include <sys/file.h>

#include <cerrno>
#include <cstring>
#include <filesystem>

#include "base/file.h"
#include "base/printable.h"
#include "job/flags/value.h"
#include "kvstore/counters.h"

namespace dtrain::train {
namespace {

constexpr uint64_t kRequestBytesMax = 1000;

std::string request_path(const std::string& metrics_path) {
  return (std::filesystem::path(metrics_path).parent_path() / "rate-request").string();
}

// Whether worker 0 holds its lock on the metrics file. The lock is released when the process ends, in whatever way.
bool is_locked(const UniqueFd& file) {
  return ::flock(file.get(), LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK;
}

}  // namespace

bool is_training(const std::string& metrics_path) {
  const UniqueFd metrics(::open(metrics_path.c_str(), O_RDWR | O_CLOEXEC));
  return metrics.open() && is_locked(metrics);
}

Result<RateRequest> parse_rate_request(std::string_view text) {
  const bool is_factor = text.starts_with('x');
  double value = 0;
  const Result<> read = job::parse_value(is_factor ? text.substr(1) : text, value);
  if (!read || !kvstore::is_rate_factor(value)) {
    return fail(Code::kUsage, "'{}' is not a learning rate above 0, as in 0.01, nor a factor, as in x0.1",
                printable(text));
  }
  return RateRequest{is_factor ? RateRequest::Kind::kFactor : RateRequest::Kind::kRate, value};
}

std::string to_string(const RateRequest& request) {
  return (request.kind == RateRequest::Kind::kFactor ? "x" : "") + job::format_value(request.value);
}

Result<> request_rate(const std::string& metrics_path, const RateRequest& request) {
  const std::string directory = std::filesystem::path(metrics_path).parent_path().string();
  const UniqueFd metrics(::open(metrics_path.c_str(), O_RDWR | O_CLOEXEC));
  if (!metrics.open() && errno != ENOENT) {
    return fail(Code::kUsage, "cannot open '{}': {}", metrics_path, std::strerror(errno));
  }
  if (!metrics.open() || !is_locked(metrics)) {
    return fail(Code::kUsage, "no run is training in '{}': worker 0 does not run on this host{}", directory,
                metrics.open() ? ", or it has ended; to resume a run with another learning rate, give --lr" : "");
  }
  return write_file_atomic(request_path(metrics_path), to_string(request) + "\n");
}

RateRequests RateRequests::open(const std::string& metrics_path) {
  RateRequests requests;
  requests.lock_ = UniqueFd(::open(metrics_path.c_str(), O_RDWR | O_CLOEXEC));
  // If no lock can be taken, for instance because the file system has none, request_rate() refuses requests.
  if (!requests.lock_.open() || ::flock(requests.lock_.get(), LOCK_SH) != 0) return RateRequests();
  requests.path_ = request_path(metrics_path);
  std::error_code none;
  std::filesystem::remove(requests.path_, none);
  return requests;
}

std::optional<RateRequest> RateRequests::take(const Log& log) {
  std::error_code none;
  if (path_.empty() || !std::filesystem::exists(path_, none)) return std::nullopt;
  Result<std::string> text = read_file(path_, kRequestBytesMax);
  std::filesystem::remove(path_, none);
  if (!text) {
    log.warn("the learning rate is not changed: {}", text.error().message);
    return std::nullopt;
  }
  if (text->ends_with('\n')) text->pop_back();
  const Result<RateRequest> request = parse_rate_request(*text);
  if (!request) {
    log.warn("the learning rate is not changed: {}: {}", path_, request.error().message);
    return std::nullopt;
  }
  return *request;
}

}  // namespace dtrain::train
