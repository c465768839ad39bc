// The CUDA executor: a program of kernels and cuDNN's plans on one device. exec/executor.h is its contract, and all
// that the rest of the program sees.
//
// Three streams: `compute` runs the program, `copy` moves weights, gradients and statistics, `batch` the images. What
// one does before another is said by events; the host waits only for what it is to read, and where its callers say so.
#pragma once

#include <memory>
#include <vector>

#include "cuda/executor/convolution_runner.h"
#include "cuda/executor/device_parameters.h"
#include "cuda/executor/lower.h"
#include "cuda/executor/pass_memory.h"
#include "cuda/executor/segment.h"
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
  bool overflowed() override;
  const ParameterView& parameters() override;
  std::span<const float> probabilities() override;
  std::vector<float> node_output(graph::NodeId node) override;
  std::vector<float> node_gradient(graph::NodeId node) override;
  [[nodiscard]] size_t memory_bytes() const override;

 private:
  CudaExecutor(const graph::Graph& graph, const exec::Options& options, graph::Shapes shapes, int device);
  Result<> build(std::shared_ptr<ConvolutionRunner> runner, CudaExecutor* owner);
  void bind(const Lowered& lowered);
  void make_streams();
  void make_upload_tables();
  [[nodiscard]] bool training() const { return options_.purpose == exec::Options::Purpose::kTraining; }
  [[nodiscard]] bool scales_loss() const { return training() && options_.dtype == Type::kFloat16; }
  [[nodiscard]] size_t bucket_end(size_t bucket) const;

  // Work queued on `then` from now on waits for what is queued on `first` by now.
  void follow(const CudaStream& first, const CudaStream& then);
  void begin_forward(const exec::Batch& batch);
  Result<> queue_forward(const exec::WeightsWait& wait);
  void upload_bucket(size_t bucket);
  void download_results();
  void finish_results();
  void queue_backward();
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
  ParameterView view_;
  std::vector<DeviceTable<WeightTensor>> upload_tables_;  // by bucket
  std::unique_ptr<BatchMemory> batch_memory_;
  std::unique_ptr<LossScaleMemory> loss_scale_;  // float16 in training
  DeviceMemory arena_, scratch_, read_memory_;
  PinnedMemory probabilities_;
  std::vector<Part> forward_, backward_;
  std::vector<Map> outputs_, gradients_;
  std::vector<void*> output_at_, gradient_at_;  // by node: addresses of the maps
  CudaStream compute_, copy_, batch_;
  CudaEvent order_, uploaded_, results_;
  std::vector<CudaEvent> downloaded_;  // by bucket
  bool results_pending_ = false;
};

}  // namespace dtrain::cuda
