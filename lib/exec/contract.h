// What all backends have in common: they check their arguments here, so that all reject the same arguments with the
// same messages, and they arrange parameters in the same way.
#pragma once

#include "exec/executor.h"
#include "tensor/parameter_memory.h"

namespace dtrain::exec {

// Throws CheckFailed if bucket boundaries, the batch size or the number of threads have values that only a bug can
// cause.
void check_options(const Options& options, const graph::Shapes& shapes);

// For the CPU backends: Code::kUsage for a type other than float32.
Result<> check_float32(const Options& options);

// Allocates the parameters and statistics that shape inference found; for training also the gradients.
ParameterMemory parameter_memory(const graph::Shapes& shapes, Options::Purpose purpose,
                                 const FloatAllocator& allocate = allocate_floats);

// For an executor that shares the parameters of another one: throws CheckFailed unless these have the names and shapes
// of `shapes`.
void check_same_parameters(const ParameterView& view, const graph::Shapes& shapes);

// Infers the shapes of a graph with the inputs of the options.
Result<graph::Shapes> infer_shapes(const graph::Graph& graph, const Options& options);

// Writes an input of a batch as floats, [n, shape]: copies floats, or converts pixels. The batch must fit the form.
void copy_floats(const Batch::Input& input, const InputForm& form, std::span<float> floats);

// Copies the label at `position` of each example. `labels` are those of a batch, with `count` labels per example.
void copy_labels(std::span<const float> labels, size_t position, size_t count, std::span<float> to);

// Throws CheckFailed if the sizes do not fit the options. Returns Code::kData if a label is not a class; the message
// gives the image's position in the batch. Executors for inference also accept a batch without labels. Keys are
// required if training draws random numbers from them.
Result<> check_batch(const Batch& batch, const Options& options, const graph::Shapes& shapes);

}  // namespace dtrain::exec
