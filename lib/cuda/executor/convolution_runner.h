// Who computes convolutions: cuDNN (dnn_runner.h), or in tests plain loops.
#pragma once

#include <memory>

#include "base/error.h"
#include "cuda/dnn/pass.h"
#include "cuda/executor/program.h"

namespace dtrain::cuda {

// Device memory of one pass, aligned to 16 bytes. bias: where the pass has one; workspace: of the plan's size.
struct ConvolutionPointers {
  void* x = nullptr;
  void* w = nullptr;
  void* y = nullptr;
  void* bias = nullptr;
  void* workspace = nullptr;
};

class ConvolutionPlan {
 public:
  virtual ~ConvolutionPlan() = default;
  [[nodiscard]] virtual size_t workspace_bytes() const = 0;
  // The call does not outlive the plan.
  [[nodiscard]] virtual Call bind(const ConvolutionPointers& pointers) const = 0;
};

// One device's. One thread at a time uses it and the calls that come of it; plans outlive it.
class ConvolutionRunner {
 public:
  virtual ~ConvolutionRunner() = default;
  // Code::kDevice, naming the pass, if the device cannot compute it. tf32: exec::Options'.
  virtual Result<std::shared_ptr<const ConvolutionPlan>> plan(const ConvolutionPass& pass, bool tf32) = 0;
  // All plans of a graph were asked for: a time to keep them.
  virtual void planned() {}
};

}  // namespace dtrain::cuda
