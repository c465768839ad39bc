#include "infer/info.h"

#include <algorithm>
#include <filesystem>
#include <numeric>

#include "base/json.h"
#include "base/printable.h"
#include "base/words.h"
#include "infer/onnx_model.h"
#include "infer/safetensors.h"
#include "job/resolve/network_file.h"
#include "role/setup/network.h"
#include "tensor/ndarray_file.h"
#include "train/checkpoint.h"

namespace dtrain::infer {
namespace {

namespace fs = std::filesystem;
using graph::NodeId;

// A table in text form. Each column is as wide as its longest cell. Numbers are aligned to the right.
class TextTable {
 public:
  explicit TextTable(std::vector<std::string> heads, size_t texts) : texts_(texts) { add(std::move(heads)); }

  void add(std::vector<std::string> cells) {
    widths_.resize(cells.size());
    for (size_t i = 0; i < cells.size(); i++) widths_[i] = std::max(widths_[i], cells[i].size());
    rows_.push_back(std::move(cells));
  }

  [[nodiscard]] std::string text() const {
    std::string all;
    for (const std::vector<std::string>& row : rows_) {
      std::string line;
      for (size_t i = 0; i < row.size(); i++) {
        line += i < texts_ ? fmt::format("{:<{}}  ", row[i], widths_[i]) : fmt::format("{:>{}}  ", row[i], widths_[i]);
      }
      line.erase(line.find_last_not_of(' ') + 1);
      all += line + "\n";
    }
    return all;
  }

