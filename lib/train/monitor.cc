#include "train/monitor.h"

#include <cmath>
#include <span>
#include <string>

#include "graph/graph.h"
#include "train/log_lines.h"

namespace dtrain::train {
namespace {

double size_of(std::span<const float> values) {
  double squares = 0;
  for (const float value : values) squares += static_cast<double>(value) * value;
  return values.empty() ? 0 : std::sqrt(squares / static_cast<double>(values.size()));
}

}  // namespace

Result<> Monitor::print(uint64_t step, exec::DeviceGroup& training) const {
  const auto line = [&](const std::string& name, std::span<const float> values) {
    log_.info("{}", monitor_line(step + 1, name, size_of(values)));
  };
  exec::Executor& executor = training.executor(0);
  for (const graph::NodeId id : graph_.canonical_order()) {
    const graph::Node& node = graph_.node(id);
    if (!std::holds_alternative<graph::Input>(node.op)) line(node.name + "_output", executor.node_output(id));
  }
  const ParameterView &device = executor.device_parameters(), &host = executor.parameters();
  DT_TRY_VOID(copy_to_host(device, host), "reading the weights for --monitor");
  if (device.device != nullptr) {
    DT_TRY_VOID(device.device->read(device.all_gradients, host.all_gradients), "reading the gradients for --monitor");
  }
  for (const ParameterSpan& parameter : host.parameters) {
    line(parameter.name, parameter.weight);
    line(parameter.name + "_grad", parameter.gradient);
  }
  for (const ParameterSpan& statistic : host.statistics) line(statistic.name, statistic.weight);
  return {};
}

}  // namespace dtrain::train
