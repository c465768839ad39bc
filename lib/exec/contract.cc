#include "exec/contract.h"

#include "graph/graph.h"

#include <algorithm>

namespace dtrain::exec {

namespace {

void check_same(const std::vector<ParameterSpan>& spans, const std::vector<graph::ParameterInfo>& infos) {
  DT_CHECK(spans.size() == infos.size(), "the shared weights have {} tensors, but the graph has {}", spans.size(),
           infos.size());
  for (size_t i = 0; i < infos.size(); i++) {
    DT_CHECK(spans[i].name == infos[i].name && spans[i].shape == infos[i].shape,
             "tensor {} of the shared weights is {} {}, but that of the graph is {} {}", i, spans[i].name,
             to_string(spans[i].shape), infos[i].name, to_string(infos[i].shape));
  }
}

std::vector<TensorName> names_of(const std::vector<graph::ParameterInfo>& infos) {
  std::vector<TensorName> names;
  names.reserve(infos.size());
  for (const graph::ParameterInfo& info : infos) names.push_back({info.name, info.kind, info.shape, info.rule});
  return names;
}

}  // namespace

void check_options(const Options& options, const graph::Shapes& shapes) {
  DT_CHECK(options.batch_size >= 1, "batch size {}", options.batch_size);
  DT_CHECK(options.threads >= 1, "{} threads", options.threads);
  DT_CHECK(options.inputs.size() <= Batch::kInputsMax, "{} inputs", options.inputs.size());
  for (const InputForm& input : options.inputs) {
    DT_CHECK(input.normalisation == nullptr || input.normalisation->image() == input.shape,
             "the normalization is for images of shape {}, but the executor is for {}",
             to_string(input.normalisation->image()), to_string(input.shape));
  }
  const std::vector<size_t>& begin = options.bucket_begin;
  DT_CHECK(!begin.empty() && begin[0] == 0, "the first bucket must begin with the first parameter");
  for (size_t b = 1; b < begin.size(); b++) {
    DT_CHECK(begin[b] > begin[b - 1] && begin[b] < shapes.parameters.size(),
             "bucket {} begins at parameter {}, which is not after the previous bucket or not among the {} parameters",
             b, begin[b], shapes.parameters.size());
  }
}

Result<> check_float32(const Options& options) {
  if (options.dtype == Type::kFloat32) return {};
  return fail(Code::kUsage, "CPU devices compute in float32 only, not in {}", type_name(options.dtype));
}

ParameterMemory parameter_memory(const graph::Shapes& shapes, Options::Purpose purpose,
                                 const FloatAllocator& allocate) {
  return {names_of(shapes.parameters), names_of(shapes.statistics), purpose == Options::Purpose::kTraining, allocate};
}

void check_same_parameters(const ParameterView& view, const graph::Shapes& shapes) {
  check_same(view.parameters, shapes.parameters);
  check_same(view.statistics, shapes.statistics);
}

Result<graph::Shapes> infer_shapes(const graph::Graph& graph, const Options& options) {
  std::vector<Shape> shapes;
  for (const InputForm& input : options.inputs) shapes.push_back(input.shape);
  return graph::infer_shapes(graph, shapes);
}

void copy_floats(const Batch::Input& input, const InputForm& form, std::span<float> floats) {
  if (form.normalisation != nullptr) {
    form.normalisation->apply(input.pixels, input.mirrored, floats);
  } else {
    std::ranges::copy(input.floats, floats.begin());
  }
}

void copy_labels(std::span<const float> labels, size_t position, size_t count, std::span<float> to) {
  for (size_t i = 0; i < to.size(); i++) to[i] = labels[i * count + position];
}

namespace {

void check_input(const Batch::Input& input, const InputForm& form, int64_t batch_size) {
  const auto expected = static_cast<size_t>(batch_size * element_count(form.shape));
  const bool pixels = form.normalisation != nullptr;
  DT_CHECK(input.floats.size() == (pixels ? 0 : expected) && input.pixels.size() == (pixels ? expected : 0),
           "the batch has {} floats and {} pixels, but the executor was compiled for {} {}", input.floats.size(),
           input.pixels.size(), expected, pixels ? "pixels" : "floats");
  DT_CHECK(input.mirrored.size() == (pixels ? static_cast<size_t>(batch_size) : 0),
           "the batch has mirror flags for {} images", input.mirrored.size());
}

Result<> check_label(float label, size_t image, const graph::LabelInfo& info, size_t labels) {
  // The condition is false for a NaN too. Floats represent integers below `classes` exactly.
  if (label >= 0 && label < static_cast<float>(info.classes) &&
      label == static_cast<float>(static_cast<int64_t>(label))) {
    return {};
  }
  return fail(Code::kData, "image {} of the batch has label {}{}, which is not in the range 0 to {}", image, label,
              labels == 1 ? "" : fmt::format(" for '{}'", info.name), info.classes - 1);
}

}  // namespace

Result<> check_batch(const Batch& batch, const Options& options, const graph::Shapes& shapes) {
  for (size_t i = 0; i < options.inputs.size(); i++) {
    check_input(batch.inputs[i], options.inputs[i], options.batch_size);
  }
  const auto images = static_cast<size_t>(options.batch_size);
  if (batch.labels.empty() && options.purpose == Options::Purpose::kInference) return {};
  DT_CHECK(batch.keys.size() == images || (!shapes.draws && batch.keys.empty()), "the batch has {} keys for {} images",
           batch.keys.size(), images);
  const size_t count = shapes.labels.size();
  DT_CHECK(batch.labels.size() == images * count, "the batch has {} labels for {} images", batch.labels.size(), images);
  for (size_t i = 0; i < batch.labels.size(); i++) {
    DT_TRY_VOID(check_label(batch.labels[i], i / count, shapes.labels[i % count], count));
  }
  return {};
}

}  // namespace dtrain::exec
