#include "telemetry/tracer.h"

#include <fmt/format.h>

#include <utility>

#include "telemetry/trace_file.h"

namespace dtrain::telemetry {

std::string steps_text(const TraceRequest& request) {
  return fmt::format("the steps {} to {}", request.first_step, request.first_step + request.steps - 1);
}

void Tracer::set_place(const std::string& role, uint32_t rank, const std::string& directory, Log log) {
  const MutexLock lock(mutex_);
  log_ = std::move(log);
  role_ = role;
  rank_ = rank;
  directory_ = directory;
}

void Tracer::request_at_start(uint64_t steps) {
  const MutexLock lock(mutex_);
  skip_ = kWarmUpSteps;
  first_is_known_ = false;
  start({.number = 1, .first_step = 0, .steps = steps});
}

void Tracer::request(const TraceRequest& request) {
  const MutexLock lock(mutex_);
  if (request.number <= request_.number || request.steps == 0) return;
  first_is_known_ = true;
  start(request);
}

Result<> Tracer::request_next(uint64_t steps) {
  const MutexLock lock(mutex_);
  if (is_wanted()) return fail(Code::kUnavailable, "trace {} is not finished yet", request_.number);
  skip_ = 0;
  first_is_known_ = false;
  start({.number = request_.number + 1, .first_step = 0, .steps = steps});
  return {};
}

// A trace in progress that is not written yet gives way to the new one.
void Tracer::start(const TraceRequest& request) {
  timeline_.end();
  request_ = request;
  is_wanted_ = true;
  if (records_messages_) timeline_.begin();
}

void Tracer::record_messages() {
  const MutexLock lock(mutex_);
  records_messages_ = true;
  if (is_wanted()) timeline_.begin();
}

uint64_t Tracer::number() const {
  const MutexLock lock(mutex_);
  return request_.number;
}

void Tracer::begin_wanted_step(uint64_t step) {
  const MutexLock lock(mutex_);
  if (!is_wanted() || timeline_.is_on()) return;
  if (!first_is_known_) {
    request_.first_step = step + skip_;
    first_is_known_ = true;
  }
  if (step < request_.first_step) return;
  if (step < request_.first_step + request_.steps) return timeline_.begin();
  log_.warn("trace {} is of {}, but this process had begun step {} when it heard of it: it writes none",
            request_.number, steps_text(request_), step);
  is_wanted_ = false;
  written_ = request_.number;
}

void Tracer::end_after(uint64_t step) {
  const MutexLock lock(mutex_);
  if (records_messages_ || !timeline_.is_on() || step < request_.first_step + request_.steps) return;
  write();
}

bool Tracer::covers(uint64_t step) {
  const MutexLock lock(mutex_);
  if (!first_is_known_) {
    request_.first_step = step + skip_;
    first_is_known_ = true;
  }
  return request_.first_step <= step && step < request_.first_step + request_.steps;
}

void Tracer::close(uint64_t number) {
  const MutexLock lock(mutex_);
  if (records_messages_ && timeline_.is_on() && number >= request_.number) write();
}

void Tracer::finish() {
  const MutexLock lock(mutex_);
  if (timeline_.is_on()) return write();
  if (!is_wanted()) return;
  is_wanted_ = false;
  if (!first_is_known_) return log_.warn("no step was made, so no trace was written");
  log_.warn("no trace was written: it is of {}, and this process ended before them", steps_text(request_));
}

void Tracer::write() {
  timeline_.end();
  is_wanted_ = false;
  written_ = request_.number;
  if (directory_.empty()) return;
  const std::string path = directory_ + "/" + trace_file_name(role_, rank_);
  const TraceOrigin origin{.role = role_, .rank = rank_, .request = request_, .clock = clock_.estimate()};
  const Result<> written = write_trace(path, origin, timeline_.lanes(), timeline_.dropped());
  if (!written) return log_.warn("the trace cannot be written: {}", written.error().line());
  log_.info("trace {}, of {}: {}", request_.number, steps_text(request_), path);
  if (timeline_.dropped() > 0) {
    log_.warn("the trace lacks {} events: a process keeps {} at most; trace fewer steps", timeline_.dropped(),
              Timeline::kEventsMax);
  }
}

}  // namespace dtrain::telemetry
