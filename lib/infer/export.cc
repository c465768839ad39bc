#include "infer/export.h"

#include <map>
#include <vector>

#include "exec/contract.h"
#include "exec/folded_values.h"
#include "infer/export_metadata.h"
#include "infer/onnx_model.h"
#include "infer/safetensors.h"

namespace dtrain::infer {
namespace {

using Format = ExportOptions::Format;

std::vector<const ParameterSpan*> all_of(const ParameterView& values) {
  std::vector<const ParameterSpan*> all;
  for (const auto* spans : {&values.parameters, &values.statistics}) {
    for (const ParameterSpan& span : *spans) all.push_back(&span);
  }
  return all;
}

Result<> write_safetensors(const std::vector<const ParameterSpan*>& arrays,
                           const std::map<std::string, std::string>& metadata, const Write& write) {
  DT_TRY_VOID(write(safetensors_header(arrays, metadata)));
  for (const ParameterSpan* array : arrays) {
    DT_TRY_VOID(write({reinterpret_cast<const char*>(array->weight.data()), array->weight.size_bytes()}));
  }
  return {};
}

// A network whose batch norms have been folded, and its weights and statistics.
struct Folded {
  graph::FoldedGraph graph;
  graph::Shapes shapes;
  ParameterMemory values;
};

Result<Folded> folded(const LearnedNetwork& learned, const Shape& image) {
  Folded folded{.graph = graph::fold_batch_norms(learned.network.graph), .shapes = {}, .values = {}};
  DT_TRY(folded.shapes, graph::infer_shapes(folded.graph.graph, image));
  folded.values = exec::parameter_memory(folded.shapes, exec::Options::Purpose::kInference);
  exec::fill_folded(folded.graph, learned.values.view(), folded.values.view());
  return folded;
}

}  // namespace

ExportOptions::ExportOptions() {
  model.reads_images = false;
}

std::optional<Format> format_of(std::string_view path) {
  if (path.ends_with(".onnx")) return Format::kOnnx;
  if (path.ends_with(".safetensors")) return Format::kSafetensors;
  return std::nullopt;
}

Result<Exported> export_model(const ExportOptions& options, const Write& write, const Log& log) {
  DT_TRY(const TrainedModel model, find_model(options.model, log));
  DT_TRY(LearnedNetwork learned, read_network(model));
  const Shape& image = model.network().image_shape;
  Exported exported{.params = model.params, .network = model.network().network};
  if (options.fold_batch_norm) {
    DT_TRY(Folded network, folded(learned, image));
    exported.folded = network.graph.folds.size();
    learned.network.graph = std::move(network.graph.graph);
    learned.network.shapes = std::move(network.shapes);
    learned.values = std::move(network.values);
  }
  const ParameterView& values = learned.values.view();
  const std::vector<const ParameterSpan*> arrays = all_of(values);
  exported.arrays = arrays.size();
  DT_TRY(const std::vector<std::string> class_names, known_class_names(model, model.network().num_classes, log));
  const std::map<std::string, std::string> metadata = export_metadata(model, class_names);
  if (options.format == Format::kSafetensors) {
    DT_TRY_VOID(write_safetensors(arrays, metadata, write));
    return exported;
  }
  DT_TRY(const std::string bytes, onnx_bytes({.graph = learned.network.graph,
                                              .shapes = learned.network.shapes,
                                              .values = values,
                                              .image = image,
                                              .name = exported.network,
                                              .metadata = metadata}));
  DT_TRY_VOID(write(bytes));
  return exported;
}

}  // namespace dtrain::infer
