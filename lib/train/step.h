// One training step: the forward and backward passes, handing gradients to the store as they become ready, and the
// check that they are finite.
//
// launch() begins a step, and finish() ends the oldest one that was launched. Usually they alternate. If
// may_launch_ahead() is true, the next step may be launched before a step is finished, so that the devices compute
// while the host waits for the results of that step and looks at them.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/log.h"
#include "base/waits.h"
#include "data/loading/loader.h"
#include "exec/device_group.h"
#include "graph/ids.h"
#include "job/flags/choices.h"
#include "kvstore/store.h"
#include "telemetry/tracer.h"
#include "tensor/batch.h"
#include "train/gradient_sum.h"
#include "train/loss_scale.h"

namespace dtrain::train {

// How the steps have spent their time so far, in seconds. With several devices, these are the times of the first
// device.
struct StepTimes {
  double forward = 0, backward = 0;  // time of the two passes, without the times of the members below
  double push = 0;                   // handing gradients to the store
  double pull_wait = 0;              // waiting for weights
  double update = 0;                 // updating weights on this thread
};

struct StepParts {
  const graph::Graph& graph;
  std::vector<InputForm> inputs;  // the same inputs with which the executors were compiled
  exec::DeviceGroup& devices;
  std::vector<size_t> bucket_begin;  // index of each bucket's first parameter; the same as in the executors
  kvstore::Store& store;
  uint32_t rank = 0;
  uint32_t workers = 1;
  job::OnNan on_nan = job::OnNan::kFail;
  LossScale loss_scale = {};
  telemetry::Tracer* tracer = nullptr;  // records the steps; null: no step is traced
  Log log;
};

// Used by one thread. A step allocates nothing unless a value is not finite.
//
// Devices that keep the parameters in their own memory run a step as one unit of work, so the host can check nothing
// before its end. Such devices search the sums of the gradients themselves and skip an update that would corrupt the
// weights. If steps may be skipped, the devices of all workers decide alike, because all see the same sums: whether the
// step counts, the moving statistics, and a dynamic loss scale. The host learns the result at the end of the step and
// adjusts its own counters. The learning rate of the next step depends on these counters, so a step that is launched
// ahead gets the rates for both results, and the devices choose. If a step ends the run, the devices do not make the
// update of the step launched after it. They may make it if steps may be skipped, but then the run has no use for it.
class StepRunner {
 public:
  explicit StepRunner(StepParts parts);
  StepRunner(const StepRunner&) = delete;
  StepRunner& operator=(const StepRunner&) = delete;

  // Begins to train on a batch, which must stay unchanged until the step is finished. `step`: the number of updates
  // that the run has made before this one, including those made before the run was resumed. Launched ahead, it is the
  // number that follows if the step before counts. Devices that use the host's memory have completed both passes when
  // it returns.
  // `ends_update`: false if the store gets the gradients only as part of a sum, together with those of the next step,
  // which has the same number. Only for devices that use the host's memory.
  Result<> launch(const data::LoadedBatch& batch, uint64_t step, bool ends_update = true);
  // To be called after launch(): announces the batch of the following step. It may be copied to the devices during this
  // step and must not change before the following one is finished.
  Result<> announce(const data::LoadedBatch& next);
  // Waits for the step and returns true if the store has received the batch's gradients, or will receive them as part
  // of a sum. Returns false if the loss or a gradient was not finite, which happens only with --on-nan skip or a
  // dynamic loss scale. The batch then does not count, and neither do the others of the same sum; in a job with several
  // workers all workers of the same round skip the step. With --on-nan fail, a non-finite value is an error:
  // Code::kInternal, naming step, rank and layer.
  Result<bool> finish();
  // Whether launch() may be called once more before finish().
  [[nodiscard]] bool may_launch_ahead() const { return on_device_; }
  // To be called only between steps.
  [[nodiscard]] LossScale& loss_scale() { return parts_.loss_scale; }
  // Whether finish() may return false although it returns true for the same step of another worker.
  [[nodiscard]] bool may_skip_alone() const { return holds_back(); }
  // Waits until the weights include the last step.
  Result<> wait_for_weights();
  // The moving statistics of all devices. Only for devices that use the host's memory, between steps.
  // complete_statistics() makes those in the host's memory the ones of the last step, for users that hold the views of
  // the devices.
  void complete_statistics();
  void copy_statistics(std::vector<float>& into);
  void restore_statistics(std::span<const float> kept);
  // Forgets the steps that are not finished, after an error, so that they can be made again. Only for devices that use
  // the host's memory.
  void abandon() {
    finished_ = launched_;
    sum_.clear();
    skips_update_ = false;
  }
  [[nodiscard]] const StepTimes& times() const { return times_; }

