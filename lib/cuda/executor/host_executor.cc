#include "cuda/executor/host_executor.h"

#include <cuda_runtime_api.h>

#include "cuda/kernels/layout.h"
#include "exec/contract.h"

namespace dtrain::cuda {

void HostExecutor::prepare() {
  const ParameterView& view = parameters_->host().view();
  view_ = training() ? view : without_gradients(view);
  uploaded_ = make_event();
  for (size_t b = 0; b < bucket_count(); b++) downloaded_.push_back(make_event());
}

const ParameterView& HostExecutor::parameters() {
  finish_results();
  if (!parameters_->has_newer_statistics()) return view_;
  DT_CUDA(cudaSetDevice(device_));
  parameters_->begin_use(copy_.get());
  {
    const DeviceSpans::Span span = span_of_copy("copy statistics to the host");
    parameters_->download_statistics(copy_.get());
  }
  DT_CUDA(cudaEventRecord(uploaded_.get(), copy_.get()));
  store_->await(uploaded_.get());
  parameters_->set_newer_statistics(false);
  return view_;
}

bool HostExecutor::keep_statistics() {
  DT_CHECK(training(), "inference does not change the statistics");
  DT_CUDA(cudaSetDevice(device_));
  kept_statistics_ = DeviceMemory(parameters_->statistics().bytes());
  return true;
}

void HostExecutor::undo_statistics() {
  DT_CUDA(cudaSetDevice(device_));
  parameters_->begin_use(copy_.get());
  copy_statistics(kept_statistics_, parameters_->statistics());
  parameters_->end_use(copy_.get());
}

// Does nothing if no statistics are kept.
void HostExecutor::copy_statistics(const DeviceMemory& from, const DeviceMemory& to) {
  if (kept_statistics_.bytes() == 0) return;
  DT_CUDA(cudaMemcpyAsync(to.at(0), from.at(0), from.bytes(), cudaMemcpyDeviceToDevice, copy_.get()));
}

Result<> HostExecutor::forward(const exec::Batch& batch, const exec::WeightsWait& wait) {
  DT_TRY_VOID(exec::check_batch(batch, options_, shapes_));
  DT_CUDA(cudaSetDevice(device_));
  finish_results();
  spans_.begin_step();
  begin_forward(batch);
  Result<> result = queue_forward(wait);
  DT_CUDA(cudaEventRecord(uploaded_.get(), copy_.get()));
  follow(compute_.get(), copy_.get());
  if (result) download_results();
  if (result && training()) parameters_->set_newer_statistics(true);
  parameters_->end_use(copy_.get());
  // When this function returns, even with an error, the caller may change the batch, weights and statistics on the
  // host. So wait for their copies to the device, which end long before the program has run.
  store_->await(batch_memory_->copied());
  store_->await(uploaded_.get());
  return result;
}

// Prepares a pass: the memory that is written here may still be read by the previous pass, or by a pass of an executor
// that shares the weights, so this function waits for both passes.
void HostExecutor::begin_forward(const exec::Batch& batch) {
  follow(compute_.get(), batch_.get());
  parameters_->begin_use(copy_.get());
  stage_batch(batch);
  follow(batch_.get(), compute_.get());
  if (!parameters_->has_newer_statistics()) {
    const DeviceSpans::Span span = span_of_copy("copy statistics to the device");
    parameters_->upload_statistics(copy_.get());
  }
  copy_statistics(parameters_->statistics(), kept_statistics_);
  if (loss_scale_ != nullptr) loss_scale_->upload(copy_.get());
}

Result<> HostExecutor::queue_forward(const exec::WeightsWait& wait) {
  for (Part& part : program_->forward()) {
    for (const size_t bucket : part.buckets) {
      DT_TRY_VOID(wait(bucket));
      upload_bucket(bucket);
    }
    if (!part.buckets.empty()) follow(copy_.get(), compute_.get());
    run(part);
  }
  return {};
}

void HostExecutor::upload_bucket(size_t bucket) {
  const DeviceSpans::Span span = span_of_copy("copy weights to the device");
  parameters_->upload_weights(options_.bucket_begin[bucket], bucket_end(bucket), copy_.get());
  const DeviceTable<WeightTensor>& table = upload_tables_[bucket];
  if (!table.empty()) store_weights(table.table(), copy_.get());
}

void HostExecutor::download_results() {
  copy_results(0);
  DT_CUDA(cudaEventRecord(results_[0].copied.get(), copy_.get()));
  results_pending_ = true;
}

Result<> HostExecutor::backward(const exec::GradientReady& ready) {
  DT_CHECK(training(), "an inference executor has no backward pass");
  DT_CUDA(cudaSetDevice(device_));
  Result<> outcome = backward_to_host(ready);
  if (outcome) return outcome;
  // After an error the group is canceled. Otherwise the other devices would wait for this device's gradients, and the
  // sums on this device for the gradients of the others. The wait for the store's stream then ends these sums. Copies
  // to the host must end before this call returns.
  if (group_ != nullptr) {
    group_->cancel(outcome.error());
    (void)store_->wait(results_[0].copied.get());
  }
  if (!device_hangs()) cudaStreamSynchronize(copy_.get());
  return outcome;
}

// Runs the backward pass. It is queued as a whole before the host waits for its first part, so that the device never
// waits for the host.
Result<> HostExecutor::backward_to_host(const exec::GradientReady& ready) {
  DT_TRY_VOID(queue_backward());
  for (size_t bucket = downloaded_.size(); bucket-- > 0;) {
    DT_TRY_VOID(store_->wait(downloaded_[bucket].get()));
    DT_TRY_VOID(ready(bucket));
  }
  results_pending_ = false;  // because the results were copied before the gradients, in the same stream
  spans_.collect(compute_.get());
  return {};
}

Result<> HostExecutor::queue_backward() {
  const bool gives_gradients = group_ == nullptr || group_->rank() == 0;
  for (Part& part : program_->backward()) {
    run(part);
    if (part.buckets.empty()) continue;
    follow(compute_.get(), copy_.get());
    if (group_ != nullptr) DT_TRY_VOID(sum_gradients(part.buckets));
    for (const size_t bucket : part.buckets) {
      const DeviceSpans::Span span = span_of_copy("copy gradients to the host");
      if (gives_gradients) {
        parameters_->download_gradients(options_.bucket_begin[bucket], bucket_end(bucket), copy_.get());
      }
      DT_CUDA(cudaEventRecord(downloaded_[bucket].get(), copy_.get()));
    }
  }
  follow(compute_.get(), copy_.get());  // because steps may follow those of the last bucket
  parameters_->end_use(copy_.get());
  return {};
}

void HostExecutor::sum_gradients_over(std::unique_ptr<comm::Collective> group) {
  DT_CHECK(training() && owner_ == nullptr, "the gradients of this executor are not copied to the host");
  group_ = std::move(group);
}

// Sums the gradients of these buckets over the devices of the group. Called when all work that completes the buckets is
// queued on compute_. Returns when the sums are queued. Work that is queued on copy_ later waits for them.
Result<> HostExecutor::sum_gradients(std::span<const size_t> buckets) {
  follow(compute_.get(), store_->get());
  for (const size_t bucket : buckets) {
    const DeviceParameters::Piece own = parameters_->gradients(options_.bucket_begin[bucket], bucket_end(bucket));
    DT_TRY_VOID(group_->reduce({own.data, static_cast<size_t>(own.count)}, 0));
  }
  follow(store_->get(), copy_.get());
  return {};
}

}  // namespace dtrain::cuda
