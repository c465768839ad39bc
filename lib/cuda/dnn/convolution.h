// Convolutions as cuDNN plans: the operation graph of each pass (pass.h).
#pragma once

#include "cuda/dnn/pass.h"
#include "cuda/dnn/plan.h"

namespace dtrain::cuda {

cudnnDataType_t cudnn_type(Type type);

// Returns the operations of one pass. Slots: kX, kW and kY; with has_bias() also kBias [filters], and for a forward
// pass that adds also kZ, all of the tensors' type; for kForwardStatistics also kSum and kSquareSum [filters], float32.
OperationGraph operations_of(const ConvolutionPass& pass);

}  // namespace dtrain::cuda
