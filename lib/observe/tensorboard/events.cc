#include "observe/tensorboard/events.h"

#include "tensorboard.pb.h"

namespace dtrain::observe {
namespace {

namespace pb = dtrain::tensorboard;

pb::Event event_at(const EventTime& time) {
  pb::Event event;
  event.set_wall_time(time.wall_s);
  event.set_step(static_cast<int64_t>(time.step));
  return event;
}

pb::Summary::Value& add_value(pb::Event& event, const std::string& tag) {
  pb::Summary::Value& value = *event.mutable_summary()->add_value();
  value.set_tag(tag);
  return value;
}

void set_shape(pb::TensorShapeProto& out, const std::vector<int64_t>& shape) {
  for (const int64_t size : shape) out.add_dim()->set_size(size);
}

pb::NodeDef node_def(const GraphNode& node) {
  pb::NodeDef out;
  out.set_name(node.name);
  out.set_op(node.op);
  out.set_device(node.device);
  for (const std::string& input : node.inputs) out.add_input(input);
  for (const auto& [key, text] : node.attributes) (*out.mutable_attr())[key].set_s(text);
  // TensorBoard writes the sizes beside the edges if it finds them under this key.
  if (node.shape) set_shape(*(*out.mutable_attr())["_output_shapes"].mutable_list()->add_shape(), *node.shape);
  return out;
}

pb::HParamInfo::Type type_of(const HyperParameter& parameter) {
  switch (parameter.value.index()) {
    case 0: return pb::HParamInfo::DATA_TYPE_BOOL;
    case 1: return pb::HParamInfo::DATA_TYPE_FLOAT64;
    default: return pb::HParamInfo::DATA_TYPE_STRING;
  }
}

void set_value(google::protobuf::Value& out, const HyperParameter& parameter) {
  if (const auto* truth = std::get_if<bool>(&parameter.value)) out.set_bool_value(*truth);
  if (const auto* number = std::get_if<double>(&parameter.value)) out.set_number_value(*number);
  if (const auto* text = std::get_if<std::string>(&parameter.value)) out.set_string_value(*text);
}

// The plugin reads its data from the summary's metadata; the tensor beside them is empty.
std::string hparams_event(const EventTime& time, const char* tag, const pb::HParamsPluginData& data) {
  pb::Event event = event_at(time);
  pb::Summary::Value& value = add_value(event, tag);
  pb::SummaryMetadata& metadata = *value.mutable_metadata();
  metadata.set_data_class(pb::DATA_CLASS_TENSOR);
  metadata.mutable_plugin_data()->set_plugin_name("hparams");
  metadata.mutable_plugin_data()->set_content(data.SerializeAsString());
  value.mutable_tensor()->set_dtype(pb::DT_FLOAT);
  set_shape(*value.mutable_tensor()->mutable_tensor_shape(), {0});
  return event.SerializeAsString();
}

}  // namespace

std::string version_event(double wall_s) {
  pb::Event event = event_at({.wall_s = wall_s});
  event.set_file_version("brain.Event:2");
  return event.SerializeAsString();
}

std::string start_event(const EventTime& time) {
  pb::Event event = event_at(time);
  event.mutable_session_log()->set_status(pb::SessionLog::START);
  return event.SerializeAsString();
}

std::string scalars_event(const EventTime& time, std::span<const Scalar> scalars) {
  pb::Event event = event_at(time);
  for (const Scalar& scalar : scalars) {
    pb::Summary::Value& value = add_value(event, scalar.tag);
    value.set_simple_value(static_cast<float>(scalar.value));
    if (scalar.description.empty()) continue;
    value.mutable_metadata()->set_summary_description(scalar.description);
    value.mutable_metadata()->mutable_plugin_data()->set_plugin_name("scalars");
    value.mutable_metadata()->set_data_class(pb::DATA_CLASS_SCALAR);
  }
  return event.SerializeAsString();
}

std::string histogram_event(const EventTime& time, const std::string& tag, const ValueCounts& counts) {
  pb::Event event = event_at(time);
  pb::HistogramProto& histogram = *add_value(event, tag).mutable_histo();
  histogram.set_min(counts.min);
  histogram.set_max(counts.max);
  histogram.set_num(static_cast<double>(counts.count));
  histogram.set_sum(counts.sum);
  histogram.set_sum_squares(counts.sum_squares);
  for (const double limit : counts.limits) histogram.add_bucket_limit(limit);
  for (const uint64_t count : counts.counts) histogram.add_bucket(static_cast<double>(count));
  return event.SerializeAsString();
}

std::string picture_event(const EventTime& time, const std::string& tag, const Png& png) {
  constexpr int kColors = 3;
  pb::Event event = event_at(time);
  pb::Summary::Image& image = *add_value(event, tag).mutable_image();
  image.set_height(png.height);
  image.set_width(png.width);
  image.set_colorspace(kColors);
  image.set_encoded_image_string(png.file.data(), png.file.size());
  return event.SerializeAsString();
}

std::string text_event(const EventTime& time, const std::string& tag, const std::string& text) {
  pb::Event event = event_at(time);
  pb::Summary::Value& value = add_value(event, tag);
  value.mutable_metadata()->mutable_plugin_data()->set_plugin_name("text");
  value.mutable_metadata()->set_data_class(pb::DATA_CLASS_TENSOR);
  value.mutable_tensor()->set_dtype(pb::DT_STRING);
  value.mutable_tensor()->mutable_tensor_shape();
  value.mutable_tensor()->add_string_val(text);
  return event.SerializeAsString();
}

std::string graph_event(const EventTime& time, std::span<const GraphNode> nodes) {
  constexpr int kProducer = 22;  // any version from which on the attributes are as TensorBoard expects them
  pb::GraphDef graph;
  for (const GraphNode& node : nodes) *graph.add_node() = node_def(node);
  graph.mutable_versions()->set_producer(kProducer);
  pb::Event event = event_at(time);
  event.set_graph_def(graph.SerializeAsString());
  return event.SerializeAsString();
}

std::string experiment_event(const EventTime& time, std::span<const HyperParameter> parameters,
                             std::span<const Scalar> metrics) {
  pb::HParamsPluginData data;
  for (const HyperParameter& parameter : parameters) {
    pb::HParamInfo& info = *data.mutable_experiment()->add_hparam_infos();
    info.set_name(parameter.name);
    info.set_description(parameter.description);
    info.set_type(type_of(parameter));
    info.set_differs(parameter.is_chosen);
  }
  for (const Scalar& metric : metrics) {
    pb::MetricInfo& info = *data.mutable_experiment()->add_metric_infos();
    info.mutable_name()->set_tag(metric.tag);
    info.set_description(metric.description);
  }
  return hparams_event(time, "_hparams_/experiment", data);
}

std::string session_start_event(const EventTime& time, std::span<const HyperParameter> parameters) {
  pb::HParamsPluginData data;
  pb::SessionStartInfo& info = *data.mutable_session_start_info();
  info.set_start_time_secs(time.wall_s);
  for (const HyperParameter& parameter : parameters) set_value((*info.mutable_hparams())[parameter.name], parameter);
  return hparams_event(time, "_hparams_/session_start_info", data);
}

std::string session_end_event(const EventTime& time, SessionStatus status) {
  pb::HParamsPluginData data;
  pb::SessionEndInfo& info = *data.mutable_session_end_info();
  info.set_status(status == SessionStatus::kSuccess ? pb::SessionEndInfo::STATUS_SUCCESS
                                                    : pb::SessionEndInfo::STATUS_FAILURE);
  info.set_end_time_secs(time.wall_s);
  return hparams_event(time, "_hparams_/session_end_info", data);
}

}  // namespace dtrain::observe
