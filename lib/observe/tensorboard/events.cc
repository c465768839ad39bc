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
    pb::Summary::Value& value = *event.mutable_summary()->add_value();
    value.set_tag(scalar.tag);
    value.set_simple_value(static_cast<float>(scalar.value));
    if (scalar.description.empty()) continue;
    value.mutable_metadata()->set_summary_description(scalar.description);
    value.mutable_metadata()->mutable_plugin_data()->set_plugin_name("scalars");
    value.mutable_metadata()->set_data_class(pb::DATA_CLASS_SCALAR);
  }
  return event.SerializeAsString();
}

}  // namespace dtrain::observe
