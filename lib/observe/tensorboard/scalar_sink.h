// The curves of a process: its records as scalars of TensorBoard.
#pragma once

#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>

#include "observe/tensorboard/event_writer.h"
#include "telemetry/record.h"

namespace dtrain::observe {

// Where TensorBoard shows a value: "train/accuracy", "time/forward_s". Values over whole epochs make curves of their
// own: "train_epoch/accuracy". Nullopt: it makes no curve.
std::optional<std::string> scalar_tag(const telemetry::Value& value);

class ScalarSink final : public telemetry::Sink {
 public:
  explicit ScalarSink(EventWriterOptions options) : writer_(std::move(options)) {}

  // Never fails: the writer deals with errors. The times of phases are those since the record before.
  Result<> write(const telemetry::Record& record) override;

 private:
  [[nodiscard]] double shown(const telemetry::Value& value, const std::string& tag);

  EventWriter writer_;
  std::set<std::string> described_;       // tags whose first value, which has the description, was written
  std::map<std::string, double> totals_;  // of phases, by tag
};

}  // namespace dtrain::observe
