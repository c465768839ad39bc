// What a worker does when the group in which the workers add up their gradients (kvstore::WorkerGroup) loses a member,
// or takes in new ones: it meets the others, makes the group anew with them, and continues with the first step that is
// not complete. Without such a group, its functions do nothing.
#pragma once

#include <array>
#include <cstdint>
#include <set>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/log.h"
#include "job/process/coordinator.h"
#include "kvstore/store.h"
#include "train/epoch_clock.h"
#include "train/metrics.h"
#include "train/step.h"

namespace dtrain::train {

// All references are borrowed and must outlive the object.
struct GroupRenewalParts {
  kvstore::Store& store;
  job::Coordinator& coordinator;
  EpochClock& clock;
  StepRunner& steps;
  Metrics& metrics;  // of the training
  Log log;
};

// For the thread of the step loop.
class GroupRenewal {
 public:
  explicit GroupRenewal(GroupRenewalParts parts) : parts_(std::move(parts)), group_(parts_.store.worker_group()) {}

  // To be called before each step, with the number of samples in its batch.
  void begin_step(int64_t samples);
  // Whether the others and this worker can continue after this error.
  [[nodiscard]] bool may_continue_after(const Error& error) const;
  // After such an error: meets the others in the middle of the step and makes the group anew. The clock, the metrics
  // and the moving statistics are then at the next step to be made, which may be the same again.
  Result<> meet(const Error& why);
  // To be called when all have met at a border, or with `is_torn` wherever: makes the group anew if necessary.
  Result<> at_border(bool is_torn);
  // The same for a worker that has just joined, and whose clock has no position yet.
  Result<> join();
  // Gives all workers the same moving statistics. False: the group was made anew instead, so that they are to be shared
  // again. All workers get the same answer.
  Result<bool> share_statistics(uint64_t samples);
  // After work in the group, all workers call it with their outcomes, because a worker may have what another one lacks
  // when the group is torn. Returns whether all have succeeded; if not, they call at_border(true). An Error that is not
  // about the group is returned.
  Result<bool> agree_on_success(const Result<>& own);
  // The run has gone to an earlier step, so nothing can go back to a step that it has made since.
  void forget_steps() { marks_ = {}; }
  // The ranks that were lost and awaited another worker, or had one already, when the workers met last and while they
  // made the group anew.
  [[nodiscard]] const std::set<uint32_t>& lost() const { return lost_; }
  // Whether the step with which the workers continue mixes weights of two versions, because some weights had its update
  // when the group was made anew last.
  [[nodiscard]] bool is_mixed() const { return is_mixed_; }
  // The workers have gone back for that reason, or cannot.
  void accept_mixed() { is_mixed_ = false; }
  // The ranks of the workers that have joined since the last call of take_newcomers(), and whether there are any.
  [[nodiscard]] bool has_newcomers() const { return !newcomers_.empty(); }
  std::set<uint32_t> take_newcomers() { return std::exchange(newcomers_, {}); }

 private:
  // The beginning of a step, to which the worker may have to go back.
  struct Mark {
    bool is_set = false;
    uint64_t step = 0;
    EpochClock::Mark clock = {};
    std::vector<double> metric_sums = {};
    std::vector<float> statistics = {};
  };
  void note_changes();
  Result<> make_group();
  Result<> renew();
  Result<> go_to(uint64_t step);

  GroupRenewalParts parts_;
  kvstore::WorkerGroup* const group_;
  // The weights of a step may still be on their way when the next step begins, so there are marks of two steps.
  std::array<Mark, 2> marks_;
  int64_t samples_ = 0;  // in the batch of the newest step
  std::set<uint32_t> newcomers_, lost_;
  bool is_mixed_ = false;
};

}  // namespace dtrain::train
