// One training step: forward, backward, gradients to the store as they come, and a look at whether they are numbers.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/log.h"
#include "data/loader.h"
#include "exec/device_group.h"
#include "graph/graph.h"
#include "job/flags.h"
#include "kvstore/store.h"
#include "tensor/pixels.h"
#include "tensor/shape.h"
#include "train/loss_scale.h"

namespace dtrain::train {

struct StepParts {
  const graph::Graph& graph;
  Shape image;                                                   // [c, h, w]
  std::shared_ptr<const Normalisation> normalisation = nullptr;  // as the executors were compiled with
  exec::DeviceGroup& devices;
  std::vector<size_t> bucket_begin;  // as the executors were compiled with
  kvstore::Store& store;
  uint32_t rank = 0;
  uint32_t workers = 1;
  job::OnNan on_nan = job::OnNan::kFail;
  LossScale loss_scale = {};
  Log log;
};

// One thread calls it. run() allocates nothing unless something is not finite.
//
// Devices that have the parameters in their own memory run a step as one piece of work, so there is nothing to look at
// before its end; they look at the gradients by themselves, and leave out an update that would spoil the weights. A
// worker that is alone with one such device leaves all of it to the device: whether the step counts, the statistics, a
// dynamic loss scale. The host hears of it at the step's end, and counts along.
class StepRunner {
 public:
  explicit StepRunner(StepParts parts);
  StepRunner(const StepRunner&) = delete;
  StepRunner& operator=(const StepRunner&) = delete;

  // true: the batch's gradients are with the store, as its step `step`: the updates before it, those of earlier
  // processes included. false (--on-nan skip): the loss or a gradient was not finite, and the batch counts for nothing;
  // in a job the others' gradients count without it. Code::kInternal (--on-nan fail): the same; names step, rank and
  // layer.
  // `next`: the batch of the step after this one, if it is known: it may go to the devices beside this step. It stays
  // as it is until then.
  Result<bool> run(const data::LoadedBatch& batch, uint64_t step, const data::LoadedBatch* next = nullptr);
  // Between steps.
  [[nodiscard]] LossScale& loss_scale() { return parts_.loss_scale; }
  // Whether run() may return false.
  [[nodiscard]] bool may_leave_out_steps() const {
    return parts_.on_nan == job::OnNan::kSkip || parts_.loss_scale.is_dynamic();
  }
  // Until the weights are those after the last step.
  Result<> wait_for_weights();

 private:
  [[nodiscard]] size_t end_of(size_t bucket) const;
  // Nothing is given away before all of it has been looked at: what the store has cannot be taken back.
  [[nodiscard]] bool holds_back() const { return may_leave_out_steps() && !device_decides_; }
  // Whether the step's gradients overflowed by the loss scale, which then is a smaller one.
  bool overflowed();
  Result<> compute(const exec::Batch& input);
  Result<> check_loss(const exec::Batch& input);
  Result<> check_devices();
  Result<std::string> bad_gradient_on(size_t device);
  [[nodiscard]] const std::string* first_bad_gradient() const;
  Result<> leave_out(const std::string& why);
  Result<bool> conclude();
  Result<> on_bucket(size_t device, size_t bucket);
  Result<> hand_over(size_t device, size_t bucket);
  Result<> hand_over_all();
  Result<> hand_over_nothing();
  Result<> keep_statistics();
  Result<> restore_statistics();
  [[nodiscard]] Error not_finite(const std::string& what, const std::string& layer) const;

  StepParts parts_;
  const bool on_device_;       // the parameters are
  const bool device_decides_;  // whether a step counts
  exec::DeviceGroup::DeviceCall wait_;
  exec::DeviceGroup::DeviceCall ready_;
  uint64_t step_ = 0;
  uint32_t samples_ = 0;
  bool bad_loss_ = false;
  uint64_t announced_ = 0;  // the serial number of the batch; 0: none
  // While it holds back:
  std::vector<std::string> bad_gradient_;  // by device: the first one found in this step
  std::vector<float> kept_statistics_;     // as they were before it
};

}  // namespace dtrain::train
