// Decides when a process records its timeline, and writes the file: for --trace, SIGUSR2, and the scheduler's request.
//
// A trace covers some steps of each worker. It includes steps whose update was left out; they count, although the next
// step of a job with one worker has the same number again. Workers that wait for each other trace the same steps. A
// worker records from the beginning of the first step until the weights of the last one have arrived, which is in the
// forward pass after it. A server records what belongs to these steps until the scheduler ends the trace, because all
// workers have written theirs or because it no longer waits for some. The scheduler numbers the traces of a job from 1.
#pragma once

#include <atomic>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/log.h"
#include "base/mutex.h"
#include "telemetry/clock_offset.h"
#include "telemetry/timeline.h"

namespace dtrain::telemetry {

struct TraceRequest {
  uint64_t number = 0;                // number of the trace; 0: no trace
  std::vector<uint64_t> first_steps;  // indexed by worker: its first traced step, numbered as in its gradients; a
                                      // single element applies to all workers
  uint64_t steps = 0;

  // nullopt: the trace has no steps of this worker.
  [[nodiscard]] std::optional<uint64_t> first_of(uint32_t worker) const {
    if (first_steps.size() == 1) return first_steps.front();
    return worker < first_steps.size() ? std::optional(first_steps[worker]) : std::nullopt;
  }
};

// "the steps 20 to 29"; "10 steps of each worker, the first of them numbered 7 to 24" if the workers' steps differ.
std::string steps_text(const TraceRequest& request);

// Any thread may call it, but only one thread executes steps.
class Tracer {
 public:
  // The number of steps before those that --trace records: during these, memory is touched, connections grow, caches
  // fill.
  static constexpr uint64_t kWarmUpSteps = 5;
  // The length of a trace that was requested without a number of steps.
  static constexpr uint64_t kUsualSteps = 10;

  explicit Tracer(Log log) : log_(std::move(log)) {}

  Timeline& timeline() { return timeline_; }
  ClockOffset& clock() { return clock_; }

  // Sets the identity of this process ("worker", 3), and the directory of its file. Until then nothing is written.
  void set_place(const std::string& role, uint32_t rank, const std::string& directory, Log log) DT_EXCLUDES(mutex_);

  // For --trace: requests `steps` steps after the first kWarmUpSteps, whatever the number of the first step is. Trace
  // number 1.
  void request_at_start(uint64_t steps) DT_EXCLUDES(mutex_);
  // Requests a trace. Ignored unless its number is new. Steps that have already begun are not recorded.
  void request(const TraceRequest& request) DT_EXCLUDES(mutex_);
  // For a process that trains alone: requests the next steps. Code::kUnavailable while a trace is in progress.
  Result<> request_next(uint64_t steps) DT_EXCLUDES(mutex_);

  // Called by a worker's step loop: before a step, and when its forward pass has ended.
  void begin_step(uint64_t step) {
    if (is_wanted()) begin_wanted_step(step);
  }
  void forward_done(uint64_t step) {
    if (timeline_.is_on()) end_after(step);
  }
  // For a server or the scheduler: the timeline if messages of this worker's step are to be recorded, otherwise null.
  Timeline* of_step(uint32_t worker, uint64_t step) {
    return timeline_.is_on() && covers(worker, step) ? &timeline_ : nullptr;
  }
  // For a server or the scheduler: from now on, messages of the trace's steps are recorded.
  void record_messages() DT_EXCLUDES(mutex_);

  // True if a trace was requested and its file is not written yet.
  [[nodiscard]] bool is_wanted() const { return is_wanted_.load(std::memory_order_relaxed); }
  // The number of the last trace whose file was written or that was given up; 0: none.
  [[nodiscard]] uint64_t written() const { return written_.load(std::memory_order_relaxed); }
  [[nodiscard]] uint64_t number() const DT_EXCLUDES(mutex_);

  // Called when the trace with this number is over. Writes this process's part, if it has not done so yet.
  void close(uint64_t number) DT_EXCLUDES(mutex_);
  // Called when the process ends: writes the recorded part of a trace in progress, and logs if a requested trace was
  // not made.
  void finish() DT_EXCLUDES(mutex_);

 private:
  void begin_wanted_step(uint64_t step) DT_EXCLUDES(mutex_);
  void end_after(uint64_t step) DT_EXCLUDES(mutex_);
  bool covers(uint32_t worker, uint64_t step) DT_EXCLUDES(mutex_);
  void note_first(uint64_t step) DT_REQUIRES(mutex_);
  [[nodiscard]] bool is_after(uint64_t step) const DT_REQUIRES(mutex_);
  void give_up() DT_REQUIRES(mutex_);
  void start(const TraceRequest& request) DT_REQUIRES(mutex_);
  void write() DT_REQUIRES(mutex_);

  Timeline timeline_;
  ClockOffset clock_;
  std::atomic<bool> is_wanted_ = false;
  std::atomic<uint64_t> written_ = 0;

  mutable Mutex mutex_;
  Log log_ DT_GUARDED_BY(mutex_);
  TraceRequest request_ DT_GUARDED_BY(mutex_);
  bool first_is_known_ DT_GUARDED_BY(mutex_) = true;  // otherwise it is determined by the next step
  uint64_t skip_ DT_GUARDED_BY(mutex_) = 0;           // number of steps from that one to the first one of the trace
  uint64_t begun_ DT_GUARDED_BY(mutex_) = 0;  // a worker's steps since the timeline began, including the current one
  bool records_messages_ DT_GUARDED_BY(mutex_) = false;
  std::string role_ DT_GUARDED_BY(mutex_), directory_ DT_GUARDED_BY(mutex_);
  uint32_t rank_ DT_GUARDED_BY(mutex_) = 0;
};

}  // namespace dtrain::telemetry
