// Measures plans by running them on the device of this process.
#pragma once

#include <cudnn_graph.h>

#include "cuda/dnn/pass.h"
#include "cuda/dnn/plan.h"

namespace dtrain::cuda {

// Allocates the tensors of a pass on the current device, which must be the handle's, and returns a function that runs
// plans of the pass with them. The function holds the memory, may be used by one thread, and must not outlive the
// handle. Code::kDevice if the tensors do not fit into the device's memory.
//
// The function runs a plan a few times to warm up, then times several runs with CUDA events and returns their median.
// The time of a run that is shorter than its launch contains a part of the launch.
Result<Measure> measure_on_device(cudnnHandle_t handle, const ConvolutionPass& pass);

}  // namespace dtrain::cuda
