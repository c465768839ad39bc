// What a worker's step loop needs from the rest of the job: agreement with the other workers, and news of the job's
// end.
#pragma once

#include <algorithm>
#include <cstdint>
#include <numeric>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "base/error.h"
#include "job/process/gathered.h"
#include "job/process/worker_progress.h"

namespace dtrain::job {

// Called by one thread. Every wait has a time limit. Once the job has failed, every call returns the job's first error.
class Coordinator {
 public:
  virtual ~Coordinator() = default;
  [[nodiscard]] virtual uint32_t rank() const = 0;
  // The number of seats of workers: the largest rank is smaller. Some may be empty; see live().
  [[nodiscard]] virtual uint32_t workers() const = 0;
  // The ranks of the workers that take part, sorted: all but those that were lost or had left before the last barrier
  // ended. So all workers have the same ranks between the same barriers. Never empty.
  [[nodiscard]] virtual std::vector<uint32_t> live() const;
  // The leader does what one worker does for all, such as writing checkpoints. It is the live worker of the lowest
  // rank.
  [[nodiscard]] bool leads() const { return live().front() == rank(); }

  // The ranks of the workers that take part since the last barrier, sorted: they have joined the running job.
  [[nodiscard]] virtual std::vector<uint32_t> newcomers() const { return {}; }
  // The ranks that, when the last barrier ended, were lost and awaited another worker (--on-worker-loss wait), and
  // those of them that a newcomer has taken with it. Sorted.
  [[nodiscard]] virtual std::vector<uint32_t> lost() const { return {}; }
  // Whether one of them has no worker. Then the workers are about to meet at a border, unless the job is to stop.
  [[nodiscard]] bool lacks_workers() const;
  // The version of the snapshots to which the servers went back before the last barrier ended, because one of them was
  // replaced. This worker must go back to the step of this number. Nullopt: they did not.
  [[nodiscard]] virtual std::optional<uint64_t> restored() const { return std::nullopt; }

  // For a worker that joins the running job, when it is prepared: waits until the others have met at a border, and
  // returns the messages with which they have come there. From then on this worker takes part in everything.
  virtual Result<std::vector<Contribution>> take_part();

  // A barrier that all workers pass when they have the initial weights, and when the run has gone back to an earlier
  // position. `step` is the next step, and no later one counts as begun. From the first call on, the job continues if a
  // worker is lost (--on-worker-loss). Called only by jobs that can continue.
  virtual Result<> begin_training(uint64_t /*step*/) { return {}; }
  // Called before each step. Returns false if a signal has asked the job to stop. All workers of a stop set then stop
  // before the same step, and rank 0 writes a checkpoint. (Stop sets: JobPlan::stop_set_of.) Costs one atomic load
  // unless a stop is under way.
  virtual Result<bool> may_begin(uint64_t step) = 0;
  // Whether may_begin has returned false because this worker alone was asked to leave. It then ends without meeting the
  // others, which continue.
  [[nodiscard]] virtual bool leaves() const { return false; }
  // Whether the others continue without this worker, although it lives. Nothing that it does counts any longer. Any
  // thread may ask.
  [[nodiscard]] virtual bool has_lost_seat() const { return false; }
  // Asks that all workers meet between two steps. Has no effect while they are on their way to such a border.
  virtual void request_border() {}
  // The number of the border because of which may_begin has returned false: the workers are to meet, and then continue.
  // 0: may_begin has returned true, or false for another reason.
  [[nodiscard]] virtual uint64_t border() const { return 0; }
  // If lacks_workers(): waits until this worker is to come to a border, to stop or to leave, as if may_begin had
  // returned false.
  virtual Result<> await_border() { return {}; }
  // To be called when the workers have met at the border with this number. From then on may_begin may return true.
  virtual void pass_border(uint64_t /*number*/) {}
  // Reports with the next barrier that this worker could not connect to the one with this rank. If both cannot reach
  // each other for long, the job continues without one of them (--on-worker-loss), or ends.
  virtual void cannot_reach(uint32_t /*rank*/) {}
  // A barrier that adds numbers: all workers call it with the same name and count, and each gets the sums, added in
  // rank order. An empty span makes it a plain barrier. At most kSumNumbersMax numbers.
  virtual Result<std::vector<double>> sum(const std::string& name, std::span<const double> values) = 0;
  // A barrier that gives each worker the messages of all workers, in the order of ranks. All workers call it with the
  // same name and type. The messages of workers that were lost or had left before they sent one are left out.
  // Code::kUsage if a message or all of them together are larger than the limits below; kInternal if another worker has
  // ended and sends no message.
  // `stop_set_of`, indexed by rank, replaces the stop sets: from now on, workers with the same number in it stop before
  // the same step. All workers pass the same values. Empty: the stop sets do not change.
  template <class Message>
  Result<std::vector<Message>> all_gather(const std::string& name, Message own,
                                          std::span<const uint32_t> stop_set_of = {});
  // Sets the progress that the next heartbeat sends to the scheduler.
  virtual void report(const WorkerProgress& progress) = 0;

 private:
  // Like all_gather, but does not check that the answers have the type of `own`.
  virtual Result<std::vector<Contribution>> gather(const std::string& name, Contribution own,
                                                   std::span<const uint32_t> stop_set_of) = 0;
};

// Limits of barriers between processes. Encoded messages are hardly larger than their strings and numbers.
inline constexpr size_t kSumNumbersMax = 4096;
inline constexpr size_t kContributionBytesMax = 4 << 20;  // limit for the message of one worker
inline constexpr size_t kGatherBytesMax = 32 << 20;       // limit for the messages of all workers together

inline Result<std::vector<Contribution>> Coordinator::take_part() {
  return fail(Code::kInternal, "no worker can join this job while it runs");
}

inline bool Coordinator::lacks_workers() const {
  const std::vector<uint32_t> ranks = live();
  return !std::ranges::all_of(lost(), [&](uint32_t rank) { return std::ranges::binary_search(ranks, rank); });
}

inline std::vector<uint32_t> Coordinator::live() const {
  std::vector<uint32_t> ranks(workers());
  std::iota(ranks.begin(), ranks.end(), 0);
  return ranks;
}

template <class Message>
Result<std::vector<Message>> Coordinator::all_gather(const std::string& name, Message own,
                                                     std::span<const uint32_t> stop_set_of) {
  DT_TRY(std::vector<Contribution> all, gather(name, std::move(own), stop_set_of));
  const bool is_whole = all.size() == workers();
  std::vector<Message> messages;
  messages.reserve(all.size());
  for (Contribution& one : all) {
    Message* message = std::get_if<Message>(&one);
    if (message == nullptr) {
      return fail(Code::kInternal, "barrier '{}': {} sent a different kind of message than this worker", name,
                  is_whole ? "worker " + std::to_string(messages.size()) : "a worker");
    }
    messages.push_back(std::move(*message));
  }
  return messages;
}

}  // namespace dtrain::job
