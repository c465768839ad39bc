// The CUDA executor: a program of kernels and cuDNN plans on one device. Its contract is exec/executor.h, the only
// interface that the rest of dtrain uses.
//
// Streams: `compute` runs the program, `copy` moves weights, gradients and statistics, and `batch` moves the images.
// The store's stream is used by a store that works on the device, or by a group that sums gradients before `copy` moves
// them to the host. Events order the work between streams. The host waits only for data that it is about to read, and
// where the contract requires it.
//
// With parameters_on_device (on_device.cc), learned tensors stay on the device, and forward only stages the batch.
// Unless the caller asks for results before backward, both passes and the store's work between them are queued as one
// unit: a CUDA graph that is captured in the second step and replayed in later steps. With skip_bad_steps, this graph
// also decides whether the step counts, and adjusts the loss scale. The host waits once per step, for the results;
// meanwhile an announced batch is copied.
//
// While a trace is recorded (Options::timeline), calls are queued one by one instead, between events that time them
// (runtime/device_spans.h). The results are the same.
#pragma once

#include <memory>
#include <vector>

#include "comm/collective.h"
#include "cuda/executor/convolution_runner.h"
#include "cuda/executor/device_parameters.h"
#include "cuda/executor/lower.h"
#include "cuda/executor/pass_memory.h"
#include "cuda/executor/recorded_work.h"
#include "cuda/executor/segment.h"
#include "cuda/executor/timing.h"
#include "cuda/runtime/device_spans.h"
#include "cuda/runtime/store_stream.h"
#include "exec/executor.h"
#include "graph/graph.h"

namespace dtrain::cuda {

class CudaExecutor final : public exec::Executor {
 public:
  // Compiles for device `device`, which must also be the runner's. Errors are those of the runner. Throws DeviceError,
  // for example if there is not enough memory.
  static Result<std::unique_ptr<CudaExecutor>> compile(const graph::Graph& graph, const exec::Options& options,
                                                       Executor* weights_of, int device,
                                                       std::shared_ptr<ConvolutionRunner> runner);
  CudaExecutor(const CudaExecutor&) = delete;
  CudaExecutor& operator=(const CudaExecutor&) = delete;
  ~CudaExecutor() override;

  Result<> forward(const exec::Batch& batch, const exec::WeightsWait& wait) override;
  Result<> backward(const exec::GradientReady& ready) override;
  void set_loss_scale(const optim::LossScaleState& state) override;
  void skip_bad_steps(bool dynamic_scale) override;
  [[nodiscard]] optim::LossScaleState loss_scale() override;
  void announce(const exec::Batch& batch) override;
  const ParameterView& parameters() override;
  const ParameterView& device_parameters() override;
  bool skipped_update() override;
  size_t heads() const override { return shapes_.heads.size(); }
  std::span<const float> result(size_t head) override;
  std::vector<float> node_output(graph::NodeId node) override;
  std::vector<float> node_gradient(graph::NodeId node) override;
  [[nodiscard]] size_t memory_bytes() const override;

  // The stream in which a group works. With parameters_on_device, the store's optimizer works in it too.
  [[nodiscard]] const std::shared_ptr<StoreStream>& store_stream() const { return store_; }
  // With parameters_on_device, in training: runs `steps` steps on the batch call by call, without CUDA graphs, and
  // returns the calls in their order with their times. Errors: see backward().
  Result<std::vector<TimedCall>> time_calls(const exec::Batch& batch, const exec::GradientReady& ready, int steps);
  // Implements DeviceModule::sum_gradients for this rank of the group. The group works in store_stream().
  void sum_gradients_over(std::unique_ptr<comm::Collective> group);

 private:
  // Makes copies for users of device_parameters().
  class Arrays final : public DeviceArrays {
   public:
    explicit Arrays(CudaExecutor& executor) : executor_(executor) {}
    Result<> read(std::span<const float> on_device, std::span<float> on_host) override;
    Result<> write(std::span<const float> on_host, std::span<float> on_device) override;

   private:
    CudaExecutor& executor_;
  };

  CudaExecutor(const graph::Graph& graph, const exec::Options& options, graph::Shapes shapes, int device);
  Result<> build(std::shared_ptr<ConvolutionRunner> runner, CudaExecutor* owner);
  Result<> bind(const Lowered& lowered);
  void make_streams();
  void make_upload_tables();
  [[nodiscard]] bool training() const { return options_.purpose == exec::Options::Purpose::kTraining; }
  [[nodiscard]] bool scales_loss() const { return training() && options_.dtype == Type::kFloat16; }
  [[nodiscard]] bool on_device() const { return options_.parameters_on_device; }
  [[nodiscard]] size_t bucket_end(size_t bucket) const;

