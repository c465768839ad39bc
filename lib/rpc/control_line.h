// The stream between one process and the scheduler, which stays open during the job. A thread of this object sends
// heartbeats on it; the scheduler sends notices.
#pragma once

#include <atomic>
#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/mutex.h"
#include "base/waits.h"
#include "rpc/control_client.h"
#include "rpc/own_report.h"
#include "rpc/step_gate.h"
#include "rpc/tracker.h"
#include "sync/view.h"

namespace grpc {
class Channel;
class Status;
}  // namespace grpc

namespace dtrain::proto {
class Alive;
class Down;
class Heartbeat;
}  // namespace dtrain::proto

namespace dtrain::rpc {

class ControlStream;

// Any thread may call it.
class ControlLine {
 public:
  // The arguments must outlive this object. `on_failure`: see ControlClient.
  ControlLine(const ControlOptions& options, std::shared_ptr<grpc::Channel> channel, StepGate& gate, Waits& waits,
              std::function<void(const Error&)> on_failure);
  ~ControlLine();

  void start(Incarnation scheduler);
  // Ends the line: when this returns, no heartbeat is sent and no callback is called anymore.
  void end();

  void request_stop();
  void request_leave() DT_EXCLUDES(mutex_);
  void request_border() DT_EXCLUDES(mutex_);
  // The workers have met at a border, so the request is answered.
  void pass_border() DT_EXCLUDES(mutex_);
  void request_trace(uint64_t steps) DT_EXCLUDES(mutex_);
  // Sets what the next heartbeats report.
  void report(const job::WorkerProgress& progress);
  void report_lost_links(std::vector<LostLink> links) DT_EXCLUDES(mutex_);
  Result<std::optional<sync::View>> wait_view() DT_EXCLUDES(mutex_);
  void acknowledge_view(uint64_t number) DT_EXCLUDES(mutex_);
  void report_snapshots(SnapshotReport report) DT_EXCLUDES(mutex_);
  // Waits until the view with this number, or a newer one, is here and the callback of watch_views() has it.
  Result<> wait_for_view(uint64_t number) DT_EXCLUDES(mutex_);
  void watch_views(std::function<void(const sync::View&)> callback) DT_EXCLUDES(mutex_, view_mutex_);
  // Returns a heartbeat with the current state of the process, for its goodbye.
  [[nodiscard]] proto::Heartbeat last_heartbeat() const DT_EXCLUDES(mutex_);
  void fail(Error error) DT_EXCLUDES(mutex_);
  // The highest term of a scheduler that has answered (proto/scheduler.proto).
  [[nodiscard]] uint64_t term() const { return term_; }
  // A scheduler of this term has answered. Returns whether the answer counts: no scheduler of a later term has.
  bool accept(uint64_t term);
  // Whether the scheduler has announced that the job has failed or is done, and will soon end.
  [[nodiscard]] bool is_job_over() const DT_EXCLUDES(mutex_);
  [[nodiscard]] std::optional<Error> error() const DT_EXCLUDES(mutex_);

 private:
  using Clock = std::chrono::steady_clock;
  class Events;
  // A request that is sent once on each stream.
  struct Request {
    bool is_made = false;
    bool is_sent = false;  // on the open stream
    bool take() { return is_made && !std::exchange(is_sent, true); }
  };

  void run();
  Result<> beat_until_end();
  void open_stream() DT_EXCLUDES(mutex_);
  void beat() DT_EXCLUDES(mutex_);
  void add_progress(proto::Heartbeat& to) const DT_EXCLUDES(mutex_);
  void send_requests() DT_EXCLUDES(mutex_);
  [[nodiscard]] std::chrono::milliseconds beat_interval() const;
  [[nodiscard]] bool must_beat_now() DT_EXCLUDES(mutex_);
  void look_for_silence() DT_EXCLUDES(mutex_);
  void report_failure() DT_EXCLUDES(mutex_);
  [[nodiscard]] Clock::time_point wake_time(Clock::time_point next_beat) const DT_REQUIRES(mutex_);
  [[nodiscard]] std::shared_ptr<ControlStream> stream() const DT_EXCLUDES(mutex_);
  void nudge() DT_REQUIRES(mutex_);

