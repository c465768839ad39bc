// Operations over tensors, composed into one graph that becomes one plan (plan.h). All operations of a graph are fused.
// convolution.h lists the graphs that are used; a new kind of operation needs a function here.
#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <vector>

#include "cuda/dnn/descriptor.h"
#include "cuda/dnn/device.h"

namespace dtrain::cuda {

// The tensors of a plan that are in memory. The caller binds a pointer to each. In backward passes, kX, kW and kY mean
// tensors of these shapes, which are either values or gradients.
enum class Slot : int64_t { kX = 1, kW = 2, kY = 3, kBias = 4, kSum = 5, kSquareSum = 6, kZ = 7 };

const char* slot_name(Slot slot);  // for example "x"

// A tensor [n, c, h, w] with the channels innermost (NHWC; a filter [k, c, r, s] is stored as KRSC).
struct TensorExtent {
  int64_t n = 1, c = 1, h = 1, w = 1;
  // Elements from one pixel to the next; 0 means c. With a larger pitch the tensor is a slice of the channels of a
  // wider tensor, and its pointer points to the slice's first channel.
  int64_t pitch = 0;
};

struct Window {
  int64_t stride_h = 1, stride_w = 1, pad_h = 0, pad_w = 0, dilation_h = 1, dilation_w = 1;
};

// Every operation accumulates in float32. Pointers must be aligned to 16 bytes (kAlignment).
class OperationGraph {
 public:
  static constexpr int64_t kAlignment = 16;
  using Tensor = const Descriptor&;  // valid while the graph is under construction

  Tensor tensor(Slot slot, cudnnDataType_t type, const TensorExtent& extent);
  // A tensor that is passed from one operation to the next and never written to memory.
  Tensor passed_on(const TensorExtent& extent);

  // y = x (*) w. The number of groups follows from the channels of w.
  void convolution_forward(const Window& window, Tensor x, Tensor w, Tensor y);
  // adds: to what dx already contains.
  void convolution_backward_data(const Window& window, Tensor dx, Tensor w, Tensor dy, bool adds);
  void convolution_backward_filter(const Window& window, Tensor x, Tensor dw, Tensor dy);
  // y = a + b, with b broadcast along the axes where its extent is 1.
  void add(Tensor a, Tensor b, Tensor y);
  // For each channel, sums over n, h and w: sum = sum of x, square_sum = sum of x^2; both float32 [1, c, 1, 1].
  void statistics(Tensor x, Tensor sum, Tensor square_sum);

  // Returns the finalized graph; the object must not be used afterwards. DeviceError if cuDNN rejects an operation or
  // the graph as invalid. Whether an engine can run the graph is known only when a plan is chosen.
  Descriptor finish(const Device& device);
  // The slots in use, in the order in which they were added. Running the plan needs a pointer for each.
  [[nodiscard]] const std::vector<Slot>& slots() const { return slots_; }

 private:
  Tensor make_tensor(int64_t id, cudnnDataType_t type, const TensorExtent& extent, bool is_virtual);
  const Descriptor& convolution(const Window& window);
  Descriptor& operation(cudnnBackendDescriptorType_t type);

  std::deque<Descriptor> parts_;  // a deque, so that descriptors do not move while others are added
  std::vector<Descriptor> operations_;
  std::vector<Slot> slots_;
  int64_t passed_on_count_ = 0;
};

}  // namespace dtrain::cuda
