// The CUDA executor: a program of kernels and cuDNN plans on one device. Its contract is exec/executor.h, the only
// interface that the rest of dtrain uses. This class has what both kinds of executors share: the compiled network, its
// streams, and its results. They differ in where the learned tensors are:
//   HostExecutor (host_executor.h)      in the host's memory; the passes copy weights and gradients
//   DeviceExecutor (device_executor.h)  in the device's memory (Options::parameters_on_device); a step is one graph
//
// Streams, and what follows what in them. Events order the work between streams.
//   stream    work                                       begins after
//   batch     copies the batch to the device             the last pass that reads the same memory
//   compute   runs the program                           batch; copy (HostExecutor: weights); the store's last work
//   store     what a store or a group does on the device  compute: the part that completes the bucket
//   copy      moves weights, gradients and results       compute: the results; store: sums that go to the host
//             between host and device, and statistics
//             when the host asks for them or changes them
// The host waits only for data that it is about to read, and where the contract requires it. Two steps of a
// DeviceExecutor may be queued at the same time, so what passes between the host and a step exists twice
// (StoreStream::turn).
//
// While a trace is recorded (Options::timeline), calls are queued one by one instead, between events that time them
// (runtime/device_spans.h). The results are the same.
#pragma once

#include <memory>
#include <vector>

#include "cuda/executor/compiled_program.h"
#include "cuda/executor/convolution_runner.h"
#include "cuda/executor/device_parameters.h"
#include "cuda/executor/pass_memory.h"
#include "cuda/runtime/device_spans.h"
#include "cuda/runtime/store_stream.h"
#include "exec/executor.h"
#include "graph/graph.h"

namespace dtrain::cuda {

class CudaExecutor : public exec::Executor {
 public:
  // Compiles the graph for device number `device`, for which the runner must have been made. Errors are those of the
  // runner. Throws DeviceError, for example if there is not enough memory.
  static Result<std::unique_ptr<CudaExecutor>> compile(const graph::Graph& graph, const exec::Options& options,
                                                       Executor* weights_of, int device,
                                                       std::shared_ptr<ConvolutionRunner> runner);
  CudaExecutor(const CudaExecutor&) = delete;
  CudaExecutor& operator=(const CudaExecutor&) = delete;
  ~CudaExecutor() override;

  void set_loss_scale(const optim::LossScaleState& state) override;
  [[nodiscard]] optim::LossScaleState loss_scale() override;
  size_t heads() const override { return shapes_.heads.size(); }
  std::span<const float> result(size_t head) override;
  std::vector<float> node_output(graph::NodeId node) override;
  std::vector<float> node_gradient(graph::NodeId node) override;
  [[nodiscard]] size_t memory_bytes() const override;

  // The stream in which a group works. If the learned tensors are on the device, a store also works in this stream.
  [[nodiscard]] const std::shared_ptr<StoreStream>& store_stream() const { return store_; }
  // Where an optimizer on the device notes that a gradient is not finite; in device memory. Exists in training with
  // the learned tensors on the device.
  [[nodiscard]] LossScale* outcome() const { return loss_scale_->device(); }

 protected:
  using Part = CompiledProgram::Part;

  struct Setting {
    const graph::Graph& graph;
    const exec::Options& options;
    graph::Shapes shapes;
    int device;
    std::shared_ptr<ConvolutionRunner> runner;
    CudaExecutor* owner = nullptr;  // the executor that owns the parameters, if it is another one
  };
  explicit CudaExecutor(Setting setting);
  Result<> build();
  // Makes what only this kind of executor needs. Called after the streams are made, and before the program is compiled.
  virtual void prepare() = 0;

  // Waits for all queued work. Called by destructors, because the queued work uses the executor's memory. A device that
  // failed has no queued work left.
  void drain() noexcept;

  [[nodiscard]] bool training() const { return options_.purpose == exec::Options::Purpose::kTraining; }
  [[nodiscard]] bool scales_loss() const { return training() && options_.dtype == Type::kFloat16; }
  [[nodiscard]] size_t bucket_count() const { return options_.bucket_begin.size(); }
  [[nodiscard]] size_t bucket_end(size_t bucket) const;

  // Makes work that is queued on `then` from now on wait for the work that is already queued on `first`.
  void follow(cudaStream_t first, cudaStream_t then);
  void stage_batch(const exec::Batch& batch);
  // Queues the copies of the results to the host's memory for this turn in copy_.
  void copy_results(size_t turn);
  // Waits for the results that result() returns.
  virtual void finish_results();
  // Queues the part's calls: as a CUDA graph from the second run on, or one by one while spans are recorded.
  void run(Part& part);
  // Records the work that is queued in copy_ while the returned object exists; see DeviceSpans::Span.
  [[nodiscard]] DeviceSpans::Span span_of_copy(const char* name) {
    return {&spans_, DeviceSpans::Track::kCopies, copy_.get(), name};
  }

  graph::Graph graph_;
  exec::Options options_;
  graph::Shapes shapes_;
  int device_;
  std::shared_ptr<ConvolutionRunner> runner_;
  CudaExecutor* owner_;
  GraphPlans plans_;                                      // must outlive the program
  std::shared_ptr<DeviceParameters> parameters_;          // shared with the executors made with weights_of
  std::vector<DeviceTable<WeightTensor>> upload_tables_;  // indexed by bucket
  std::unique_ptr<BatchMemory> batch_memory_;
  // Null unless the executor trains, with float16 or with parameters on the device. Shared with owner_, if there is
  // one.
  std::shared_ptr<LossScaleMemory> loss_scale_;
  DeviceSpans spans_;
  CudaStream compute_, copy_, batch_;
  std::shared_ptr<StoreStream> store_;  // shared with owner_, if there is one
  CudaEvent order_;                     // used by follow() only
  struct Results {
    std::vector<PinnedMemory> values;  // indexed by head
    CudaEvent copied;                  // occurs when the results are on the host
  };
  // Indexed by turn (StoreStream::turn); a single element unless steps may be launched before the last one is finished.
  std::vector<Results> results_;
  size_t shown_ = 0;              // the turn of the results that result() returns
  bool results_pending_ = false;  // whether these may still be on their way
  std::unique_ptr<CompiledProgram> program_;
};

}  // namespace dtrain::cuda
