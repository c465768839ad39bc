#include "cuda/executor/executor.h"

#include <cuda_runtime_api.h>

#include "cuda/executor/device_executor.h"
#include "cuda/executor/host_executor.h"
#include "exec/contract.h"
#include "tensor/buckets.h"

namespace dtrain::cuda {

using graph::NodeId;

namespace {

void check_shared(const exec::Options& options, const exec::Options& owner, bool same_device) {
  DT_CHECK(options.purpose != exec::Options::Purpose::kTraining || owner.purpose == exec::Options::Purpose::kTraining,
           "a training executor can share weights only with another training executor");
  DT_CHECK(owner.dtype == options.dtype && same_device,
           "the shared weights have another type or are on another device");
  DT_CHECK(owner.parameters_on_device == options.parameters_on_device,
           "executors that share weights must agree on parameters_on_device");
}

}  // namespace

Result<std::unique_ptr<CudaExecutor>> CudaExecutor::compile(const graph::Graph& graph, const exec::Options& options,
                                                            Executor* weights_of, int device,
                                                            std::shared_ptr<ConvolutionRunner> runner) {
  DT_TRY(graph::Shapes shapes, exec::infer_shapes(graph, options));
  exec::check_options(options, shapes);
  auto* owner = dynamic_cast<CudaExecutor*>(weights_of);
  DT_CHECK(weights_of == nullptr || owner != nullptr, "the executor that owns the weights belongs to another backend");
  if (owner != nullptr) {
    exec::check_same_parameters(owner->parameters(), shapes);
    check_shared(options, owner->options_, owner->device_ == device);
  }
  Setting setting{graph, options, std::move(shapes), device, std::move(runner), owner};
  std::unique_ptr<CudaExecutor> executor;
  if (options.parameters_on_device) {
    executor = std::make_unique<DeviceExecutor>(std::move(setting));
  } else {
    executor = std::make_unique<HostExecutor>(std::move(setting));
  }
  DT_TRY_VOID(executor->build());
  return executor;
}

CudaExecutor::CudaExecutor(Setting setting)
    : graph_(setting.graph),
      options_(setting.options),
      shapes_(std::move(setting.shapes)),
      device_(setting.device),
      runner_(std::move(setting.runner)),
      owner_(setting.owner),
      spans_(options_.timeline, device_) {}

CudaExecutor::~CudaExecutor() {
  drain();
  if (store_ != nullptr && owner_ == nullptr) store_->record_on(nullptr);
}

void CudaExecutor::drain() noexcept {
  if (device_hangs()) return;
  cudaSetDevice(device_);
  for (const CudaStream* stream : {&compute_, &copy_, &batch_}) {
    if (stream->get() != nullptr) cudaStreamSynchronize(stream->get());
  }
  if (store_ != nullptr) cudaStreamSynchronize(store_->get());
}

Result<> CudaExecutor::build() {
  DT_CUDA(cudaSetDevice(device_));
  const Layout layout = choose_layout(graph_, shapes_, options_);
  DT_TRY(plans_, plan_convolutions(graph_, shapes_, layout, options_, *runner_));
  const bool on_device = options_.parameters_on_device;
  parameters_ = owner_ != nullptr ? owner_->parameters_
                                  : std::make_shared<DeviceParameters>(shapes_, options_.purpose, layout.weights);
  batch_memory_ = std::make_unique<BatchMemory>(options_, shapes_.labels.size(), training() && on_device,
                                                training() && shapes_.draws);
  if (scales_loss() || (training() && on_device)) {
    loss_scale_ = owner_ != nullptr ? owner_->loss_scale_ : std::make_shared<LossScaleMemory>();
  }
  for (CudaStream* stream : {&compute_, &copy_, &batch_}) *stream = make_stream();
  order_ = make_event();
  store_ = owner_ != nullptr ? owner_->store_ : std::make_shared<StoreStream>(device_, options_.waits);
  if (owner_ == nullptr) store_->record_on(&spans_);
  for (size_t b = 0; b < bucket_count(); b++) {
    upload_tables_.push_back(parameters_->store_table(options_.bucket_begin[b], bucket_end(b)));
  }
  prepare();
  for (size_t turn = 0; turn < (training() && on_device ? StoreStream::kTurns : 1); turn++) {
    Results& results = results_.emplace_back();
    results.copied = make_event();
    for (const graph::HeadInfo& head : shapes_.heads) {
      results.values.emplace_back(static_cast<size_t>(options_.batch_size * head.outputs) * sizeof(float));
    }
  }
  const PassInput input{batch_memory_->inputs(), batch_memory_->labels(), batch_memory_->keys(),
                        scales_loss() ? loss_scale_->device() : nullptr};
  DT_TRY(program_, CompiledProgram::bind(lower({graph_, shapes_, options_, layout, plans_, *parameters_, input}),
                                         graph_, options_, spans_));
  return {};
}

size_t CudaExecutor::bucket_end(size_t bucket) const {
  return dtrain::bucket_end(options_.bucket_begin, bucket, shapes_.parameters.size());
}

void CudaExecutor::follow(cudaStream_t first, cudaStream_t then) {
  DT_CUDA(cudaEventRecord(order_.get(), first));
  DT_CUDA(cudaStreamWaitEvent(then, order_.get(), 0));
}

void CudaExecutor::stage_batch(const exec::Batch& batch) {
  const DeviceSpans::Span span(&spans_, DeviceSpans::Track::kBatches, batch_.get(), "copy the batch");
  batch_memory_->stage(batch, batch_.get());
}

void CudaExecutor::run(Part& part) {
  if (spans_.is_on()) return program_->queue_recorded(part, compute_.get());
  CompiledProgram::queue(part, compute_.get());
}

void CudaExecutor::copy_results(size_t turn) {
  const DeviceSpans::Span span = span_of_copy("copy results to the host");
  const std::vector<PinnedMemory>& values = results_[turn].values;
  for (size_t head = 0; head < values.size(); head++) {
    DT_CUDA(cudaMemcpyAsync(values[head].data(), program_->result_at(head), values[head].bytes(),
                            cudaMemcpyDeviceToHost, copy_.get()));
  }
}

void CudaExecutor::finish_results() {
  if (!results_pending_) return;
  DT_CUDA(cudaSetDevice(device_));
  store_->await(results_[shown_].copied.get());
  results_pending_ = false;
  spans_.collect(compute_.get());
}

void CudaExecutor::set_loss_scale(const optim::LossScaleState& state) {
  DT_CHECK(state.scale > 0, "the loss scale is {}, but must be above 0", state.scale);
  if (loss_scale_ != nullptr) loss_scale_->set(state);
}

optim::LossScaleState CudaExecutor::loss_scale() {
  return loss_scale_ == nullptr ? optim::LossScaleState{} : loss_scale_->state();
}

std::span<const float> CudaExecutor::result(size_t head) {
  finish_results();
  const PinnedMemory& values = results_[shown_].values[head];
  return {static_cast<const float*>(values.data()), values.bytes() / sizeof(float)};
}

std::vector<float> CudaExecutor::node_output(NodeId node) {
  DT_CUDA(cudaSetDevice(device_));
  return program_->read_output(node, compute_.get());
}

std::vector<float> CudaExecutor::node_gradient(NodeId node) {
  DT_CUDA(cudaSetDevice(device_));
  const double scale = loss_scale_ == nullptr ? 1 : loss_scale_->state().scale;
  return program_->read_gradient(node, static_cast<float>(1 / scale), compute_.get());
}

size_t CudaExecutor::memory_bytes() const {
  size_t bytes = program_->bytes() + batch_memory_->bytes();
  for (const auto& table : upload_tables_) bytes += table.bytes();
  return bytes + parameters_->stored_bytes();
}

}  // namespace dtrain::cuda
