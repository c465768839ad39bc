// The learned arrays of a network, which executors expose and stores exchange.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/error.h"
#include "tensor/shape.h"

namespace dtrain {

// Access to arrays in device memory, which the host cannot access directly. Spans of this memory may be passed around,
// but the host must not dereference them. A copy begins after all work that was previously queued for this memory, and
// is complete when the call returns. Not thread-safe. An error is that of the queued work (Code::kPeerLost).
class DeviceArrays {
 public:
  virtual ~DeviceArrays() = default;
  // Copies from the device's memory to the host's. The spans must have the same size.
  virtual Result<> read(std::span<const float> on_device, std::span<float> on_host) = 0;
  virtual Result<> write(std::span<const float> on_host, std::span<float> on_device) = 0;
};

// How the initial values of a parameter are chosen. See docs/arithmetic.md, "Initializers"; implemented in
// optim/initializer.h.
struct InitializerSpec {
  // kConstant: all values are `magnitude`. kDiagonal: the elements w[i, i, ...] are `magnitude`, all others are 0.
  // kOrthogonal: `magnitude` times a matrix [shape[0], product of the other dimensions] with orthonormal rows, or with
  // orthonormal columns if it has more rows than columns. kIdentityTransformation: for the layer that computes the
  // transformation of a SpatialTransformer, which is then initially the identity: the weights are 0, and the bias is 1,
  // 0, 0, 0, 1, 0. kBilinear: a filter that enlarges images; the weights must have four dimensions.
  enum class Kind { kXavier, kUniform, kNormal, kConstant, kDiagonal, kOrthogonal, kIdentityTransformation, kBilinear };
  enum class Factor { kAverage, kIn, kOut };
  Kind kind = Kind::kXavier;
  // For kXavier and kOrthogonal: whether values are drawn from a normal distribution instead of a uniform one.
  bool gaussian = false;
  // For kXavier: whether the range follows from the number of inputs, of outputs, or from the average of both.
  Factor factor = Factor::kAverage;
  // For kXavier: the magnitude; uniform and orthogonal: the scale; normal: sigma; constant and diagonal: the value.
  double magnitude = 3;
};

// The role of an array in its layer. Optimizers and initializers depend on the role, never on the name.
//   kWeight  decays           initially by the job's initializer
//   kBias    does not decay   initially 0
//   kGamma   decays           initially 1
//   kBeta    does not decay   initially 0
//   kOther   does not decay   initially as its rule says: statistics, and arrays that have none of the above roles
enum class ParameterKind { kWeight, kBias, kGamma, kBeta, kOther };

// What the network prescribes for one of its parameters. Members that are not set follow from the job and the kind of
// the parameter.
struct ParameterRule {
  std::optional<double> learning_rate, weight_decay;  // factors by which the job's values are multiplied
  std::optional<InitializerSpec> initial;
};

// One parameter in canonical layout (for example [filters, c/groups, kernel_h, kernel_w]), in the executor's memory.
struct ParameterSpan {
  std::string name;
  ParameterKind kind;
  Shape shape;
  std::span<float> weight;
  std::span<float> gradient;  // empty for statistics, and in executors for inference
  ParameterRule rule = {};
};

struct ParameterView {
  std::vector<ParameterSpan> parameters;  // the parameters in canonical order; the index of a parameter is its key
  std::vector<ParameterSpan> statistics;  // moving means and variances, in canonical order

  // The weights, gradients and statistics, each as one block, for work on many arrays at once. A block contains the
  // arrays in order; between them are gaps of zeros, which have no meaning. The weight and the gradient of a parameter
  // have the same offset in their blocks. Empty if the arrays are not in one block.
  std::span<float> all_weights = {}, all_gradients = {}, all_statistics = {};

  // The device that owns these arrays; null if they are in host memory and can be accessed directly.
  DeviceArrays* device = nullptr;
  // A float in the memory of a device that decides whether a step counts: not 0 if a sum of gradients is not finite.
  std::span<float> nonfinite = {};
};

// Copy between the memory of a view and host memory, as DeviceArrays does. `device` is the device of the view.
Result<> read_array(DeviceArrays* device, std::span<const float> from, std::span<float> on_host);
Result<> write_array(DeviceArrays* device, std::span<const float> on_host, std::span<float> to);
// Copy all weights and statistics from one view of a network to another view. Both must have their arrays in blocks. If
// the device view is in host memory, both views refer to the same arrays, and nothing is copied.
Result<> copy_to_device(const ParameterView& host, const ParameterView& device);
Result<> copy_to_host(const ParameterView& device, const ParameterView& host);

// The position of the parameters [first, end) in all_weights and all_gradients, including the gaps between them and
// after them.
struct FlatInterval {
  size_t begin = 0, count = 0;
};
FlatInterval flat_interval(const ParameterView& view, size_t first, size_t end);

// A named array that owns its values, as checkpoints contain it and servers send it.
struct NamedArray {
  std::string name;
  Shape shape;
  std::vector<float> values;
};

}  // namespace dtrain
