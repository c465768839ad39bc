#include "cuda/dnn/measure.h"

#include <algorithm>
#include <array>
#include <deque>
#include <memory>

#include "cuda/runtime/handle.h"
#include "cuda/runtime/memory.h"

namespace dtrain::cuda {

namespace {

constexpr int kWarmUps = 3, kRuns = 9;

// The tensors of one pass, and a stream to run its plans in.
class Stopwatch {
 public:
  Stopwatch(cudnnHandle_t handle, const ConvolutionPass& pass) : handle_(handle), stream_(make_stream()) {
    const ConvolutionShape& s = pass.shape;
    const graph::Convolution& op = s.op;
    const int64_t x_pitch = s.x_pitch == 0 ? s.c : s.x_pitch, y_pitch = s.y_pitch == 0 ? op.filters : s.y_pitch;
    const int64_t size = bytes_of(pass.type);
    add(Slot::kX, s.n * s.h * s.w * x_pitch * size);
    add(Slot::kW, op.filters * op.kernel_h * op.kernel_w * (s.c / op.groups) * size);
    add(Slot::kY, s.n * s.p() * s.q() * y_pitch * size);
    if (pass.has_bias()) add(Slot::kBias, op.filters * size);
    if (pass.pass == Pass::kForward && pass.adds) add(Slot::kZ, s.n * s.p() * s.q() * op.filters * size);
    if (pass.pass == Pass::kForwardStatistics) {
      add(Slot::kSum, op.filters * static_cast<int64_t>(sizeof(float)));
      add(Slot::kSquareSum, op.filters * static_cast<int64_t>(sizeof(float)));
    }
    DT_CUDA(cudaDeviceSynchronize());  // the memory is filled in the default stream, for which stream_ does not wait
  }

  double seconds(const Plan& plan) {
    if (plan.workspace_bytes() > workspace_.bytes()) {
      workspace_ = DeviceMemory();  // frees the smaller one first
      workspace_ = DeviceMemory(plan.workspace_bytes());
    }
    const BoundPlan bound = plan.bind(bindings_, workspace_.bytes() == 0 ? nullptr : workspace_.at(0));
    for (int i = 0; i < kWarmUps; i++) bound.run(handle_, stream_.get());
    for (int i = 0; i < kRuns; i++) {
      DT_CUDA(cudaEventRecord(begins_.at(i).get(), stream_.get()));
      bound.run(handle_, stream_.get());
      DT_CUDA(cudaEventRecord(ends_.at(i).get(), stream_.get()));
    }
    DT_CUDA(cudaStreamSynchronize(stream_.get()));
    return median_of_runs();
  }

 private:
  // Adds a tensor in which all bytes are 0x3C. The values are near 1 in float16 and near 0.01 in the other types. With
  // zeros, a device would run faster than in training, because it needs less power.
  void add(Slot slot, int64_t bytes) {
    const DeviceMemory& memory = tensors_.emplace_back(static_cast<size_t>(bytes));
    DT_CUDA(cudaMemset(memory.at(0), 0x3C, memory.bytes()));
    bindings_.push_back({slot, memory.at(0)});
  }

  [[nodiscard]] double median_of_runs() const {
    std::array<float, kRuns> milliseconds{};
    for (int i = 0; i < kRuns; i++) {
      DT_CUDA(cudaEventElapsedTime(&milliseconds.at(i), begins_.at(i).get(), ends_.at(i).get()));
    }
    std::ranges::nth_element(milliseconds, milliseconds.begin() + kRuns / 2);
    return static_cast<double>(milliseconds.at(kRuns / 2)) * 1e-3;
  }

  static std::array<CudaEvent, kRuns> make_events() {
    std::array<CudaEvent, kRuns> events;
    for (CudaEvent& event : events) event = make_event(true);
    return events;
  }

  cudnnHandle_t handle_;
  std::deque<DeviceMemory> tensors_;
  DeviceMemory workspace_;
  std::vector<Binding> bindings_;
  std::array<CudaEvent, kRuns> begins_ = make_events(), ends_ = make_events();
  CudaStream stream_;  // destroyed first
};

// Clears CUDA's record of the error, which the check after the next kernel launch would report otherwise. An error that
// makes the device unusable remains.
tl::unexpected<Error> failed(const DeviceError& error) {
  static_cast<void>(cudaGetLastError());
  return tl::unexpected(error.error());
}

}  // namespace

Result<Measure> measure_on_device(cudnnHandle_t handle, const ConvolutionPass& pass) {
  try {
    const auto stopwatch = std::make_shared<Stopwatch>(handle, pass);
    return [stopwatch](const Plan& plan) -> Result<double> {
      try {
        return stopwatch->seconds(plan);
      } catch (const DeviceError& error) {
        return failed(error);
      }
    };
  } catch (const DeviceError& error) {
    return failed(error);
  }
}

}  // namespace dtrain::cuda
