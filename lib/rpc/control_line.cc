#include "rpc/control_line.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "base/thread.h"
#include "rpc/channel.h"
#include "rpc/control_stream.h"
#include "rpc/scheduler_messages.h"
#include "rpc/status.h"

namespace dtrain::rpc {
namespace {

constexpr std::chrono::milliseconds kRetry{100};
// A heartbeat waits no longer than this for the report that it is to carry.
constexpr std::chrono::milliseconds kReportMax{100};
// The heartbeat interval during a trace: each round trip may improve the estimate of the scheduler's clock.
constexpr std::chrono::milliseconds kTraceInterval{100};

int64_t now_us() {
  return std::chrono::duration_cast<std::chrono::microseconds>(std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

void set_quality(const job::Quality& quality, proto::Quality& to) {
  to.set_loss(quality.loss);
  to.set_accuracy(quality.accuracy);
}

}  // namespace

// A stream may end after it has been replaced, so each stream has a number.
class ControlLine::Events final : public ControlStream::Events {
 public:
  Events(ControlLine& line, uint64_t id) : line_(line), id_(id) {}
  void on_message(const proto::Down& down) override { line_.on_down(id_, down); }
  void on_end(const grpc::Status& status) override { line_.on_end(id_, status); }

 private:
  ControlLine& line_;
  uint64_t id_;
};

ControlLine::ControlLine(const ControlOptions& options, std::shared_ptr<grpc::Channel> channel, StepGate& gate,
                         Waits& waits, std::function<void(const Error&)> on_failure)
    : options_(options),
      channel_(std::move(channel)),
      gate_(gate),
      waits_(waits),
      own_report_(options.registry, options.tracer, waits),
      on_failure_(std::move(on_failure)) {}

ControlLine::~ControlLine() {
  end();
}

void ControlLine::start(Incarnation scheduler) {
  scheduler_ = scheduler;
  {
    const MutexLock lock(mutex_);
    heard_ = Clock::now();
  }
  own_report_.start([this](Error error) { fail(std::move(error)); });
  thread_ = std::thread([this] { run(); });
}

void ControlLine::end() {
  std::shared_ptr<ControlStream> last;
  {
    const MutexLock lock(mutex_);
    ending_ = true;
    last = std::exchange(stream_, nullptr);
    nudge();
  }
  if (last) last->cancel();
  last.reset();
  if (thread_.joinable()) thread_.join();
  own_report_.end();
  // A stream that has not ended within the limit no longer uses this object.
  const Waits::Wait wait(waits_, [] { return std::string("the control streams to end"); });
  (void)tracker_.wait_idle();
}

void ControlLine::request_stop() {
  const MutexLock lock(mutex_);
  stop_.is_made = true;
  nudge();
}

void ControlLine::request_leave() {
  const MutexLock lock(mutex_);
  leave_.is_made = true;
  nudge();
}

void ControlLine::request_border() {
  const MutexLock lock(mutex_);
  border_.is_made = true;
  nudge();
}

void ControlLine::pass_border() {
  const MutexLock lock(mutex_);
  border_ = {};
}

void ControlLine::request_trace(uint64_t steps) {
  proto::Up up;
  up.mutable_trace_now()->set_steps(steps);
  if (const auto out = stream()) out->send(std::move(up));
}

void ControlLine::report(const job::WorkerProgress& progress) {
  const MutexLock lock(mutex_);
  progress_ = progress;
}

void ControlLine::report_lost_links(std::vector<LostLink> links) {
  const MutexLock lock(mutex_);
  lost_links_ = std::move(links);
  has_news_ = true;
  nudge();
}

void ControlLine::acknowledge_view(uint64_t number) {
  const MutexLock lock(mutex_);
  viewed_ = std::max(viewed_, number);
  has_news_ = true;
  nudge();
}

void ControlLine::report_snapshots(SnapshotReport report) {
  const MutexLock lock(mutex_);
  snapshots_ = std::move(report);
  has_news_ = true;
  nudge();
}

bool ControlLine::must_beat_now() {
  const MutexLock lock(mutex_);
  return stream_ != nullptr && std::exchange(has_news_, false);
}

Result<std::optional<sync::View>> ControlLine::wait_view() {
  const Waits::Wait wait(waits_, [] { return std::string("the workers to be done"); });
  const MutexLock lock(mutex_);
  // The wait has no deadline, because a job may run for any time. Heartbeats detect the end of the job and a lost
  // scheduler.
  const auto is_new = [this]() DT_REQUIRES(mutex_) { return view_.number > waited_view_; };
  changed_.wait(mutex_, [&]() DT_REQUIRES(mutex_) { return error_ || finished_ || ending_ || is_new(); });
  if (error_) return tl::unexpected(*error_);
  if (preempted_) return dtrain::fail(Code::kPreempted, "the job was asked to stop");
  if (finished_ || ending_) return std::nullopt;
  waited_view_ = view_.number;
  return view_;
}

Result<> ControlLine::wait_for_view(uint64_t number) {
  const Waits::Wait wait(waits_, [number] { return fmt::format("view {} of the job from the scheduler", number); });
  const MutexLock lock(mutex_);
  changed_.wait(mutex_, [&]() DT_REQUIRES(mutex_) { return error_ || ending_ || passed_view_ >= number; });
  if (error_) return tl::unexpected(*error_);
  return {};
}

bool ControlLine::is_job_over() const {
  const MutexLock lock(mutex_);
  return is_job_over_;
}

bool ControlLine::accept(uint64_t term) {
  uint64_t newest = term_;
  while (newest < term && !term_.compare_exchange_weak(newest, term)) {
  }
  return term >= newest;
}

std::optional<Error> ControlLine::error() const {
  const MutexLock lock(mutex_);
  return error_;
}

// ---- The functions that the heartbeat thread runs.

void ControlLine::run() {
  name_thread("heartbeat");
  if (auto outcome = catching([this] { return beat_until_end(); }, "heartbeats"); !outcome)
    fail(std::move(outcome.error()));
  report_failure();
}

Result<> ControlLine::beat_until_end() {
  std::optional<Clock::time_point> last_beat;
  while (true) {
    open_stream();
    if (!last_beat || must_beat_now() || Clock::now() >= *last_beat + beat_interval()) {
      beat();
      last_beat = Clock::now();
    }
    send_requests();
    look_for_silence();
    report_failure();
    const MutexLock lock(mutex_);
    changed_.wait_until(mutex_, wake_time(*last_beat + beat_interval()),
                        [this]() DT_REQUIRES(mutex_) { return nudged_; });
    nudged_ = false;
    if (ending_) return {};
  }
}

ControlLine::Clock::time_point ControlLine::wake_time(Clock::time_point next_beat) const {
  auto wake = next_beat;
  if (error_) return wake;
  if (!stream_) wake = std::min(wake, last_try_ + kRetry);
  if (lost_since_) wake = std::min<Clock::time_point>(wake, *lost_since_ + options_.scheduler_grace);
  return wake;
}

void ControlLine::nudge() {
  nudged_ = true;
  changed_.notify_all();
}

std::shared_ptr<ControlStream> ControlLine::stream() const {
  const MutexLock lock(mutex_);
  return stream_;
}

// Opens a stream if there is none and the last attempt is at least kRetry ago.
void ControlLine::open_stream() {
  auto context = std::make_unique<grpc::ClientContext>();
  sign(*context, options_.security);
  proto::Up hello;
  hello.mutable_hello()->set_incarnation(options_.incarnation);
  hello.mutable_hello()->set_scheduler(scheduler_);
  hello.mutable_hello()->set_term(term_);
  std::shared_ptr<ControlStream> opened;
  {
    const MutexLock lock(mutex_);
    if (stream_ || ending_ || error_ || Clock::now() < last_try_ + kRetry) return;
    last_try_ = Clock::now();
    answered_ = false;
    stop_.is_sent = leave_.is_sent = border_.is_sent = false;
    opened = ControlStream::make(tracker_, channel_, std::move(context), std::make_unique<Events>(*this, ++stream_id_));
    stream_ = opened;
  }
  opened->start();
  opened->send(std::move(hello));
}

proto::Heartbeat ControlLine::last_heartbeat() const {
  proto::Heartbeat beat = own_report_.prepare();
  add_progress(beat);
  return beat;
}

void ControlLine::add_progress(proto::Heartbeat& to) const {
  const MutexLock lock(mutex_);
  to.set_step(progress_.step);
  to.set_samples_per_s(progress_.samples_per_s);
  to.set_wait_data_share(progress_.wait_data_share);
  to.set_wait_network_share(progress_.wait_network_share);
  to.set_checkpoint_s(progress_.checkpoint_s);
  to.set_data_stage(static_cast<uint32_t>(progress_.data_stage));
  if (progress_.validated) to.set_validated(*progress_.validated);
  if (progress_.training) set_quality(*progress_.training, *to.mutable_training());
  if (progress_.validation) set_quality(*progress_.validation, *to.mutable_validation());
  const auto now = Clock::now();
  for (const LostLink& link : lost_links_) {
    proto::LostLink& one = *to.add_lost_links();
    one.set_server(link.server);
    one.set_lost_ms(
        static_cast<uint64_t>(std::chrono::duration_cast<std::chrono::milliseconds>(now - link.since).count()));
    one.set_why(link.why);
  }
  to.set_viewed(viewed_);
  if (snapshots_) {
    proto::SnapshotVersions& of = *to.mutable_snapshots();
    of.mutable_versions()->Assign(snapshots_->versions.begin(), snapshots_->versions.end());
    of.set_needs_none(snapshots_->needs_none);
  }
  to.set_sent_us(now_us());  // the clock is read under the lock, so that a report with a later time is always newer
}

// A beat without a new report is still a beat.
void ControlLine::beat() {
  proto::Up up;
  *up.mutable_heartbeat() = own_report_.renew(std::min(kReportMax, beat_interval() / 4));
  add_progress(*up.mutable_heartbeat());
  if (const std::shared_ptr<ControlStream> out = stream()) out->send(std::move(up));
}

std::chrono::milliseconds ControlLine::beat_interval() const {
  const bool traces = options_.tracer != nullptr && options_.tracer->is_wanted();
  return traces ? std::min(options_.heartbeat_interval, kTraceInterval) : options_.heartbeat_interval;
}

// Sends the requests to stop, to leave and to meet once on each stream; the scheduler recognizes repetitions.
void ControlLine::send_requests() {
  std::shared_ptr<ControlStream> out;
  bool stops = false, leaves = false, meets = false;
  {
    const MutexLock lock(mutex_);
    if (!stream_) return;
    out = stream_;
    stops = stop_.take();
    leaves = leave_.take();
    meets = border_.take();
  }
  proto::Up up;
  if (stops) up.mutable_stop();
  if (stops) out->send(up);
  if (leaves) up.mutable_drain();
  if (leaves) out->send(up);
  if (meets) up.mutable_border();
  if (meets) out->send(std::move(up));
}

void ControlLine::look_for_silence() {
  std::shared_ptr<ControlStream> silent;
  bool is_absent = false;
  {
    const MutexLock lock(mutex_);
    if (error_ || ending_) return;
    const auto now = Clock::now();
    // A stream that seems open but is silent is given up. The time limit starts again for the next stream.
    if (stream_ && now - heard_ > options_.heartbeat_timeout) {
      silent = std::exchange(stream_, nullptr);
      heard_ = now;
      if (!lost_since_) lost_since_ = now;
    }
    is_absent = lost_since_.has_value();
    if (lost_since_ && now - *lost_since_ >= options_.scheduler_grace) {
      fail_locked(
          {Code::kSchedulerLost,
           fmt::format("the scheduler at {} was lost: no message from it, and no connection to it, for {:.1f} s",
                       to_text(options_.scheduler), std::chrono::duration<double>(now - *lost_since_).count()),
           {}});
    }
  }
  if (silent) silent->cancel();
  if (!is_absent) absence_.reset();
  if (is_absent && !absence_) {
    absence_.emplace(
        waits_, [this] { return fmt::format("the scheduler at {} to be heard again", to_text(options_.scheduler)); });
  }
}

void ControlLine::report_failure() {
  std::optional<Error> error;
  {
    const MutexLock lock(mutex_);
    if (!error_ || reported_) return;
    reported_ = true;
    error = error_;
  }
  on_failure_(*error);
}

// ---- The functions that the threads of the streams call.

void ControlLine::on_down(uint64_t id, const proto::Down& down) {
  if (down.has_alive() && !accept(down.alive().term())) return;
  {
    const MutexLock lock(mutex_);
    if (id != stream_id_) return;
    heard_ = Clock::now();
    lost_since_.reset();
    if (!answered_) nudge();
    answered_ = true;
  }
  if (down.has_alive()) return on_alive(down.alive());
  if (down.has_view()) return on_view(to_view(down.view()));
  if (down.has_hold()) return answer_hold(down.hold().number());
  if (down.has_leave()) return gate_.leave(down.leave().at_border());
  if (down.has_stop_after()) {
    const proto::StopAfter& stop = down.stop_after();
    return gate_.stop_after({.number = stop.number(), .steps = stop.steps(), .meets = stop.meets()});
  }
  if (!down.has_stop_job() && !down.has_finish()) return;
  const MutexLock lock(mutex_);
  is_job_over_ = true;
  if (down.has_stop_job()) return fail_locked(from_failure(down.stop_job()));
  finished_ = true;
  preempted_ = down.finish().preempted();
  changed_.notify_all();
}

void ControlLine::on_alive(const proto::Alive& alive) {
  if (options_.tracer == nullptr) return;
  telemetry::Tracer& tracer = *options_.tracer;
  if (alive.sent_us() > 0) tracer.clock().add(alive.sent_us(), alive.clock_us(), now_us());
  if (alive.has_trace()) {
    const proto::Trace& trace = alive.trace();
    tracer.request({.number = trace.number(),
                    .first_steps = {trace.first_steps().begin(), trace.first_steps().end()},
                    .steps = trace.steps()});
  }
  own_report_.close_trace(alive.traced());
  const MutexLock lock(mutex_);
  if (alive.trace().number() <= trace_) return;
  trace_ = alive.trace().number();
  nudge();  // because heartbeats are more frequent during a trace
}

void ControlLine::on_end(uint64_t id, const grpc::Status& status) {
  const MutexLock lock(mutex_);
  if (id == stream_id_ && !ending_) {
    stream_.reset();
    if (!lost_since_) lost_since_ = Clock::now();
    is_job_over_ = is_job_over_ || rpc::is_job_over(status);
    if (!status.ok() && !is_worth_retrying(status)) fail_locked(from_status(status));
    nudge();
  }
}

// A worker that has lost its seat, because it was silent for too long or was cut off, ends everything that it does.
void ControlLine::on_view(const sync::View& view) {
  {
    const MutexLock lock(mutex_);
    if (view.number <= view_.number) return;
    view_ = view;
    changed_.notify_all();
    if (options_.seat != nullptr && options_.seat->loses_by(view)) {
      fail_locked({Code::kPeerLost,
                   "this worker counts as lost, and the job continues without it; the scheduler's log says why",
                   {}});
    }
  }
  {
    const MutexLock lock(view_mutex_);
    if (view_callback_) view_callback_(view);
  }
  const MutexLock lock(mutex_);
  passed_view_ = std::max(passed_view_, view.number);
  changed_.notify_all();
}

void ControlLine::watch_views(std::function<void(const sync::View&)> callback) {
  const MutexLock lock(view_mutex_);
  view_callback_ = std::move(callback);
  if (!view_callback_) return;
  sync::View newest;
  {
    const MutexLock line_lock(mutex_);
    newest = view_;
  }
  if (newest.number > 0) view_callback_(newest);
}

// Answers a Hold at once, because the training thread may be in a step that waits for other workers.
void ControlLine::answer_hold(uint64_t number) {
  proto::Up up;
  up.mutable_held()->set_begun(gate_.hold(number));
  up.mutable_held()->set_number(number);
  if (const auto out = stream()) out->send(std::move(up));
}

void ControlLine::fail(Error error) {
  const MutexLock lock(mutex_);
  fail_locked(std::move(error));
}

void ControlLine::fail_locked(Error error) {
  if (error_ || ending_) return;
  error_ = std::move(error);
  nudge();
}

}  // namespace dtrain::rpc
