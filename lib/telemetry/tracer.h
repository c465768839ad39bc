// Decides when a process records its timeline (for --trace, for SIGUSR2, and at the scheduler's request), and writes
// the file.
//
// A trace covers some steps of each worker. Steps that were left out, because a value was not finite, are included in
// this number, although in a job with one worker the next step then has the same number again. Workers that wait for
// each other trace the same steps. A worker records from the beginning of the first step until the weights of the last
// step have arrived, which is in the forward pass after it. A server records what belongs to these steps until the
// scheduler ends the trace, either because all workers have written their files or because it no longer waits for some
// of them. The scheduler numbers the traces of a job from 1.
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
  uint64_t number = 0;  // number of the trace; 0: no trace
  // Indexed by worker: the number of its first traced step, in the numbering of gradients; a single element applies to
  // all workers.
  std::vector<uint64_t> first_steps;
  uint64_t steps = 0;

  // The first traced step of this worker; nullopt: the trace has no steps of it.
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
  // The number of steps before those that --trace records. In these steps, memory is touched for the first time,
  // connections grow, and caches fill.
  static constexpr uint64_t kWarmUpSteps = 5;
  // The number of steps of a trace that was requested without a number.
  static constexpr uint64_t kUsualSteps = 10;

  explicit Tracer(Log log) : log_(std::move(log)) {}

  Timeline& timeline() { return timeline_; }
  ClockOffset& clock() { return clock_; }

  // Sets the identity of this process ("worker", 3), and the directory of its file. Until then nothing is written.
  void set_place(const std::string& role, uint32_t rank, const std::string& directory, Log log) DT_EXCLUDES(mutex_);

  // For --trace: requests a trace of `steps` steps after the first kWarmUpSteps steps, whatever the number of the first
  // step is. It is trace number 1.
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
  // For a server or the scheduler: the timeline if messages for this step of the worker are to be recorded, otherwise
  // null.
  Timeline* of_step(uint32_t worker, uint64_t step) {
    return timeline_.is_on() && covers(worker, step) ? &timeline_ : nullptr;
  }
  // For a server or the scheduler: from now on, messages for the trace's steps are recorded.
  void record_messages() DT_EXCLUDES(mutex_);

  // True if a trace was requested and its file has not been written yet.
  [[nodiscard]] bool is_wanted() const { return is_wanted_.load(std::memory_order_relaxed); }
  // The number of the last trace whose file was written or that was given up; 0: none.
  [[nodiscard]] uint64_t written() const { return written_.load(std::memory_order_relaxed); }
  [[nodiscard]] uint64_t number() const DT_EXCLUDES(mutex_);

  // Called when the trace with this number is over. Writes this process's part, if it has not done so yet.
  void close(uint64_t number) DT_EXCLUDES(mutex_);
  // Called when the process ends. If a trace is in progress, writes the part that has been recorded. If a requested
  // trace was not made, logs that.
  void finish() DT_EXCLUDES(mutex_);

 private:
  void begin_wanted_step(uint64_t step) DT_EXCLUDES(mutex_);
  void end_after(uint64_t step) DT_EXCLUDES(mutex_);
  bool covers(uint32_t worker, uint64_t step) DT_EXCLUDES(mutex_);
  void note_first(uint64_t step) DT_REQUIRES(mutex_);
  [[nodiscard]] bool is_after(uint64_t step) const DT_REQUIRES(mutex_);
  void give_up() DT_REQUIRES(mutex_);
  void start(const TraceRequest& request) DT_REQUIRES(mutex_);
  // A recorded timeline that is to be written. It is taken with the lock held and written without it, because writing
  // may block for any time, and threads that must not wait call request() and of_step(). The same applies to warnings.
  struct Recorded;
  Recorded take() DT_REQUIRES(mutex_);
  void write(const Recorded& recorded) DT_EXCLUDES(mutex_);
  std::string begin_or_give_up(uint64_t step) DT_REQUIRES(mutex_);
  void warn(const std::string& text) DT_EXCLUDES(mutex_);

  Timeline timeline_;
  ClockOffset clock_;
  std::atomic<bool> is_wanted_ = false;
  std::atomic<uint64_t> written_ = 0;

  mutable Mutex mutex_;
  Log log_ DT_GUARDED_BY(mutex_);
  TraceRequest request_ DT_GUARDED_BY(mutex_);
  // Whether the trace's first step is known; if not, it follows from the next step that begins.
  bool first_is_known_ DT_GUARDED_BY(mutex_) = true;
  uint64_t skip_ DT_GUARDED_BY(mutex_) = 0;  // if the first step is not known: number of steps from the next step to it
  uint64_t begun_ DT_GUARDED_BY(mutex_) = 0;  // for a worker: steps since the timeline began, including the current one
  bool records_messages_ DT_GUARDED_BY(mutex_) = false;
  std::string role_ DT_GUARDED_BY(mutex_), directory_ DT_GUARDED_BY(mutex_);
  uint32_t rank_ DT_GUARDED_BY(mutex_) = 0;
};

}  // namespace dtrain::telemetry
