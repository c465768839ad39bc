// What all backends have in common: they check what they are given, so that all reject the same things with the same
// messages, and they lay out parameters in the same way.
#pragma once

#include "exec/executor.h"
#include "tensor/parameter_memory.h"

namespace dtrain::exec {

// Throws CheckFailed for bucket boundaries, a batch size or a number of threads that only a bug can cause.
void check_options(const Options& options, const graph::Shapes& shapes);

// For the CPU backends: Code::kUsage for a type other than float32.
Result<> check_float32(const Options& options);

// Allocates the parameters and statistics that shape inference found; for training also the gradients.
ParameterMemory parameter_memory(const graph::Shapes& shapes, Options::Purpose purpose,
                                 const FloatAllocator& allocate = allocate_floats);

// Throws CheckFailed unless the parameters of an executor that is to be shared are those of `shapes`.
void check_same_parameters(const ParameterView& view, const graph::Shapes& shapes);

// Infers the shapes of a graph with the inputs of the options.
Result<graph::Shapes> infer_shapes(const graph::Graph& graph, const Options& options);

// Writes an input of a batch as floats, [n, shape]: copied, or converted from pixels. The batch must fit the form.
void copy_floats(const Batch::Input& input, const InputForm& form, std::span<float> floats);

// Copies one label of each example; `labels` as in a batch, with so many of them for an example.
void copy_labels(std::span<const float> labels, size_t position, size_t count, std::span<float> to);

// Throws CheckFailed if the sizes do not fit the options. Returns Code::kData for a label that is not a class, naming
// the image's position in the batch. Executors for inference also accept a batch without labels. Keys must be there if
// training draws random numbers from them.
Result<> check_batch(const Batch& batch, const Options& options, const graph::Shapes& shapes);

}  // namespace dtrain::exec
