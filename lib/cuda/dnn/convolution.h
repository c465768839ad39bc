// Convolutions as cuDNN plans: the operation graph of each pass (pass.h).
#pragma once

#include "cuda/dnn/pass.h"
#include "cuda/dnn/plan.h"

namespace dtrain::cuda {

cudnnDataType_t cudnn_type(Type type);

// Returns the operations of one pass. Slots: kX, kW, kY; kBias [filters], of the tensors' type, for a forward pass with
// bias; kSum and kSquareSum, float32 [filters], for kForwardStatistics.
OperationGraph operations_of(const ConvolutionPass& pass);

}  // namespace dtrain::cuda
