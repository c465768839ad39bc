// The interface for computing convolutions, implemented with cuDNN (dnn_runner.h) and, in tests, with plain loops.
#pragma once

#include <memory>

#include "base/error.h"
#include "cuda/dnn/pass.h"
#include "cuda/executor/program.h"

namespace dtrain::cuda {

// The device memory of one pass, aligned to 16 bytes. bias and z: only if the pass has them. workspace:
// workspace_bytes() of the plan.
struct ConvolutionPointers {
  void* x = nullptr;
  void* w = nullptr;
  void* y = nullptr;
  void* bias = nullptr;
  void* z = nullptr;
  void* workspace = nullptr;
};

class ConvolutionPlan {
 public:
  virtual ~ConvolutionPlan() = default;
  [[nodiscard]] virtual size_t workspace_bytes() const = 0;
  // The plan must outlive the call.
  [[nodiscard]] virtual Call bind(const ConvolutionPointers& pointers) const = 0;
};

// Makes plans for one device. Only one thread at a time may use it and the calls of its plans. It must outlive its
// plans.
class ConvolutionRunner {
 public:
  virtual ~ConvolutionRunner() = default;
  // Code::kDevice, naming the pass, if the device cannot compute it. tf32: as in exec::Options.
  virtual Result<std::shared_ptr<const ConvolutionPlan>> plan(const ConvolutionPass& pass, bool tf32) = 0;
  // Called after all plans of a graph were requested, so that they can be stored.
  virtual void planned() {}
};

}  // namespace dtrain::cuda