 private:
  template <class Pass>
  Result<> time_pass(double& into, const Pass& pass);
  template <class Call>
  Result<> time_call(size_t device, double& into, const Call& call);
  [[nodiscard]] size_t end_of(size_t bucket) const;
  [[nodiscard]] telemetry::Timeline* timeline() const {
    return parts_.tracer == nullptr ? nullptr : &parts_.tracer->timeline();
  }
  Result<> forward();
  Result<> backward();
  Result<> wait_for_devices();
  // Whether finish() may return false.
  [[nodiscard]] bool may_skip_steps() const {
    return parts_.on_nan == job::OnNan::kSkip || parts_.loss_scale.is_dynamic();
  }
  // Whether gradients are held back until all of them have been checked, because what the store has received cannot be
  // withdrawn.
  [[nodiscard]] bool holds_back() const { return may_skip_steps() && decisions_ == nullptr; }
  Result<> check_loss();
  std::string bad_gradient_on_devices();
  [[nodiscard]] const std::string* first_bad_gradient() const;
  // Handles a step that does not count: with --on-nan fail it is an Error, unless a lower loss scale may help.
  Result<> explain_skip(bool scale_falls, const std::string& bad_gradient);
  Result<bool> take_decision();
  Result<bool> push_or_skip_step();
  Result<> on_bucket(size_t device, size_t bucket);
  Result<> push(size_t device, size_t bucket);
  Result<> push_all();
  Result<> push_zero_gradients();
  // Calls `visit` for the moving statistics in the host's memory.
  template <class Visit>
  void visit_statistics(const Visit& visit);
  // The message "gradient is not finite", with the layer's name if it is known, and with the limit.
  [[nodiscard]] std::string gradient_fault(const std::string& layer = "") const;
  [[nodiscard]] Error not_finite(const std::string& what, const std::string& layer) const;

  struct Step {
    exec::Batch batch = {};
    uint64_t number = 0;
    uint32_t samples = 0;
    bool ends_update = true;
  };

  StepParts parts_;
  const bool on_device_;  // whether the parameters are in the device's memory
  // The views of the devices, for weights and gradients. Asking for a view would complete its statistics.
  const std::vector<ParameterView> views_;
  // Null unless the devices decide if a step counts. If they decide, the store counts a step only when the host knows
  // the decision.
  kvstore::DeviceDecisions* const decisions_;
  // Limit on the absolute values of gradients that the host searches because it cannot see their sum (summand_limit).
  // Devices search the sums themselves.
  const float limit_;
  exec::DeviceGroup::DeviceCall wait_;
  exec::DeviceGroup::DeviceCall ready_;
  Step step_;                                             // the step that is being launched or finished
  std::array<Step, exec::Executor::kLaunchedMax> steps_;  // those that are launched and not finished, by number
  uint64_t launched_ = 0, finished_ = 0;
  bool bad_loss_ = false;
  StepTimes times_;
  uint64_t announced_ = 0;  // serial number of the batch that was announced to the devices; 0: none
  GradientSum sum_;         // of the earlier steps for the next update
  // Used while gradients are held back:
  bool skips_update_ = false;              // whether one of the steps for the next update is bad
  std::vector<std::string> bad_gradient_;  // for each device: the name of the first bad gradient in this step
  const bool devices_keep_statistics_;
  std::vector<float> kept_statistics_;  // values of the moving statistics before the step, unless the devices keep them
};

}  // namespace dtrain::train
