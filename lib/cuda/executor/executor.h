// The CUDA executor: a program of kernels and cuDNN's plans on one device. exec/executor.h is its contract, and all
// that the rest of the program sees.
//
// Streams: `compute` runs the program, `copy` moves weights, gradients and statistics, `batch` the images, and in that
// of the store a store works on the device, or a group that sums gradients before `copy` takes them to the host. What
// one does before another is said by events; the host waits only for what it is to read, and where its callers say so.
//
// With parameters_on_device (on_device.cc) no learned tensor travels. forward only stages the batch: if nobody asks for
// its results before backward, both passes and what the store does in between are one piece of work, one CUDA graph
// from the third step on. With leave_out_bad_steps that graph also decides whether the step counts, and moves the loss
// scale. The host waits once a step, for its results; a batch that was announced is copied in the meantime.
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
#include "cuda/runtime/store_stream.h"
#include "exec/executor.h"

namespace dtrain::cuda {

class CudaExecutor final : public exec::Executor {
 public:
  // On the device `device`, which is the runner's too. Code::kDevice if it has not enough memory.
  static Result<std::unique_ptr<CudaExecutor>> compile(const graph::Graph& graph, const exec::Options& options,
                                                       Executor* weights_of, int device,
                                                       std::shared_ptr<ConvolutionRunner> runner);
  CudaExecutor(const CudaExecutor&) = delete;
  CudaExecutor& operator=(const CudaExecutor&) = delete;
  ~CudaExecutor() override;

  Result<> forward(const exec::Batch& batch, const exec::WeightsWait& wait) override;
  Result<> backward(const exec::GradientReady& ready) override;
  void set_loss_scale(double scale) override;
  bool leave_out_bad_steps(bool dynamic_scale) override;
  void set_good_steps(uint32_t steps) override;
  void announce(const exec::Batch& batch) override;
  bool overflowed() override;
  const ParameterView& parameters() override;
  const ParameterView& device_parameters() override;
  bool has_bad_gradient() override;
  bool left_out_update() override;
  std::span<const float> probabilities() override;
  std::vector<float> node_output(graph::NodeId node) override;
  std::vector<float> node_gradient(graph::NodeId node) override;
  [[nodiscard]] size_t memory_bytes() const override;

  // Where a group, and with parameters_on_device the store's optimizer, works.
  [[nodiscard]] const std::shared_ptr<StoreStream>& store_stream() const { return store_; }
  // With parameters_on_device, in training: what says in the device's memory that a sum of gradients is not finite.
  [[nodiscard]] LossScale* flag_of_sums() const { return loss_scale_->of_sums(); }
  // With parameters_on_device, in training: takes `steps` steps of the batch call by call, never as a graph, and
  // returns the calls in their order with their times. Errors: backward's.
  Result<std::vector<TimedCall>> time_calls(const exec::Batch& batch, const exec::GradientReady& ready, int steps);
  // DeviceModule::sum_gradients, for this rank of the group, which works in store_stream().
  void sum_gradients_over(std::unique_ptr<comm::Collective> group);

 private:
  // Copies for those who see device_parameters().
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
  void bind(const Lowered& lowered);
  void make_streams();
  void make_upload_tables();
  [[nodiscard]] bool training() const { return options_.purpose == exec::Options::Purpose::kTraining; }
  [[nodiscard]] bool scales_loss() const { return training() && options_.dtype == Type::kFloat16; }
  [[nodiscard]] bool on_device() const { return options_.parameters_on_device; }
  [[nodiscard]] size_t bucket_end(size_t bucket) const;

  // Work queued on `then` from now on waits for what is queued on `first` by now.
  void follow(cudaStream_t first, cudaStream_t then);
  void begin_forward(const exec::Batch& batch);
  Result<> queue_forward(const exec::WeightsWait& wait);
  void upload_bucket(size_t bucket);
  void download_results();
  void finish_results();
  Result<> queue_backward();
  Result<> sum_gradients(std::span<const size_t> buckets);
  Result<> backward_to_host(const exec::GradientReady& ready);

  // The passes with parameters_on_device. `queue`: how a segment is queued.
  using Queue = void (*)(Segment& segment, cudaStream_t stream);
  void stage(const exec::Batch& batch);
  void copy_ahead(const exec::Batch& batch);
  void copy_announced();
  void take_batch();
  [[nodiscard]] bool has_nonfinite() const;
  Result<> update_unless_bad(const exec::GradientReady& ready);
  void begin_pass();
  void end_pass();
  void forward_on_device(Queue queue);
  Result<> backward_on_device(const exec::GradientReady& ready, Queue queue);
  Result<> announce_all(const exec::GradientReady& ready);
  void run_staged();
  Result<> run_backward(const exec::GradientReady& ready);
  Result<> run_step(const exec::GradientReady& ready);
  Result<> settle();
  Result<> queue_marked(const exec::GradientReady& ready, const std::function<void()>& mark);

  // [n, c, h, w], times a factor.
  std::vector<float> read(const Map& map, const void* address, float factor);

  // Calls that the device runs without a meeting with the host, and the buckets to meet for (StepRange).
  struct Part {
    Segment segment;
    std::vector<size_t> buckets;
  };

  graph::Graph graph_;
  exec::Options options_;
  graph::Shapes shapes_;
  int device_;
  std::shared_ptr<ConvolutionRunner> runner_;
  GraphPlans plans_;
  std::shared_ptr<DeviceParameters> parameters_;  // shared with the executors that were made with weights_of
  CudaExecutor* owner_ = nullptr;                 // of the parameters, if it is another one
  ParameterView view_;
  std::vector<DeviceTable<WeightTensor>> upload_tables_;  // by bucket
  std::unique_ptr<BatchMemory> batch_memory_;
  std::unique_ptr<LossScaleMemory> loss_scale_;  // in training, of float16 or with the parameters on the device
  DeviceMemory arena_, scratch_, read_memory_;
  PinnedMemory probabilities_;
  std::vector<Part> forward_, backward_;
  std::vector<TimedCall> call_names_;  // of their calls, in order
  std::vector<Map> outputs_, gradients_;
  std::vector<void*> output_at_, gradient_at_;  // by node: addresses of the maps
  CudaStream compute_, copy_, batch_;
  CudaEvent order_, uploaded_, results_;
  std::vector<CudaEvent> downloaded_;  // by bucket
  bool results_pending_ = false;
  std::shared_ptr<StoreStream> store_;       // the owner's
  std::unique_ptr<comm::Collective> group_;  // over whose ranks gradients are summed on their way to the host

  // With parameters_on_device:
  Arrays arrays_{*this};
  ParameterView device_view_;
  RecordedWork step_;
  bool is_staged_ = false;    // the batch of a forward that has not run
  exec::Batch announced_;     // empty: none
  bool is_copied_ = false;    // the announced batch, or it is on its way
  CudaEvent taken_;           // the last batch: the place for the next one is free
  bool leaves_out_ = false;   // leave_out_bad_steps
  LossScaleRule scale_rule_;  // then
  uint64_t skipped_ = 0;      // steps, before the last one
  DeviceMemory kept_statistics_;
};

}  // namespace dtrain::cuda
