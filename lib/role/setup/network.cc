#include "role/setup/network.h"

#include "graph/models/models.h"
#include "kvstore/worker/buckets.h"
#include "role/setup/devices.h"

namespace dtrain::role {

namespace {

// Refuses --initializer for a network whose parameters have initial values of their own.
Result<> check_initializer(const job::JobFlags& flags, const graph::Shapes& shapes) {
  if (flags.network.initializer == "default") return {};
  for (const graph::ParameterInfo& parameter : shapes.parameters) {
    if (!parameter.rule.initial) continue;
    return fail(Code::kUsage,
                "--initializer {}: network '{}' brings the initial values of '{}' and others: --initializer default",
                flags.network.initializer, flags.network.network, parameter.name);
  }
  return {};
}

}  // namespace

Result<Network> build_network(const job::JobFlags& flags) {
  const Shape& image = flags.network.image_shape;
  DT_TRY(graph::Graph graph, graph::build_model({.network = flags.network.network,
                                                 .num_layers = flags.network.num_layers,
                                                 .num_classes = flags.network.num_classes,
                                                 .image = image,
                                                 .bn_momentum = flags.network.bn_momentum,
                                                 .data_type = flags.augment.data_type,
                                                 .widen_factor = flags.network.widen_factor}));
  DT_TRY(graph::Shapes shapes, graph::infer_shapes(graph, image), "building network '{}' for images {}",
         flags.network.network, to_string(image));
  DT_TRY_VOID(check_initializer(flags, shapes));
  return Network{std::move(graph), std::move(shapes)};
}

Result<InitializerSpec> initializer_spec(const job::JobFlags& flags) {
  const std::string& name = flags.network.initializer;
  return optim::parse_initializer(name == "default" ? "xavier(gaussian,in,2)" : name);
}

Result<> initialize(const job::JobFlags& flags, const ParameterView& view) {
  DT_TRY(const InitializerSpec spec, initializer_spec(flags), "reading --initializer");
  return optim::initialize(spec, view, flags.seed.value());
}

std::vector<uint64_t> key_sizes(const graph::Shapes& shapes) {
  std::vector<uint64_t> sizes;
  for (const auto* infos : {&shapes.parameters, &shapes.statistics}) {
    for (const graph::ParameterInfo& info : *infos) sizes.push_back(static_cast<uint64_t>(element_count(info.shape)));
  }
  return sizes;
}

std::vector<size_t> plan_buckets(const job::Flags& flags, const Network& network) {
  if (device_count(flags) == 1 && !flags.distributed()) return {0};
  std::vector<uint64_t> sizes = key_sizes(network.shapes);
  sizes.resize(network.shapes.parameters.size());
  return kvstore::plan_buckets(sizes);
}

}  // namespace dtrain::role
