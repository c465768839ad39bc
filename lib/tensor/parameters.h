// The learned tensors of a network, as executors expose them and stores exchange them.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/error.h"
#include "tensor/shape.h"

namespace dtrain {

// Access to device memory that the host cannot access directly. Spans of it may be passed around, but the host must not
// dereference them. A copy runs after all work that was queued on that memory before, and is complete when the call
// returns. Not thread-safe. Errors are those of the queued work (Code::kPeerLost).
class DeviceArrays {
 public:
  virtual ~DeviceArrays() = default;
  // The spans must have the same size.
  virtual Result<> read(std::span<const float> on_device, std::span<float> on_host) = 0;
  virtual Result<> write(std::span<const float> on_host, std::span<float> on_device) = 0;
};

// How the values of a parameter are initialized. See docs/arithmetic.md, "Initializers"; implemented in
// optim/initializer.h.
struct InitializerSpec {
  // kConstant: all values are `magnitude`. kDiagonal: w[i, i, ...] are `magnitude`, all others are 0. kOrthogonal:
  // `magnitude` times a matrix [shape[0], all others] with orthonormal rows, or columns if it has more rows.
  // kIdentityTransformation: for the layer whose outputs a SpatialTransformer reads, so that it begins as the identity.
  // The weights are 0, and the bias is 1, 0, 0, 0, 1, 0. kBilinear: a filter that enlarges images, for weights of four
  // dimensions.
  enum class Kind { kXavier, kUniform, kNormal, kConstant, kDiagonal, kOrthogonal, kIdentityTransformation, kBilinear };
  enum class Factor { kAverage, kIn, kOut };
  Kind kind = Kind::kXavier;
  bool gaussian = false;             // xavier, orthogonal: draw from a normal distribution instead of a uniform one
  Factor factor = Factor::kAverage;  // xavier
  double magnitude = 3;  // xavier: magnitude; uniform, orthogonal: scale; normal: sigma; constant, diagonal: the value
};

// The role of a tensor in its layer. Optimizers and initializers use this, never a name.
//   kWeight  decays           initially by the job's initializer
//   kBias    does not decay   initially 0
//   kGamma   decays           initially 1
//   kBeta    does not decay   initially 0
//   kOther   does not decay   initially as its rule says: statistics, and tensors that fit none of the above
enum class ParameterKind { kWeight, kBias, kGamma, kBeta, kOther };

// A network's rules for one of its parameters. Members that are not set follow from the job and the parameter's kind.
struct ParameterRule {
  std::optional<double> learning_rate, weight_decay;  // multiply the job's values
  std::optional<InitializerSpec> initial;
};

// One parameter in canonical layout ([filters, c/groups, kernel_h, kernel_w] and so on), in the executor's memory.
struct ParameterSpan {
  std::string name;
  ParameterKind kind;
  Shape shape;
  std::span<float> weight;
  std::span<float> gradient;  // empty for statistics and in executors for inference
  ParameterRule rule = {};
};

struct ParameterView {
  std::vector<ParameterSpan> parameters;  // in canonical order; the index is the parameter's key
  std::vector<ParameterSpan> statistics;  // moving means and variances, in canonical order

  // Each kind as one block, for work on many arrays at once. The block holds the arrays in order. The gaps between them
  // are zero and have no meaning. A parameter's weight and gradient are at the same offset. Empty if the arrays are not
  // in one block.
  std::span<float> all_weights = {}, all_gradients = {}, all_statistics = {};

  // The device that owns these arrays; null if they are in host memory and may be read and written directly.
  DeviceArrays* device = nullptr;
  std::span<float> number = {};  // device scratch float, used to all-reduce the sample count
};

// Copy between a view's memory and the host's, like DeviceArrays. `device` is that of the view.
Result<> read_array(DeviceArrays* device, std::span<const float> from, std::span<float> on_host);
Result<> write_array(DeviceArrays* device, std::span<const float> on_host, std::span<float> to);
// Copy all weights and statistics from one view of a network to another. Both must have their arrays in blocks. If the
// device view is in host memory, both views are the same, and nothing is copied.
Result<> copy_to_device(const ParameterView& host, const ParameterView& device);
Result<> copy_to_host(const ParameterView& device, const ParameterView& host);

// The range of the parameters [first, end) in all_weights and all_gradients, including the gaps between and after them.
struct FlatInterval {
  size_t begin = 0, count = 0;
};
FlatInterval flat_interval(const ParameterView& view, size_t first, size_t end);

// A named array that owns its values, as in checkpoints and in what servers send.
struct NamedArray {
  std::string name;
  Shape shape;
  std::vector<float> values;
};

}  // namespace dtrain
