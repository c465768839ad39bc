#include "telemetry/tracer.h"

#include <fmt/core.h>

#include <algorithm>
#include <utility>

#include "telemetry/trace_file.h"

namespace dtrain::telemetry {

struct Tracer::Recorded {
  std::string path;  // empty: it is not to be written
  TraceOrigin origin;
  std::vector<TimelineRow> rows;
  uint64_t dropped = 0;
  Log log;
};

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
  std::string warning;
  {
    const MutexLock lock(mutex_);
    if (is_wanted()) warning = begin_or_give_up(step);
  }
  if (!warning.empty()) warn(warning);
}

// Returns a warning if this process will make none of the trace's steps.
std::string Tracer::begin_or_give_up(uint64_t step) {
  if (timeline_.is_on()) {
    begun_++;
    return "";
  }
  note_first(step);
  const std::optional<uint64_t> first = request_.first_of(rank_);
  if (first && step < *first) return "";
  if (first && step < *first + request_.steps) {
    begun_ = 1;
    timeline_.begin();
    return "";
  }
  give_up();
  if (!first) return fmt::format("trace {} is for other workers, so this process writes no trace", request_.number);
  return fmt::format("trace {} covers the steps {} to {}, but the next step is {}, so this process writes no trace",
                     request_.number, *first, *first + request_.steps - 1, step);
}

void Tracer::warn(const std::string& text) {
  const Log log = [this] {
    const MutexLock lock(mutex_);
    return log_;
  }();
  log.warn("{}", text);
}

void Tracer::give_up() {
  is_wanted_ = false;
  written_ = request_.number;
}

void Tracer::end_after(uint64_t step) {
  std::optional<Recorded> recorded;
  {
    const MutexLock lock(mutex_);
    if (!records_messages_ && timeline_.is_on() && is_after(step)) recorded = take();
  }
  if (recorded) write(*recorded);
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
  std::optional<Recorded> recorded;
  std::string warning;
  {
    const MutexLock lock(mutex_);
    if (number < request_.number || !is_wanted()) return;
    if (timeline_.is_on()) {
      recorded = take();
    } else {
      give_up();
      warning = fmt::format("trace {} has ended, and this process has made none of its steps, so it writes no trace",
                            request_.number);
    }
  }
  if (!warning.empty()) warn(warning);
  if (recorded) write(*recorded);
}

void Tracer::finish() {
  std::optional<Recorded> recorded;
  std::string warning;
  {
    const MutexLock lock(mutex_);
    if (timeline_.is_on()) {
      recorded = take();
    } else if (is_wanted()) {
      is_wanted_ = false;
      warning = !first_is_known_
                    ? "no step was made, so no trace was written"
                    : fmt::format("no trace was written, because this process ended before {}", steps_text(request_));
    }
  }
  if (!warning.empty()) warn(warning);
  if (recorded) write(*recorded);
}

// Ends the recording of the trace.
Tracer::Recorded Tracer::take() {
  timeline_.end();
  is_wanted_ = false;
  if (!records_messages_) request_.first_steps = {request_.first_of(rank_).value_or(0)};
  return {.path = directory_.empty() ? "" : directory_ + "/" + trace_file_name(role_, rank_),
          .origin = {.role = role_, .rank = rank_, .request = request_, .clock = clock_.estimate()},
          .rows = timeline_.rows(),
          .dropped = timeline_.dropped(),
          .log = log_};
}

void Tracer::write(const Recorded& recorded) {
  const TraceRequest& request = recorded.origin.request;
  const Result<> written =
      recorded.path.empty() ? Result<>() : write_trace(recorded.path, recorded.origin, recorded.rows, recorded.dropped);
  written_ = request.number;
  if (!written) return recorded.log.warn("the trace cannot be written: {}", written.error().line());
  if (recorded.path.empty()) return;
  recorded.log.info("trace {} of {}: {}", request.number, steps_text(request), recorded.path);
  if (recorded.dropped > 0) {
    recorded.log.warn("the trace lacks {} events, because a process stores at most {}; trace fewer steps",
                      recorded.dropped, Timeline::kEventsMax);
  }
}

}  // namespace dtrain::telemetry
