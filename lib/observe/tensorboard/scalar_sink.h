// Writes the records of a process as scalars of TensorBoard.
#pragma once

#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>

#include "observe/tensorboard/event_writer.h"
#include "telemetry/record.h"

namespace dtrain::observe {

// The tag of a value in TensorBoard: "train/accuracy", "time/forward_s". Values over whole epochs form separate curves:
// "train_epoch/accuracy". Nullopt: the value is not drawn as a curve.
std::optional<std::string> scalar_tag(const telemetry::Value& value);

class ScalarSink final : public telemetry::Sink {
 public:
  explicit ScalarSink(EventWriterOptions options) : writer_(std::move(options)) {}

  // Never fails, because the writer handles errors. Times of phases are written as the increase since the previous
  // record.
  Result<> write(const telemetry::Record& record) override;

 private:
  [[nodiscard]] double shown(const telemetry::Value& value, const std::string& tag);

  EventWriter writer_;
  std::set<std::string> described_;       // tags whose description has been written, with their first value
  std::map<std::string, double> totals_;  // running totals of phases, indexed by tag
};

}  // namespace dtrain::observe
