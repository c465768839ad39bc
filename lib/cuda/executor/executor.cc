#include "cuda/executor/executor.h"

#include <cuda_runtime_api.h>

#include "cuda/kernels/layout.h"
#include "exec/contract.h"
#include "tensor/buckets.h"

namespace dtrain::cuda {

using graph::NodeId;

CudaExecutor::CudaExecutor(const graph::Graph& graph, const exec::Options& options, graph::Shapes shapes, int device)
    : graph_(graph), options_(options), shapes_(std::move(shapes)), device_(device), spans_(options.timeline, device) {}

Result<std::unique_ptr<CudaExecutor>> CudaExecutor::compile(const graph::Graph& graph, const exec::Options& options,
                                                            Executor* weights_of, int device,
                                                            std::shared_ptr<ConvolutionRunner> runner) {
  DT_TRY(graph::Shapes shapes, exec::infer_shapes(graph, options));
  exec::check_options(options, shapes);
  auto* owner = dynamic_cast<CudaExecutor*>(weights_of);
  DT_CHECK(weights_of == nullptr || owner != nullptr, "the executor that owns the weights belongs to another backend");
  std::unique_ptr<CudaExecutor> executor(new CudaExecutor(graph, options, std::move(shapes), device));
  if (owner != nullptr) {
    exec::check_same_parameters(owner->parameters(), executor->shapes_);
    DT_CHECK(!executor->training() || owner->training(),
             "a training executor can share weights only with another training executor");
    DT_CHECK(owner->options_.dtype == options.dtype && owner->device_ == device,
             "the shared weights have another type or are on another device");
    DT_CHECK(owner->on_device() == options.parameters_on_device,
             "executors that share weights must agree on parameters_on_device");
  }
  DT_TRY_VOID(executor->build(std::move(runner), owner));
  return executor;
}

CudaExecutor::~CudaExecutor() {
  // Queued work still uses the memory. A device that failed has no queued work left.
  if (device_hangs()) return;
  cudaSetDevice(device_);
  for (const CudaStream* stream : {&compute_, &copy_, &batch_}) {
    if (stream->get() != nullptr) cudaStreamSynchronize(stream->get());
  }
  if (store_ == nullptr) return;
  cudaStreamSynchronize(store_->get());
  if (owner_ != nullptr) return;
  store_->set_drop_graphs(nullptr);
  store_->record_on(nullptr);
}

Result<> CudaExecutor::build(std::shared_ptr<ConvolutionRunner> runner, CudaExecutor* owner) {
  DT_CUDA(cudaSetDevice(device_));
  runner_ = std::move(runner);
  const Layout layout = choose_layout(graph_, shapes_, options_);
  DT_TRY(plans_, plan_convolutions(graph_, shapes_, layout, options_, *runner_));
  parameters_ = owner != nullptr ? owner->parameters_
                                 : std::make_shared<DeviceParameters>(shapes_, options_.purpose, layout.weights);
  const ParameterView& view = parameters_->host().view();
  owner_ = owner;
  view_ = training() ? view : without_gradients(view);
  batch_memory_ = std::make_unique<BatchMemory>(options_, shapes_.labels.size(), training() && on_device(),
                                                training() && shapes_.draws);
  if (scales_loss() || (training() && on_device())) {
    loss_scale_ = owner != nullptr ? owner->loss_scale_ : std::make_shared<LossScaleMemory>();
  }
  make_streams();
  make_upload_tables();
  return bind(lower({graph_,
                     shapes_,
                     options_,
                     layout,
                     plans_,
                     *parameters_,
                     {batch_memory_->inputs(), batch_memory_->labels(), batch_memory_->keys(),
                      scales_loss() ? loss_scale_->device() : nullptr}}));
}

void CudaExecutor::make_streams() {
  for (CudaStream* stream : {&compute_, &copy_, &batch_}) *stream = make_stream();
  for (CudaEvent* event : {&order_, &uploaded_, &results_, &taken_}) *event = make_event();
  for (size_t b = 0; b < options_.bucket_begin.size(); b++) downloaded_.push_back(make_event());
  store_ = owner_ != nullptr ? owner_->store_ : std::make_shared<StoreStream>(device_, options_.waits);
  if (owner_ == nullptr) store_->record_on(&spans_);
  if (!on_device()) return;
  if (owner_ == nullptr) store_->set_drop_graphs([this] { step_ = RecordedWork(); });
  const ParameterView view = parameters_->device_view(owner_ != nullptr ? &owner_->arrays_ : &arrays_);
  device_view_ = training() ? view : without_gradients(view);
  if (training()) device_view_.nonfinite = {&loss_scale_->device()->nonfinite, 1};
}

size_t CudaExecutor::bucket_end(size_t bucket) const {
  return dtrain::bucket_end(options_.bucket_begin, bucket, shapes_.parameters.size());
}

void CudaExecutor::make_upload_tables() {
  for (size_t b = 0; b < options_.bucket_begin.size(); b++) {
    upload_tables_.push_back(parameters_->store_table(options_.bucket_begin[b], bucket_end(b)));
  }
}

namespace {

std::vector<void*> addresses_of(const std::vector<Map>& maps, const Addresses& at) {
  std::vector<void*> result;
  result.reserve(maps.size());
  for (const Map& map : maps) result.push_back(at.at(map.value));
  return result;
}

// The size of the largest map in float32, the type in which the maps are read.
size_t largest_bytes(const std::vector<Map>& maps) {
  int64_t most = 0;
  for (const Map& map : maps) most = std::max(most, map.exists() ? map.rows() * map.channels : 0);
  return static_cast<size_t>(most) * sizeof(float);
}

// Code::kDevice if the current device has too little free memory for `activations`, which grow with the batch, and
// `workspace`.
Result<> check_room(size_t activations, size_t workspace, int64_t batch_size) {
  constexpr size_t kMiB = 1 << 20;
  size_t free = 0, total = 0;
  DT_CUDA(cudaMemGetInfo(&free, &total));
  if (activations + workspace <= free) return {};
  const double left = free > workspace ? static_cast<double>(free - workspace) : 0;
  const auto fit = static_cast<int64_t>(static_cast<double>(batch_size) * left / static_cast<double>(activations));
  const std::string advice = fit < 1 ? "make the image or the network smaller"
                                     : fmt::format("use a smaller --batch-size: about {} images fit on a GPU", fit);
  return fail(Code::kDevice, "batches of {} images need {} MiB more of device memory, and {}: {}", batch_size,
              (activations + workspace) / kMiB, free_text(free, total), advice);
}

}  // namespace

Result<> CudaExecutor::bind(const Lowered& lowered) {
  const Program& program = lowered.program;
  const exec::MemoryPlan plan = program.plan_memory(!options_.keep_all);
  DT_TRY_VOID(check_room(plan.arena_bytes, program.scratch_bytes(), options_.batch_size));
  arena_ = DeviceMemory(plan.arena_bytes);
  scratch_ = DeviceMemory(program.scratch_bytes());
  const Addresses at = program.addresses(plan, arena_.at(0), scratch_.at(0));
  const auto parts_of = [&](const std::vector<StepRange>& ranges, bool backward) {
    std::vector<Part> parts;
    for (const StepRange& range : ranges) {
      std::vector<Call> calls;
      const size_t first_call = call_names_.size();
      for (size_t s = range.begin; s < range.end; s++) {
        const Step& step = program.steps()[s];
        calls.push_back(step.bind(at));
        call_names_.push_back(
            {.name = graph_.node(step.node).name, .backward = backward, .bytes = program.bytes_of(step)});
        span_names_.push_back(
            spans_.keep(fmt::format("{}: {}", call_names_.back().name, backward ? "backward" : "forward")));
      }
      parts.push_back({Segment(std::move(calls)), range.buckets, first_call});
    }
    return parts;
  };
  forward_ = parts_of(lowered.forward, false);
  backward_ = parts_of(lowered.backward, true);
  outputs_ = lowered.outputs;
  gradients_ = lowered.gradients;
  output_at_ = addresses_of(outputs_, at);
  gradient_at_ = addresses_of(gradients_, at);
  for (size_t head = 0; head < shapes_.heads.size(); head++) {
    result_at_.push_back(at.at(lowered.results[head]));
    host_results_.emplace_back(static_cast<size_t>(options_.batch_size * shapes_.heads[head].outputs) * sizeof(float));
  }
  if (options_.keep_all) read_memory_ = DeviceMemory(largest_bytes(outputs_));
  return {};
}

void CudaExecutor::follow(cudaStream_t first, cudaStream_t then) {
  DT_CUDA(cudaEventRecord(order_.get(), first));
  DT_CUDA(cudaStreamWaitEvent(then, order_.get(), 0));
}

// Prepares a pass: the memory that is written here may still be read by the previous pass, or by a pass of an executor
// that shares the weights, so this function waits for both passes.
void CudaExecutor::begin_forward(const exec::Batch& batch) {
  follow(compute_.get(), batch_.get());
  parameters_->begin_use(copy_.get());
  stage_batch(batch);
  follow(batch_.get(), compute_.get());
  const DeviceSpans::Span span = span_of_copy("copy statistics to the device");
  parameters_->upload_statistics(copy_.get());
  if (loss_scale_ != nullptr) loss_scale_->upload(copy_.get());
}

void CudaExecutor::stage_batch(const exec::Batch& batch) {
  const DeviceSpans::Span span(&spans_, DeviceSpans::Track::kBatches, batch_.get(), "copy the batch");
  batch_memory_->stage(batch, batch_.get());
}

void CudaExecutor::upload_bucket(size_t bucket) {
  const DeviceSpans::Span span = span_of_copy("copy weights to the device");
  parameters_->upload_weights(options_.bucket_begin[bucket], bucket_end(bucket), copy_.get());
  const DeviceTable<WeightTensor>& table = upload_tables_[bucket];
  if (!table.empty()) store_weights(table.table(), copy_.get());
}

Result<> CudaExecutor::queue_forward(const exec::WeightsWait& wait) {
  for (Part& part : forward_) {
    for (const size_t bucket : part.buckets) {
      DT_TRY_VOID(wait(bucket));
      upload_bucket(bucket);
    }
    if (!part.buckets.empty()) follow(copy_.get(), compute_.get());
    run(part);
  }
  return {};
}

void CudaExecutor::run(Part& part) {
  if (spans_.is_on()) return queue_recorded(part);
  part.segment.run(compute_.get());
}

void CudaExecutor::queue_recorded(Part& part) {
  size_t index = part.first_call;
  for (const Call& call : part.segment.calls()) {
    const DeviceSpans::Span span(&spans_, DeviceSpans::Track::kCompute, compute_.get(), span_names_[index], "operator",
                                 call_names_[index].bytes);
    call(compute_.get());
    index++;
  }
}

Result<> CudaExecutor::forward(const exec::Batch& batch, const exec::WeightsWait& wait) {
  DT_TRY_VOID(exec::check_batch(batch, options_, shapes_));
  DT_CUDA(cudaSetDevice(device_));
  finish_results();
  spans_.begin_step();
  if (on_device()) {
    for (size_t b = 0; b < options_.bucket_begin.size(); b++) DT_TRY_VOID(wait(b));
    stage(batch);
    if (!training()) run_staged();
    return {};
  }
  begin_forward(batch);
  Result<> result = queue_forward(wait);
  DT_CUDA(cudaEventRecord(uploaded_.get(), copy_.get()));
  follow(compute_.get(), copy_.get());
  if (result) download_results();
  parameters_->end_use(copy_.get());
  // The host's batch, weights and statistics belong to the caller again when this returns, even after an error. The
  // uploads finish long before the program has run.
  store_->await(batch_memory_->copied());
  store_->await(uploaded_.get());
  return result;
}

void CudaExecutor::download_results() {
  if (training()) parameters_->download_statistics(copy_.get());
  copy_results();
  DT_CUDA(cudaEventRecord(results_.get(), copy_.get()));
  results_pending_ = true;
}

void CudaExecutor::copy_results() {
  const DeviceSpans::Span span = span_of_copy("copy results to the host");
  for (size_t head = 0; head < host_results_.size(); head++) {
    DT_CUDA(cudaMemcpyAsync(host_results_[head].data(), result_at_[head], host_results_[head].bytes(),
                            cudaMemcpyDeviceToHost, copy_.get()));
  }
}

void CudaExecutor::finish_results() {
  if (is_staged_) run_staged();
  if (!results_pending_) return;
  DT_CUDA(cudaSetDevice(device_));
  store_->await(results_.get());
  results_pending_ = false;
  spans_.collect(compute_.get());
}

void CudaExecutor::sum_gradients_over(std::unique_ptr<comm::Collective> group) {
  DT_CHECK(training() && !on_device() && owner_ == nullptr,
           "the gradients of this executor are not copied to the host");
  group_ = std::move(group);
}

// Called when all work that completes these buckets is queued on compute_. Returns when the reduction is queued. copy_
// waits for the reduction.
Result<> CudaExecutor::sum_gradients(std::span<const size_t> buckets) {
  follow(compute_.get(), store_->get());
  for (const size_t bucket : buckets) {
    const DeviceParameters::Piece own = parameters_->gradients(options_.bucket_begin[bucket], bucket_end(bucket));
    DT_TRY_VOID(group_->reduce({own.data, static_cast<size_t>(own.count)}, 0));
  }
  follow(store_->get(), copy_.get());
  return {};
}

Result<> CudaExecutor::queue_backward() {
  const bool gives_gradients = group_ == nullptr || group_->rank() == 0;
  for (Part& part : backward_) {
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
  follow(compute_.get(), copy_.get());  // for steps after the last bucket, if there are any
  parameters_->end_use(copy_.get());
  return {};
}

// Runs the backward pass. It is queued as a whole before the host waits for its first part, so that the device never
// waits for the host.
Result<> CudaExecutor::backward_to_host(const exec::GradientReady& ready) {
  DT_TRY_VOID(queue_backward());
  for (size_t bucket = downloaded_.size(); bucket-- > 0;) {
    DT_TRY_VOID(store_->wait(downloaded_[bucket].get()));
    DT_TRY_VOID(ready(bucket));
  }
  results_pending_ = false;  // because the results were copied before the gradients, in the same stream
  spans_.collect(compute_.get());
  return {};
}

Result<> CudaExecutor::backward(const exec::GradientReady& ready) {
  DT_CHECK(training(), "an inference executor has no backward pass");
  DT_CUDA(cudaSetDevice(device_));
  if (on_device()) return is_staged_ ? run_step(ready) : run_backward(ready);
  Result<> outcome = backward_to_host(ready);
  if (outcome) return outcome;
  // After an error the group is canceled. Otherwise the other devices would wait for this device's gradients, and its
  // own sums for theirs; the wait for the store's stream ends the sums. Copies to the host must end before this call
  // returns.
  if (group_ != nullptr) {
    group_->cancel(outcome.error());
    (void)store_->wait(results_.get());
  }
  if (!device_hangs()) cudaStreamSynchronize(copy_.get());
  return outcome;
}

void CudaExecutor::set_loss_scale(const optim::LossScaleState& state) {
  DT_CHECK(state.scale > 0, "the loss scale is {}, but must be above 0", state.scale);
  if (loss_scale_ != nullptr) loss_scale_->set(state);
}

optim::LossScaleState CudaExecutor::loss_scale() {
  return loss_scale_ == nullptr ? optim::LossScaleState{} : loss_scale_->state();
}

const ParameterView& CudaExecutor::parameters() {
  if (!on_device()) finish_results();
  return view_;
}

std::span<const float> CudaExecutor::result(size_t head) {
  finish_results();
  const PinnedMemory& values = host_results_[head];
  return {static_cast<const float*>(values.data()), values.bytes() / sizeof(float)};
}

std::vector<float> CudaExecutor::read(const Map& map, const void* address, float factor) {
  DT_CHECK(options_.keep_all, "the values of single nodes are kept only with keep_all");
  if (!map.exists()) return {};
  DT_CUDA(cudaSetDevice(device_));
  std::vector<float> values(static_cast<size_t>(map.rows() * map.channels));
  to_planar({map.type, Type::kFloat32, map.n, map.channels, map.positions()}, {address, map.pitch}, read_memory_.at(0),
            compute_.get());
  DT_CUDA(cudaMemcpyAsync(values.data(), read_memory_.at(0), values.size() * sizeof(float), cudaMemcpyDeviceToHost,
                          compute_.get()));
  DT_CUDA(cudaStreamSynchronize(compute_.get()));
  for (float& value : values) value *= factor;
  return values;
}

std::vector<float> CudaExecutor::node_output(NodeId node) {
  return read(outputs_[node], output_at_[node], 1);
}

std::vector<float> CudaExecutor::node_gradient(NodeId node) {
  const double scale = loss_scale_ == nullptr ? 1 : loss_scale_->state().scale;
  return read(gradients_[node], gradient_at_[node], static_cast<float>(1 / scale));
}

size_t CudaExecutor::memory_bytes() const {
  size_t bytes = arena_.bytes() + scratch_.bytes() + read_memory_.bytes() + batch_memory_->bytes();
  for (const auto& table : upload_tables_) bytes += table.bytes();
  return bytes + parameters_->stored_bytes();
}

}  // namespace dtrain::cuda
