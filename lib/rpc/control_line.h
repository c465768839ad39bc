// The standing stream between one process and the scheduler: heartbeats out on a thread of their own, notices in.
#pragma once

#include <chrono>
#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <thread>

#include "base/error.h"
#include "base/log.h"
#include "base/waits.h"
#include "rpc/client_stream.h"
#include "rpc/control_client.h"
#include "rpc/step_gate.h"
#include "scheduler.grpc.pb.h"

namespace dtrain::rpc {

// Any thread may call it.
class ControlLine {
 public:
  // What it is given must outlive it. `on_failure`: as ControlClient's.
  ControlLine(const ControlOptions& options, proto::Scheduler::Stub& stub, StepGate& gate, Waits& waits, Log log,
              std::function<void(const Error&)> on_failure);
  ~ControlLine();

  void start(Incarnation scheduler);
  // No heartbeat and no callback comes any more.
  void end();

  void request_stop();
  void report(const job::WorkerProgress& progress);
  void report_queue(uint64_t bytes);
  Result<> wait_finish();
  [[nodiscard]] std::optional<Error> error() const;

 private:
  using Clock = std::chrono::steady_clock;
  using Stream = ClientStream<proto::Up, proto::Down>;
  class Events;

  void run();
  Result<> beat_until_end();
  void open_stream();
  void beat();
  void send_stop();
  void look_for_silence();
  void report_failure();
  [[nodiscard]] Clock::time_point wake_time(Clock::time_point next_beat) const;
  [[nodiscard]] std::shared_ptr<Stream> stream() const;
  void nudge();

  // From gRPC's threads, about the stream with this number.
  void on_down(uint64_t id, const proto::Down& down);
  void on_end(uint64_t id, const grpc::Status& status);
  void answer_hold();
  void print_waits() const;
  void fail(Error error);
  void fail_locked(Error error);

  const ControlOptions& options_;
  proto::Scheduler::Stub& stub_;
  StepGate& gate_;
  Waits& waits_;
  Log log_;
  std::function<void(const Error&)> on_failure_;
  std::thread thread_;
  Tracker tracker_;  // of streams

  mutable std::mutex mutex_;  // what follows
  std::condition_variable changed_;
  bool nudged_ = false;  // the thread has something to do
  Incarnation scheduler_ = 0;
  std::shared_ptr<Stream> stream_;  // null: none stands
  uint64_t stream_id_ = 0;          // of the newest
  bool answered_ = false;           // the scheduler has spoken on the newest
  Clock::time_point last_try_;
  Clock::time_point heard_;
  std::optional<Clock::time_point> lost_since_;
  job::WorkerProgress progress_;
  uint64_t queue_bytes_ = 0;
  bool stop_requested_ = false;
  bool stop_sent_ = false;
  bool finished_ = false;
  bool preempted_ = false;
  std::optional<Error> error_;
  bool reported_ = false;
  bool ending_ = false;
};

}  // namespace dtrain::rpc
