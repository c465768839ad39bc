#include "cuda/executor/device_executor.h"

#include <cuda_runtime_api.h>

#include <algorithm>
#include <utility>

#include "cuda/kernels/layout.h"
#include "cuda/kernels/update.h"
#include "exec/contract.h"

namespace dtrain::cuda {

static_assert(StoreStream::kTurns == exec::Executor::kLaunchedMax);

namespace {

bool same_memory(const exec::Batch& a, const exec::Batch& b) {
  const auto same_input = [](const exec::Batch::Input& x, const exec::Batch::Input& y) {
    return x.floats.data() == y.floats.data() && x.pixels.data() == y.pixels.data() &&
           x.mirrored.data() == y.mirrored.data();
  };
  return std::ranges::equal(a.inputs, b.inputs, same_input) && a.labels.data() == b.labels.data() &&
         a.keys.data() == b.keys.data();
}

}  // namespace

DeviceExecutor::~DeviceExecutor() {
  drain();
  if (store_ != nullptr && owner_ == nullptr) store_->set_drop_graphs(nullptr);
}

void DeviceExecutor::prepare() {
  const ParameterView& host = parameters_->host().view();
  host_view_ = training() ? host : without_gradients(host);
  taken_ = make_event();
  if (owner_ == nullptr) store_->set_drop_graphs([this] { steps_ = {}; });
  const ParameterView view = parameters_->device_view(device_owner_ != nullptr ? &device_owner_->arrays_ : &arrays_);
  view_ = training() ? view : without_gradients(view);
  if (training()) view_.nonfinite = {&loss_scale_->device()->nonfinite, 1};
}

Result<> DeviceExecutor::forward(const exec::Batch& batch, const exec::WeightsWait& wait) {
  DT_TRY_VOID(exec::check_batch(batch, options_, shapes_));
  DT_CHECK(launched_ - finished_ < kLaunchedMax, "{} steps are launched and not finished", launched_ - finished_);
  DT_CUDA(cudaSetDevice(device_));
  finish_results();
  spans_.begin_step();
  for (size_t b = 0; b < bucket_count(); b++) DT_TRY_VOID(wait(b));
  stage(batch);
  if (!training()) run_staged();
  return {};
}

Result<> DeviceExecutor::backward(const exec::GradientReady& ready) {
  DT_CHECK(training(), "an inference executor has no backward pass");
  DT_CUDA(cudaSetDevice(device_));
  return is_staged_ ? run_step(ready) : run_backward(ready);
}

void DeviceExecutor::finish_results() {
  if (is_staged_) run_staged();
  CudaExecutor::finish_results();
}

void DeviceExecutor::stage(const exec::Batch& batch) {
  is_staged_ = true;
  if (!training()) {
    follow(compute_.get(), batch_.get());  // the last pass must end before the memory of its batch is overwritten
    stage_batch(batch);
    store_->await(batch_memory_->copied());  // because the caller may change its memory once forward() has returned
    return;
  }
  if (!same_memory(batch, announced_)) copy_ahead(batch);
  announced_ = {};
}

void DeviceExecutor::announce(const exec::Batch& batch) {
  DT_CHECK(!is_staged_, "a batch is announced before the last one has been taken");
  announced_ = batch;
  if (batch.labels.empty()) return;
  DT_CUDA(cudaSetDevice(device_));
  copy_ahead(batch);
}

// Copies the batch to the staging buffer. The copy may run during a pass, because that pass has already taken its own
// batch.
void DeviceExecutor::copy_ahead(const exec::Batch& batch) {
  DT_CUDA(cudaStreamWaitEvent(batch_.get(), taken_.get(), 0));
  stage_batch(batch);
}

// Moves the batch to where the program reads it, and uploads the loss scale. Neither needs a wait here: begin_pass has
// made compute_ wait for the copy of the batch, and for the store's last work, which may use the old loss scale.
void DeviceExecutor::take_batch() {
  const DeviceSpans::Span span(&spans_, DeviceSpans::Track::kCompute, compute_.get(), "take the batch");
  batch_memory_->take(compute_.get());
  DT_CUDA(cudaEventRecord(taken_.get(), compute_.get()));
  if (loss_scale_ != nullptr) loss_scale_->upload(compute_.get());
}

void DeviceExecutor::skip_bad_steps(bool dynamic_scale) {
  DT_CHECK(training(), "an inference executor has no steps");
  skips_bad_steps_ = true;
  scale_is_dynamic_ = dynamic_scale && scales_loss();
  DT_CUDA(cudaSetDevice(device_));
  kept_statistics_ = DeviceMemory(view_.all_statistics.size_bytes());
  steps_ = {};
}

// Makes the pass wait for the staged batch, the store's last work, and the passes of executors that share the tensors.
void DeviceExecutor::begin_pass() {
  DT_CUDA(cudaSetDevice(device_));
  store_->set_turn(turn());
  follow(batch_.get(), compute_.get());
  follow(store_->get(), compute_.get());
  parameters_->begin_use(compute_.get());
}

void DeviceExecutor::end_pass() {
  parameters_->end_use(compute_.get());
  DT_CUDA(cudaEventRecord(results_[turn()].copied.get(), compute_.get()));
}

// Makes the results of the pass those that result() returns.
void DeviceExecutor::show_pass() {
  shown_ = turn();
  results_pending_ = true;
}

void DeviceExecutor::prepare_weights() {
  const DeviceSpans::Span span(&spans_, DeviceSpans::Track::kCompute, compute_.get(),
                               "weights in the layout of the convolutions");
  if (kept_statistics_.bytes() > 0) {
    DT_CUDA(cudaMemcpyAsync(kept_statistics_.at(0), view_.all_statistics.data(), kept_statistics_.bytes(),
                            cudaMemcpyDeviceToDevice, compute_.get()));
  }
  for (const DeviceTable<WeightTensor>& table : upload_tables_) {
    if (!table.empty()) store_weights(table.table(), compute_.get());
  }
}

void DeviceExecutor::queue(Part& part, Queue how) {
  switch (how) {
    case Queue::kAsGraph: return run(part);
    case Queue::kPlainly: return CompiledProgram::queue_plainly(part, compute_.get());
    case Queue::kRecorded: return program_->queue_recorded(part, compute_.get());
  }
}

// Queues the forward pass. Results are copied to the host while the next kernels run; the caller must make compute_
// wait for copy_ at the end.
void DeviceExecutor::queue_forward(Queue how) {
  prepare_weights();
  for (Part& part : program_->forward()) queue(part, how);
  follow(compute_.get(), copy_.get());
  copy_results(turn());
}

Result<> DeviceExecutor::queue_backward(const exec::GradientReady& ready, Queue how) {
  for (Part& part : program_->backward()) {
    queue(part, how);
    if (part.buckets.empty()) continue;
    follow(compute_.get(), store_->get());
    for (const size_t bucket : part.buckets) DT_TRY_VOID(ready(bucket));
  }
  if (skips_bad_steps_) count_or_skip();
  follow(compute_.get(), copy_.get());
  follow(store_->get(), copy_.get());
  loss_scale_->download(turn(), copy_.get());
  follow(copy_.get(), compute_.get());
  return {};
}

// Ends a step with skip_bad_steps: if a gradient was not finite, restores the statistics and counts the step as
// skipped. Also adjusts the loss scale. Queued after the store's work, which has searched the summed gradients of all
// buckets for such values.
void DeviceExecutor::count_or_skip() {
  const cudaStream_t stream = store_->get();
  follow(compute_.get(), stream);  // because steps may follow those of the last bucket
  const DeviceSpans::Span span(&spans_, DeviceSpans::Track::kStore, stream, "count or skip the step");
  const std::span<float> statistics = view_.all_statistics;
  if (!statistics.empty()) {
    restore_if_nonfinite({.kept = static_cast<const float*>(kept_statistics_.at(0)),
                          .values = statistics.data(),
                          .count = static_cast<int64_t>(statistics.size()),
                          .nonfinite = view_.nonfinite.data()},
                         stream);
  }
  adjust_loss_scale({.dynamic = scale_is_dynamic_, .loss_scale = loss_scale_->device()}, stream);
}

Result<> DeviceExecutor::announce_all(const exec::GradientReady& ready) {
  const StoreStream::Replay replay(*store_);
  for (size_t bucket = bucket_count(); bucket-- > 0;) DT_TRY_VOID(ready(bucket));
  return {};
}

// Runs the staged forward pass on its own, because the caller wants results or statistics before backward() or without
// it.
void DeviceExecutor::run_staged() {
  is_staged_ = false;
  if (device_owner_ != nullptr && device_owner_->is_staged_) device_owner_->run_staged();
  begin_pass();
  take_batch();
  queue_forward(Queue::kAsGraph);
  follow(copy_.get(), compute_.get());
  end_pass();
  show_pass();
}

Result<> DeviceExecutor::run_backward(const exec::GradientReady& ready) {
  begin_pass();
  DT_TRY_VOID(queue_backward(ready, Queue::kAsGraph));
  end_step();
  return {};
}

void DeviceExecutor::end_step() {
  end_pass();
  launched_++;
}

Result<> DeviceExecutor::finish() {
  if (finished_ == launched_) return {};
  DT_CUDA(cudaSetDevice(device_));
  shown_ = finished_++ % kLaunchedMax;
  results_pending_ = false;
  DT_TRY_VOID(store_->wait(results_[shown_].copied.get()));
  loss_scale_->take_download(shown_);
  const LossScale& outcome = loss_scale_->downloaded();
  const uint64_t skipped_before = std::exchange(skipped_, outcome.skipped);
  skipped_update_ = skips_bad_steps_ ? skipped_ > skipped_before : outcome.nonfinite != 0;
  spans_.collect(compute_.get());
  return {};
}

Result<> DeviceExecutor::run_step(const exec::GradientReady& ready) {
  is_staged_ = false;
  begin_pass();
  take_batch();
  DT_TRY_VOID(queue_step(ready));
  end_step();
  return {};
}

// Queues the step as one graph, or call by call while spans are recorded. With a group it is always a graph, timed as a
// whole: NCCL requires that all devices of a group run a sum from graphs that they captured together, or all without
// graphs, and the other devices may not be tracing this step.
Result<> DeviceExecutor::queue_step(const exec::GradientReady& ready) {
  if (spans_.is_on() && !store_->is_watched()) {
    queue_forward(Queue::kRecorded);
    return queue_backward(ready, Queue::kRecorded);
  }
  const DeviceSpans::Span span(&spans_, DeviceSpans::Track::kCompute, compute_.get(), "forward, backward and update");
  const DeviceSpans::Pause pause(spans_);
  return steps_[turn()].run(compute_.get(), [&](QueueMode mode) -> Result<> {
    if (mode == QueueMode::kReplay) return announce_all(ready);
    queue_forward(Queue::kPlainly);
    return queue_backward(ready, Queue::kPlainly);
  });
}

std::optional<size_t> DeviceExecutor::bad_gradient() {
  if (!skipped_update_) return std::nullopt;
  const LossScale& outcome = loss_scale_->downloaded();
  const uint32_t bad = skips_bad_steps_ ? outcome.ended_bad_array : outcome.bad_array;
  return bad == 0 ? std::nullopt : std::optional<size_t>(bad - 1);
}

// Waits until all work that uses the tensors is done. After that, they can be copied, and waiting for the copy cannot
// hang.
Result<> DeviceExecutor::settle() {
  DT_CUDA(cudaSetDevice(device_));
  if (is_staged_) run_staged();
  follow(compute_.get(), store_->get());
  parameters_->begin_use(store_->get());
  DT_CUDA(cudaEventRecord(order_.get(), store_->get()));
  return store_->wait(order_.get());
}

Result<> DeviceExecutor::Arrays::copy(std::span<const float> from, std::span<float> to, cudaMemcpyKind kind) {
  DT_TRY_VOID(executor_.settle());
  if (from.empty()) return {};
  const cudaStream_t stream = executor_.store_->get();
  DT_CUDA(cudaMemcpyAsync(to.data(), from.data(), from.size_bytes(), kind, stream));
  DT_CUDA(cudaStreamSynchronize(stream));
  return {};
}

}  // namespace dtrain::cuda