  // Makes work that is queued on `then` from now on wait for the work that is already queued on `first`.
  void follow(cudaStream_t first, cudaStream_t then);
  void begin_forward(const exec::Batch& batch);
  void stage_batch(const exec::Batch& batch);
  void copy_results();  // queues the copies of the results to the host
  Result<> queue_forward(const exec::WeightsWait& wait);
  void upload_bucket(size_t bucket);
  void download_results();
  void finish_results();
  Result<> queue_backward();
  Result<> sum_gradients(std::span<const size_t> buckets);
  Result<> backward_to_host(const exec::GradientReady& ready);

  // Calls that the device runs without synchronizing with a store, and the buckets for which it synchronizes afterwards
  // (StepRange).
  struct Part {
    Segment segment;
    std::vector<size_t> buckets;
    size_t first_call = 0;  // index of its segment's first call in call_names_
  };
  // Queues the part's calls: as a graph from the second run on, or one by one while they are recorded.
  void run(Part& part);
  void queue_recorded(Part& part);
  void queue_plainly(Part& part) { part.segment.queue(compute_.get()); }
  // A span of work that is queued in copy_; see DeviceSpans::Span.
  [[nodiscard]] DeviceSpans::Span span_of_copy(const char* name) {
    return {&spans_, DeviceSpans::Track::kCopies, copy_.get(), name};
  }

  // The functions for parameters_on_device. `queue` is the function that queues a part.
  using Queue = void (CudaExecutor::*)(Part& part);
  void stage(const exec::Batch& batch);
  void copy_ahead(const exec::Batch& batch);
  void copy_announced();
  void take_batch();
  void count_or_skip();
  void prepare_weights();
  void begin_pass();
  void end_pass();
  void forward_on_device(Queue queue);
  Result<> backward_on_device(const exec::GradientReady& ready, Queue queue);
  Result<> announce_all(const exec::GradientReady& ready);
  void run_staged();
  Result<> run_backward(const exec::GradientReady& ready);
  Result<> run_step(const exec::GradientReady& ready);
  Result<> queue_step(const exec::GradientReady& ready);
  Result<> finish_step();
  Result<> settle();
  Result<> queue_marked(const exec::GradientReady& ready, const std::function<void()>& mark);

  // Returns the values in [n, c, h, w] order, multiplied by a factor.
  std::vector<float> read(const Map& map, const void* address, float factor);

  graph::Graph graph_;
  exec::Options options_;
  graph::Shapes shapes_;
  int device_;
  std::shared_ptr<ConvolutionRunner> runner_;
  GraphPlans plans_;
  std::shared_ptr<DeviceParameters> parameters_;  // shared with the executors made with weights_of
  CudaExecutor* owner_ = nullptr;                 // the executor that owns the parameters, if it is another one
  ParameterView view_;
  std::vector<DeviceTable<WeightTensor>> upload_tables_;  // indexed by bucket
  std::unique_ptr<BatchMemory> batch_memory_;
  std::shared_ptr<LossScaleMemory> loss_scale_;  // in training with float16 or on the device; shared with the owner
  DeviceMemory arena_, scratch_, read_memory_;
  std::vector<const void*> result_at_;      // indexed by head
  std::vector<PinnedMemory> host_results_;  // indexed by head
  std::vector<Part> forward_, backward_;
  std::vector<TimedCall> call_names_;    // the calls of forward_ and backward_, in order
  std::vector<const char*> span_names_;  // names of the same calls, set if they are ever recorded
  DeviceSpans spans_;
  std::vector<Map> outputs_, gradients_;
  std::vector<void*> output_at_, gradient_at_;  // indexed by node: addresses of the maps
  CudaStream compute_, copy_, batch_;
  CudaEvent order_, uploaded_, results_;
  std::vector<CudaEvent> downloaded_;  // indexed by bucket
  bool results_pending_ = false;
  std::shared_ptr<StoreStream> store_;       // shared with the owner
  std::unique_ptr<comm::Collective> group_;  // sums gradients over its ranks before they are copied to the host

  // With parameters_on_device:
  Arrays arrays_{*this};
  ParameterView device_view_;
  RecordedWork step_;
  bool is_staged_ = false;  // whether a forward() has staged a batch that has not run yet
  exec::Batch announced_;   // empty if no batch is announced
  bool is_copied_ = false;  // whether the announced batch was copied, or its copy is queued
  CudaEvent taken_;  // occurs when the last batch has been taken, so that its staging memory is free for the next one
  bool skips_bad_steps_ = false;  // skip_bad_steps was called
  bool scale_is_dynamic_ = false;
  uint64_t skipped_ = 0;  // number of steps skipped before the last one
  DeviceMemory kept_statistics_;
};

}  // namespace dtrain::cuda
