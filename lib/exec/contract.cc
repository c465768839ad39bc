#include "exec/contract.h"

namespace dtrain::exec {

namespace {

void check_same(const std::vector<ParameterSpan>& spans, const std::vector<graph::ParameterInfo>& infos) {
  DT_CHECK(spans.size() == infos.size(), "{} tensors to share, the graph has {}", spans.size(), infos.size());
  for (size_t i = 0; i < infos.size(); i++) {
    DT_CHECK(spans[i].name == infos[i].name && spans[i].shape == infos[i].shape,
             "tensor {} is {} {}, the graph has {} {}", i, spans[i].name, to_string(spans[i].shape), infos[i].name,
             to_string(infos[i].shape));
  }
}

std::vector<TensorName> names_of(const std::vector<graph::ParameterInfo>& infos) {
  std::vector<TensorName> names;
  for (const graph::ParameterInfo& info : infos) names.push_back({info.name, info.shape});
  return names;
}

}  // namespace

void check_options(const Options& options, const graph::Shapes& shapes) {
  DT_CHECK(options.batch_size >= 1, "batch size {}", options.batch_size);
  DT_CHECK(options.threads >= 1, "{} threads", options.threads);
  const std::vector<size_t>& begin = options.bucket_begin;
  DT_CHECK(!begin.empty() && begin[0] == 0, "the first bucket begins with the first parameter");
  for (size_t b = 1; b < begin.size(); b++) {
    DT_CHECK(begin[b] > begin[b - 1] && begin[b] < shapes.parameters.size(), "bucket {} begins at {} of {} parameters",
             b, begin[b], shapes.parameters.size());
  }
}

Result<> check_float32(const Options& options) {
  if (options.dtype == Type::kFloat32) return {};
  return fail(Code::kUsage, "CPU devices compute in float32, not in {}", type_name(options.dtype));
}

ParameterMemory parameter_memory(const graph::Shapes& shapes, Options::Purpose purpose,
                                 const FloatAllocator& allocate) {
  return {names_of(shapes.parameters), names_of(shapes.statistics), purpose == Options::Purpose::kTraining, allocate};
}

void check_same_parameters(const ParameterView& view, const graph::Shapes& shapes) {
  check_same(view.parameters, shapes.parameters);
  check_same(view.statistics, shapes.statistics);
}

Result<> check_batch(const Batch& batch, const Options& options, int64_t classes) {
  const auto expected = static_cast<size_t>(options.batch_size * element_count(options.image));
  DT_CHECK(batch.data.size() == expected, "a batch of {} numbers, compiled for {}", batch.data.size(), expected);
  const bool training = options.purpose == Options::Purpose::kTraining;
  if (batch.labels.empty() && !training) return {};
  const auto images = static_cast<size_t>(options.batch_size);
  DT_CHECK(batch.labels.size() == images, "{} labels for {} images", batch.labels.size(), images);
  for (size_t i = 0; i < images; i++) {
    const float label = batch.labels[i];
    // Written so that a NaN fails too; a whole number below `classes` is what float holds exactly.
    if (!(label >= 0 && label < static_cast<float>(classes)) ||
        label != static_cast<float>(static_cast<int64_t>(label))) {
      return fail(Code::kData, "label {} of image {} of the batch is not one of the classes 0 to {}", label, i,
                  classes - 1);
    }
  }
  return {};
}

}  // namespace dtrain::exec
