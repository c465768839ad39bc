#include "telemetry/tracer.h"

#include <fmt/core.h>

#include <algorithm>
#include <utility>

#include "telemetry/trace_file.h"

namespace dtrain::telemetry {

std::string steps_text(const TraceRequest& request) {
  const auto [least, most] = std::ranges::minmax_element(request.first_steps);
  if (least == request.first_steps.end()) return fmt::format("{} steps", request.steps);
  if (*least == *most) return fmt::format("the steps {} to {}", *least, *least + request.steps - 1);
  return fmt::format("{} steps of each worker, starting at steps {} to {}", request.steps, *least, *most);
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
  start({.number = 1, .first_steps = {}, .steps = steps});
}

void Tracer::request(const TraceRequest& request) {
  const MutexLock lock(mutex_);
  if (request.number <= request_.number || request.steps == 0 || request.first_steps.empty()) return;
  first_is_known_ = true;
  start(request);
}

Result<> Tracer::request_next(uint64_t steps) {
  const MutexLock lock(mutex_);
  if (is_wanted()) return fail(Code::kUnavailable, "trace {} is not finished yet", request_.number);
  skip_ = 0;
  first_is_known_ = false;
  start({.number = request_.number + 1, .first_steps = {}, .steps = steps});
  return {};
}

// Begins a trace. If another trace is in progress and not written yet, it is discarded.
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

void Tracer::note_first(uint64_t step) {
  if (first_is_known_) return;
  request_.first_steps = {step + skip_};
  first_is_known_ = true;
}

void Tracer::begin_wanted_step(uint64_t step) {
  const MutexLock lock(mutex_);
  if (!is_wanted()) return;
  if (timeline_.is_on()) {
    begun_++;
    return;
  }
  note_first(step);
  const std::optional<uint64_t> first = request_.first_of(rank_);
  if (first && step < *first) return;
  if (first && step < *first + request_.steps) {
    begun_ = 1;
    return timeline_.begin();
  }
  give_up();
  if (!first) return log_.warn("trace {} is for other workers, so this process writes no trace", request_.number);
  log_.warn("trace {} covers the steps {} to {}, but the next step is {}, so this process writes no trace",
            request_.number, *first, *first + request_.steps - 1, step);
}

void Tracer::give_up() {
  is_wanted_ = false;
  written_ = request_.number;
}

void Tracer::end_after(uint64_t step) {
  const MutexLock lock(mutex_);
  if (!records_messages_ && timeline_.is_on() && is_after(step)) write();
}

// Whether the trace ends before `step`. Step numbers may be skipped or repeated; see the top of tracer.h.
bool Tracer::is_after(uint64_t step) const {
  return begun_ > request_.steps || step >= request_.first_of(rank_).value_or(0) + request_.steps;
}

bool Tracer::covers(uint32_t worker, uint64_t step) {
  const MutexLock lock(mutex_);
  note_first(step);
  const std::optional<uint64_t> first = request_.first_of(worker);
  return first && *first <= step && step < *first + request_.steps;
}

void Tracer::close(uint64_t number) {
  const MutexLock lock(mutex_);
  if (number < request_.number || !is_wanted()) return;
  if (timeline_.is_on()) return write();
  give_up();
  log_.warn("trace {} has ended, and this process has made none of its steps, so it writes no trace", request_.number);
}

void Tracer::finish() {
  const MutexLock lock(mutex_);
  if (timeline_.is_on()) return write();
  if (!is_wanted()) return;
  is_wanted_ = false;
  if (!first_is_known_) return log_.warn("no step was made, so no trace was written");
  log_.warn("no trace was written, because this process ended before {}", steps_text(request_));
}

void Tracer::write() {
  timeline_.end();
  is_wanted_ = false;
  written_ = request_.number;
  if (directory_.empty()) return;
  const std::string path = directory_ + "/" + trace_file_name(role_, rank_);
  if (!records_messages_) request_.first_steps = {request_.first_of(rank_).value_or(0)};
  const TraceOrigin origin{.role = role_, .rank = rank_, .request = request_, .clock = clock_.estimate()};
  const Result<> written = write_trace(path, origin, timeline_.rows(), timeline_.dropped());
  if (!written) return log_.warn("the trace cannot be written: {}", written.error().line());
  log_.info("trace {} of {}: {}", request_.number, steps_text(request_), path);
  if (timeline_.dropped() > 0) {
    log_.warn("the trace lacks {} events, because a process stores at most {}; trace fewer steps", timeline_.dropped(),
              Timeline::kEventsMax);
  }
}

}  // namespace dtrain::telemetry
