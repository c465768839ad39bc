// What every backend checks of what it is given, so that all refuse the same things in the same words; and the memory
// that all show the same way.
#pragma once

#include "exec/executor.h"
#include "tensor/parameter_memory.h"

namespace dtrain::exec {

// Bucket boundaries, batch size and threads that no caller without a bug asks for: CheckFailed.
void check_options(const Options& options, const graph::Shapes& shapes);

// For the backends of the CPU: Code::kUsage for options of another type.
Result<> check_float32(const Options& options);

// Memory for the parameters and statistics that inference of shapes found; gradients too, for training.
ParameterMemory parameter_memory(const graph::Shapes& shapes, Options::Purpose purpose,
                                 const FloatAllocator& allocate = allocate_floats);

// An executor whose parameters another one is to use has the same parameters: CheckFailed otherwise.
void check_same_parameters(const ParameterView& view, const graph::Shapes& shapes);

// The images of a batch that fits the options as numbers, [n, c, h, w]: copied, or made of its pixels.
void copy_numbers(const Batch& batch, const Options& options, std::span<float> numbers);

// Sizes that do not fit the options: CheckFailed. A label that is not a class: Code::kData, naming the image's place in
// the batch. Executors for inference need no labels: none at all is fine there.
Result<> check_batch(const Batch& batch, const Options& options, int64_t classes);

}  // namespace dtrain::exec