 private:
  size_t texts_;  // number of columns that contain text; they precede the others
  std::vector<size_t> widths_;
  std::vector<std::vector<std::string>> rows_;
};

// True if `subject` names a model with weights: it is a directory, or the prefix of checkpoints.
Result<bool> is_model(const std::string& subject) {
  std::error_code ignored;
  if (fs::is_directory(subject, ignored)) return true;
  DT_TRY(const auto newest, train::newest_checkpoint(subject));
  return newest.has_value();
}

// The flags for a network that does not come from a run: its name or its symbol file. The image shape and the number of
// classes are those of the data set that it was designed for, unless the flags or the symbol file specify others.
Result<job::Flags> untrained_flags(const InfoOptions& options, const Log& log) {
  job::Flags flags = options.model.flags;
  flags.job.network.network = options.subject;
  flags.job.augment.benchmark = true;
  DT_TRY_VOID(job::resolve_network_file(flags));
  const job::NetworkFlags& network = flags.job.network;
  const bool is_given = !network.image_shape.empty();
  DT_TRY_VOID(role::complete_flags(flags));
  if (is_given || !job::is_name_of_file(network.network)) return flags;
  DT_TRY(const Shape stated, role::stated_image(network));
  if (stated.empty()) {
    log.warn("{} does not state its image size, so {} is assumed; --image-shape C,H,W sets another size",
             network.network, to_string(network.image_shape));
  }
  return flags;
}

Result<job::Flags> flags_of(const InfoOptions& options, const Log& log) {
  DT_TRY(const bool has_weights, is_model(options.subject));
  if (!has_weights && !options.model.epoch) return untrained_flags(options, log);
  ModelChoice choice = options.model;
  choice.flag = "model";
  choice.model = options.subject;
  choice.reads_images = false;
  DT_TRY(TrainedModel model, find_model(choice, log));
  return std::move(model.flags);
}

LayerInfo layer_info(const role::Network& network, NodeId id, int64_t batch_size) {
  const graph::Node& node = network.graph.node(id);
  LayerInfo layer{.name = node.name,
                  .op = std::string(graph::op_name(node.op)),
                  .inputs = {},
                  .output = network.shapes.output[id],
                  .activation_bytes = element_count(network.shapes.output[id]) * batch_size * bytes_of(Type::kFloat32)};
  for (const NodeId input : node.data_inputs) layer.inputs.push_back(network.graph.node(input).name);
  return layer;
}

nlohmann::ordered_json json_of(const LayerInfo& layer) {
  return {{"name", layer.name},
          {"operator", layer.op},
          {"inputs", layer.inputs},
          {"output", layer.output},
          {"parameters", layer.parameters},
          {"multiply_adds", layer.multiply_adds},
          {"activation_bytes", layer.activation_bytes}};
}

std::string header_text(const train::CheckpointHeader& header) {
  return json_text(nlohmann::ordered_json{{"epoch", header.position.epoch},
                                          {"step", header.position.step},
                                          {"samples", header.position.samples},
                                          {"updates", header.position.updates},
                                          {"learning_rate", header.learning_rate},
                                          {"seed", header.seed},
                                          {"job_hash", header.job_hash}});
}

std::string metadata_text(const std::map<std::string, std::string>& metadata) {
  size_t width = 0;
  for (const auto& [key, value] : metadata) width = std::max(width, printable(key).size());
  std::string text;
  for (const auto& [key, value] : metadata)
    text += fmt::format("{:<{}}  {}\n", printable(key), width, printable(value));
  return text.empty() ? "" : text + "\n";
}

// True if the file name has the extension of a file of arrays.
bool has_arrays(const std::string& subject) {
  const auto endings = {".params", ".states", ".onnx", ".safetensors"};
  return std::ranges::any_of(endings, [&](const char* ending) { return subject.ends_with(ending); });
}

}  // namespace

InfoOptions::InfoOptions() {
  model.flags.job.batch_size = 1;
}

Result<NetworkInfo> network_info(const InfoOptions& options, const Log& log) {
  DT_TRY(const job::Flags flags, flags_of(options, log));
  DT_TRY(const role::Network network, role::build_network(flags.job));
  const job::NetworkFlags& named = flags.job.network;
  NetworkInfo info{.network = named.network,
                   .image = named.image_shape,
                   .classes = named.num_classes,
                   .batch_size = flags.job.batch_size,
                   .layers = {},
                   .parameters = network.shapes.parameter_elements(),
                   .statistics = network.shapes.statistic_elements()};
  const std::vector<int64_t> products = graph::multiply_accumulates_by_node(network.graph, network.shapes);
  // Number of learned elements, counted at the first node that uses them; indexed by node.
  std::vector<int64_t> parameters(network.graph.nodes().size(), 0);
  for (const graph::ParameterInfo& parameter : network.shapes.parameters) {
    parameters[parameter.uses.front().node] += element_count(parameter.shape);
  }
  for (const NodeId id : network.graph.canonical_order()) {
    LayerInfo layer = layer_info(network, id, info.batch_size);
    layer.parameters = parameters[id];
    layer.multiply_adds = products[id];
    info.multiply_adds += layer.multiply_adds;
    info.activation_bytes += layer.activation_bytes;
    info.layers.push_back(std::move(layer));
  }
  return info;
}

std::string NetworkInfo::text() const {
  TextTable table({"layer", "operator", "output", "parameters", "multiply-adds", "activation bytes"}, 3);
  for (const LayerInfo& layer : layers) {
    table.add({printable(layer.name), layer.op, to_string(layer.output), with_thousands(layer.parameters),
               with_thousands(layer.multiply_adds), with_thousands(layer.activation_bytes)});
  }
  table.add(
      {"total", "", "", with_thousands(parameters), with_thousands(multiply_adds), with_thousands(activation_bytes)});
  return fmt::format("{}: images {}, {} classes, batches of {}; {} learned parameters and {} statistics\n", network,
                     to_string(image), classes, batch_size, with_thousands(parameters), with_thousands(statistics)) +
         table.text();
}

std::string NetworkInfo::json() const {
  nlohmann::ordered_json all = nlohmann::ordered_json::array();
  for (const LayerInfo& layer : layers) all.push_back(json_of(layer));
  return json_text(nlohmann::ordered_json{{"network", network},
                                          {"image", image},
                                          {"classes", classes},
                                          {"batch_size", batch_size},
                                          {"parameters", parameters},
                                          {"statistics", statistics},
                                          {"multiply_adds", multiply_adds},
                                          {"activation_bytes", activation_bytes},
                                          {"layers", std::move(all)}});
}

Result<ArraysInfo> arrays_info(const std::string& path) {
  if (path.ends_with(".onnx") || path.ends_with(".safetensors")) {
    DT_TRY(StoredModel model, path.ends_with(".onnx") ? read_onnx(path) : read_safetensors(path));
    return ArraysInfo{path, {}, std::move(model.metadata), std::move(model.arrays)};
  }
  DT_TRY(const std::vector<StoredArray> arrays, read_stored_arrays(path));
  ArraysInfo info{.file = path, .header = {}, .metadata = {}, .arrays = {}};
  if (path.ends_with(".states")) {
    DT_TRY(const train::CheckpointHeader header, train::header_of(arrays), "reading {}", path);
    info.header = header_text(header);
  }
  for (const StoredArray& array : arrays) {
    const bool is_float = std::holds_alternative<std::vector<float>>(array.values);
    info.arrays.push_back({array.name, is_float ? "float32" : "uint8", array.shape});
  }
  return info;
}

std::string ArraysInfo::text() const {
  TextTable table({"array", "type", "shape", "elements"}, 3);
  int64_t elements = 0;
  for (const ArrayInfo& array : arrays) {
    const int64_t own = array.shape.empty() ? 0 : element_count(array.shape);
    elements += own;
    table.add({printable(array.name), array.type, to_string(array.shape), with_thousands(own)});
  }
  table.add({"total", "", fmt::format("{} arrays", arrays.size()), with_thousands(elements)});
  return (header.empty() ? "" : header + "\n") + metadata_text(metadata) + table.text();
}

std::string ArraysInfo::json() const {
  nlohmann::ordered_json all = nlohmann::ordered_json::array();
  for (const ArrayInfo& array : arrays) {
    all.push_back(nlohmann::ordered_json{{"name", array.name}, {"type", array.type}, {"shape", array.shape}});
  }
  nlohmann::ordered_json json{{"file", file}};
  if (!header.empty()) json["header"] = nlohmann::ordered_json::parse(header);
  if (!metadata.empty()) json["metadata"] = metadata;
  json["arrays"] = std::move(all);
  return json_text(json);
}

Result<std::string> info(const InfoOptions& options, bool json, const Log& log) {
  const std::string& subject = options.subject;
  if (has_arrays(subject)) {
    DT_TRY(const ArraysInfo arrays, arrays_info(subject));
    return json ? arrays.json() + "\n" : arrays.text();
  }
  DT_TRY(const NetworkInfo network, network_info(options, log));
  return json ? network.json() + "\n" : network.text();
}

}  // namespace dtrain::infer
