#include "cluster/yarn_spec.h"

#include "base/json.h"

namespace dtrain::cluster {
namespace {

using OrderedJson = nlohmann::ordered_json;

// The values that are used if none are given, because YARN requires a number of cores and an amount of memory.
constexpr int64_t kYarnCores = 1;
constexpr int64_t kYarnMemoryMb = 4096;

OrderedJson resource_of(const NodeRequest& container) {
  constexpr int64_t kMiB = 1 << 20;
  OrderedJson resource;
  resource["cpus"] = container.cores > 0 ? container.cores : kYarnCores;
  // The memory in MB, which YARN expects as a text.
  resource["memory"] = std::to_string(container.memory > 0 ? (container.memory + kMiB - 1) / kMiB : kYarnMemoryMb);
  if (container.gpus > 0) resource["additional"]["yarn.io/gpu"]["value"] = container.gpus;
  return resource;
}

OrderedJson component_of(const YarnService& service) {
  OrderedJson component;
  component["name"] = "node";
  component["number_of_containers"] = service.containers;
  component["launch_command"] = "bash conf/dtrain.sh";
  component["restart_policy"] = "NEVER";
  component["resource"] = resource_of(service.container);
  if (!service.image.empty()) component["artifact"] = {{"id", service.image}, {"type", "DOCKER"}};
  OrderedJson& configuration = component["configuration"];
  for (const std::string& entry : service.environment) {
    const size_t equals = entry.find('=');
    configuration["env"][entry.substr(0, equals)] = entry.substr(equals + 1);
  }
  configuration["files"] = OrderedJson::array(
      {{{"type", "TEMPLATE"}, {"dest_file", "dtrain.sh"}, {"properties", {{"content", service.script}}}}});
  return component;
}

}  // namespace

std::string yarn_spec(const YarnService& service) {
  OrderedJson spec;
  spec["name"] = service.name;
  spec["version"] = "1";
  spec["description"] = "A training job of dtrain";
  if (service.lifetime.count() > 0) spec["lifetime"] = service.lifetime.count();
  if (!service.queue.empty()) spec["queue"] = service.queue;
  spec["components"] = OrderedJson::array({component_of(service)});
  return json_text(spec, 2) + "\n";
}

}  // namespace dtrain::cluster
