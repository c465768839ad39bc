// The learned tensors of a network as an executor shows them and a store moves them.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/error.h"
#include "tensor/shape.h"

namespace dtrain {

// Numbers in memory that the host cannot reach, a device's: spans of it are handed on and never dereferenced elsewhere.
// A copy comes after all that was queued on that memory before, and is done when the call returns. One thread at a time
// calls it. Errors: those of what was queued (Code::kPeerLost).
class DeviceArrays {
 public:
  virtual ~DeviceArrays() = default;
  // Sizes are equal.
  virtual Result<> read(std::span<const float> on_device, std::span<float> on_host) = 0;
  virtual Result<> write(std::span<const float> on_host, std::span<float> on_device) = 0;
};

// How the values of a parameter begin (models.md 3.2; arithmetic: optim/initializer.h).
struct InitializerSpec {
  // kConstant: all are `magnitude`; kDiagonal: w[i, i, ...] is, all others are 0.
  enum class Kind { kXavier, kUniform, kNormal, kConstant, kDiagonal };
  enum class Factor { kAverage, kIn, kOut };
  Kind kind = Kind::kXavier;
  bool gaussian = false;             // xavier: draw from a normal distribution instead of a uniform one
  Factor factor = Factor::kAverage;  // xavier
  double magnitude = 3;              // xavier: magnitude; uniform: scale; normal: sigma
};

// What a network says of one of its parameters: nothing where what holds for all parameters holds for it too.
struct ParameterRule {
  std::optional<double> learning_rate, weight_decay;  // multipliers of the job's
  std::optional<InitializerSpec> initial;
};

// One parameter in canonical layout ([filters, c/groups, kernel_h, kernel_w] and so on), in memory of the executor.
struct ParameterSpan {
  std::string name;
  Shape shape;
  std::span<float> weight;
  std::span<float> gradient;  // empty for statistics, and in an executor for inference
  ParameterRule rule = {};
};

struct ParameterView {
  std::vector<ParameterSpan> parameters;  // in canonical order: the index is the key
  std::vector<ParameterSpan> statistics;  // moving means and variances, in canonical order

  // Each kind in one piece, for what is done to many arrays at once: the arrays lie in it in order, and what lies
  // between them is zero and of no meaning. Weights and gradients at the same places. Empty: they are scattered.
  std::span<float> all_weights = {}, all_gradients = {}, all_statistics = {};

  DeviceArrays* device = nullptr;  // whose arrays these are; none: the host's, which anybody may read and write
  std::span<float> number = {};    // one of no meaning in the device's memory, for whoever has to sum one there
};

// Between a view's memory and the host's, as DeviceArrays does; `device`: the view's.
Result<> read_array(DeviceArrays* device, std::span<const float> from, std::span<float> on_host);
Result<> write_array(DeviceArrays* device, std::span<const float> on_host, std::span<float> to);
// All weights and statistics from one view of a network to another, which have their arrays in one piece. Where
// `device` is the host's own, both are the same view: nothing is done.
Result<> copy_to_device(const ParameterView& host, const ParameterView& device);
Result<> copy_to_host(const ParameterView& device, const ParameterView& host);

// Where the parameters [first, end) lie in all_weights and all_gradients, with what lies between and behind them.
struct FlatInterval {
  size_t begin = 0, count = 0;
};
FlatInterval flat_interval(const ParameterView& view, size_t first, size_t end);

// A named array on its own: what checkpoints hold and servers hand out.
struct NamedArray {
  std::string name;
  Shape shape;
  std::vector<float> values;
};

}  // namespace dtrain