  // Called by the reading thread of the stream with this number.
  void on_down(uint64_t id, const proto::Down& down);
  void on_alive(const proto::Alive& alive) DT_EXCLUDES(mutex_);
  void on_view(const sync::View& view) DT_EXCLUDES(mutex_, view_mutex_);
  void on_end(uint64_t id, const grpc::Status& status);
  void answer_hold(uint64_t number);
  void fail_locked(Error error) DT_REQUIRES(mutex_);

  const ControlOptions& options_;
  std::shared_ptr<grpc::Channel> channel_;
  StepGate& gate_;
  Waits& waits_;
  OwnReport own_report_;
  std::function<void(const Error&)> on_failure_;
  Incarnation scheduler_ = 0;  // incarnation of the scheduler; set by start()
  std::atomic<uint64_t> term_ = 0;
  std::optional<Waits::Wait> absence_;  // used by the heartbeat thread; set while the scheduler is not heard
  std::thread thread_;
  Tracker tracker_;  // counts the streams that have not ended

  mutable Mutex mutex_;
  ConditionVariable changed_;
  bool nudged_ DT_GUARDED_BY(mutex_) = false;  // whether the heartbeat thread has something to do
  // The open stream to the scheduler; null if there is none.
  std::shared_ptr<ControlStream> stream_ DT_GUARDED_BY(mutex_);
  uint64_t stream_id_ DT_GUARDED_BY(mutex_) = 0;  // number of the newest stream
  bool answered_ DT_GUARDED_BY(mutex_) = false;   // whether the scheduler has sent a message on the newest stream
  Clock::time_point last_try_ DT_GUARDED_BY(mutex_);
  Clock::time_point heard_ DT_GUARDED_BY(mutex_);
  std::optional<Clock::time_point> lost_since_ DT_GUARDED_BY(mutex_);
  job::WorkerProgress progress_ DT_GUARDED_BY(mutex_);
  std::vector<LostLink> lost_links_ DT_GUARDED_BY(mutex_);
  uint64_t viewed_ DT_GUARDED_BY(mutex_) = 0;  // number of the newest view that this process has carried out
  std::optional<SnapshotReport> snapshots_ DT_GUARDED_BY(mutex_);  // as reported last
  // Whether no heartbeat has carried lost_links_, viewed_ or snapshots_ yet.
  bool has_news_ DT_GUARDED_BY(mutex_) = false;
  Request stop_ DT_GUARDED_BY(mutex_), leave_ DT_GUARDED_BY(mutex_), border_ DT_GUARDED_BY(mutex_);
  bool finished_ DT_GUARDED_BY(mutex_) = false;
  uint64_t trace_ DT_GUARDED_BY(mutex_) = 0;  // number of the newest trace
  bool preempted_ DT_GUARDED_BY(mutex_) = false;
  sync::View view_ DT_GUARDED_BY(mutex_);           // the newest
  uint64_t passed_view_ DT_GUARDED_BY(mutex_) = 0;  // number of the newest that the callback has got
  Mutex view_mutex_;                                // held during a call of the callback
  std::function<void(const sync::View&)> view_callback_ DT_GUARDED_BY(view_mutex_);
  uint64_t waited_view_ DT_GUARDED_BY(mutex_) = 0;  // number of the view that wait_view() has returned last
  std::optional<Error> error_ DT_GUARDED_BY(mutex_);
  bool is_job_over_ DT_GUARDED_BY(mutex_) = false;
  bool reported_ DT_GUARDED_BY(mutex_) = false;
  bool ending_ DT_GUARDED_BY(mutex_) = false;
};

}  // namespace dtrain::rpc
