#include "rpc/job_tracing.h"

#include <algorithm>
#include <cmath>

namespace dtrain::rpc {

namespace {

// Time allowed for the request to reach all workers on a slow network or a busy host.
constexpr double kDeliveryS = 1.5;
constexpr uint64_t kSpareSteps = 2;
// The greatest age of the step count in a heartbeat: workers report it twice a second.
constexpr double kReportS = 1;
constexpr double kIdleSteps = 5;

double seconds(JobTracing::Clock::duration duration) {
  return std::chrono::duration<double>(duration).count();
}

}  // namespace

JobTracing::JobTracing(uint32_t workers, telemetry::Tracer* tracer, Log log)
    : workers_max_(workers), tracer_(tracer), log_(std::move(log)) {
  if (tracer_ != nullptr) trace_.number = tracer_->number();
}

void JobTracing::begin(Clock::time_point now) {
  if (tracer_ == nullptr) return;
  const auto began = std::chrono::duration_cast<std::chrono::microseconds>(now.time_since_epoch()).count();
  tracer_->clock().add(began, 0, began);
  tracer_->record_messages();
}

void JobTracing::hear(const Member& worker, uint64_t step, uint64_t traced, Clock::time_point now) {
  const auto [at, is_new] = workers_.try_emplace(worker.rank);
  Worker& known = at->second;
  // Two heartbeats between which no step was completed say nothing about the speed.
  if (is_new || step > known.step) {
    if (!is_new && now > known.when)
      known.steps_per_s = static_cast<double>(step - known.step) / seconds(now - known.when);
    known.step = step;
    known.when = now;
  }
  known.heard = now;
  known.traced = std::max(known.traced, traced);
  trace_.number = std::max(trace_.number, traced);  // the scheduler before this one may have begun traces
  if (workers_.size() < workers_max_) return;
  const auto by_traced = [](const auto& w) { return w.second.traced; };
  end_trace(std::ranges::min_element(workers_, {}, by_traced)->second.traced);
}

// Ends a trace: from now on, the servers and this process write their timelines of it.
void JobTracing::end_trace(uint64_t number) {
  traced_ = std::max(traced_, number);
}

Result<telemetry::TraceRequest> JobTracing::request(uint64_t steps, Clock::time_point now) {
  if (workers_.empty()) return fail(Code::kUnavailable, "no worker is training yet");
  if (traced_ < trace_.number) {
    if (trace_.steps == 0) return fail(Code::kUnavailable, "the trace of --trace is not finished yet");
    return fail(Code::kUnavailable, "trace {} of {} is not finished yet", trace_.number, steps_text(trace_));
  }
  if (asked_ && now - *asked_ < kPause) {
    return fail(Code::kUnavailable, "the last trace was requested less than {} s ago", kPause.count());
  }
  asked_ = now;
  trace_ = {.number = trace_.number + 1,
            .first_steps = first_steps(now),
            .steps = std::min(steps == 0 ? telemetry::Tracer::kUsualSteps : steps, kStepsMax)};
  log_.info("trace {} covers {}", trace_.number, steps_text(trace_));
  if (tracer_ != nullptr) tracer_->request(trace_);
  return trace_;
}

// For each worker, the first step to trace: one that no worker of its group has begun. Shortened to one element if all
// workers have the same.
std::vector<uint64_t> JobTracing::first_steps(Clock::time_point now) const {
  std::map<uint32_t, uint64_t> of_group;
  for (const auto& [rank, worker] : workers_) {
    // A worker whose step count does not change is doing something else, such as validation.
    const double since = std::min(seconds(now - worker.when), seconds(now - worker.heard) + kReportS);
    const double steps = std::ceil((since + kDeliveryS) * worker.steps_per_s);
    const uint64_t first = worker.step + static_cast<uint64_t>(steps) + kSpareSteps;
    uint64_t& latest = of_group[group_of(rank)];
    latest = std::max(latest, first);
  }
  std::vector<uint64_t> first;
  const uint32_t ranks = std::max(workers_max_, workers_.rbegin()->first + 1);  // a worker may have joined later
  for (uint32_t rank = 0; rank < ranks; rank++) {
    const auto group = of_group.find(group_of(rank));
    first.push_back(group == of_group.end() ? kSpareSteps : group->second);
  }
  if (std::ranges::adjacent_find(first, std::ranges::not_equal_to()) == first.end()) first.resize(1);
  return first;
}

bool JobTracing::is_idle(const Worker& worker, Clock::time_point now) const {
  // A trace of --trace begins with the job, so the worker may still be reading its data.
  if (worker.step == 0 && !asked_) return false;
  const Clock::time_point since = asked_ ? std::max(*asked_, worker.when) : worker.when;
  const double usual_steps = seconds(now - since) * worker.steps_per_s;
  return now - since >= kIdleMax && (worker.steps_per_s == 0 || usual_steps >= kIdleSteps);
}

void JobTracing::give_up_idle(Clock::time_point now) {
  if (traced_ >= trace_.number || workers_.empty()) return;
  std::string idle;
  for (const auto& [rank, worker] : workers_) {
    if (worker.traced >= trace_.number) continue;
    if (!is_idle(worker, now)) return;
    idle += fmt::format("{}{}", idle.empty() ? "" : ", ", rank);
  }
  if (idle.empty()) return;
  log_.warn("trace {} ends without these workers, because they make no steps: {}", trace_.number, idle);
  end_trace(trace_.number);
}

telemetry::Timeline* JobTracing::timeline() const {
  if (tracer_ == nullptr || !tracer_->timeline().is_on()) return nullptr;
  for (const auto& [rank, worker] : workers_) {
    if (telemetry::Timeline* timeline = tracer_->of_step(rank, worker.step)) return timeline;
  }
  return nullptr;
}

}  // namespace dtrain::rpc
