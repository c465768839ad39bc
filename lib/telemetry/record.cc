#include "telemetry/record.h"

namespace dtrain::telemetry {

Result<> Recorder::write(const Record& record) {
  if (record.epoch) registry_.set(Metric::kEpoch, static_cast<double>(*record.epoch));
  registry_.set(Metric::kStep, static_cast<double>(record.step));
  for (const Value& value : record.values) {
    if (!value.of_epoch) registry_.set(value.metric, value.value, value.label);
  }
  for (const std::unique_ptr<Sink>& sink : sinks_) DT_TRY_VOID(sink->write(record));
  return {};
}

}  // namespace dtrain::telemetry
