#include "role/setup/network.h"

#include <algorithm>
#include <optional>

#include "graph/fine_tune.h"
#include "graph/models/models.h"
#include "graph/symbol/parse.h"
#include "graph/symbol/read.h"
#include "job/flags/flags.h"
#include "job/resolve/data_set.h"
#include "job/resolve/network_file.h"
#include "kvstore/worker/buckets.h"
#include "role/setup/data.h"
#include "role/setup/devices.h"

namespace dtrain::role {

namespace {

// Refuses --initializer for a network whose parameters have initial values of their own.
Result<> check_initializer(const job::JobFlags& flags, const graph::Shapes& shapes) {
  const std::string& rule = flags.network.initializer;
  if (rule == "default" || rule == job::default_initializer(flags.network.network)) return {};
  for (const graph::ParameterInfo& parameter : shapes.parameters) {
    if (!parameter.rule.initial) continue;
    return fail(Code::kUsage,
                "--initializer {}: network '{}' defines the initial values of '{}' and other parameters itself: give "
                "--initializer default",
                rule, flags.network.network, parameter.name);
  }
  return {};
}

Result<> fine_tune(const job::NetworkFlags& flags, graph::Graph& graph) {
  if (!flags.layer_before_fullc.empty()) {
    DT_TRY(graph, graph::with_new_head(graph, flags.layer_before_fullc, flags.num_classes));
  }
  return flags.lr_mult.empty() ? Result<>{} : graph::apply_rates(flags.lr_mult, graph);
}

// Checks that a graph made by another program can be trained.
Result<> check_trainable(const job::NetworkFlags& flags, const graph::Graph& graph) {
  for (const graph::NodeId head : graph.heads()) {
    const graph::Node& node = graph.node(head);
    if (graph::is_loss(node.op)) continue;
    return fail(Code::kUsage,
                "{}: the output '{}' ({}) is not a loss; dtrain trains networks that end in SoftmaxOutput", flags.file,
                node.name, graph::op_name(node.op));
  }
  return {};
}

// The smallest number of classes of any label: what --num-classes means for a network with several labels.
int64_t classes_of(const graph::Shapes& shapes) {
  return std::ranges::min(shapes.labels, {}, &graph::LabelInfo::classes).classes;
}

// Reads the graph from the network's file.
Result<graph::Graph> read_graph(const job::NetworkFlags& flags) {
  DT_TRY(const std::string text, job::read_network_file(flags));
  DT_TRY(graph::SymbolFile file, graph::parse_symbol_file(text), "reading the symbol file {}", flags.file);
  DT_TRY(graph::Graph graph, graph::read_symbol(std::move(file)), "reading the symbol file {}", flags.file);
  DT_TRY_VOID(fine_tune(flags, graph));
  DT_TRY_VOID(check_trainable(flags, graph));
  return graph;
}

Result<graph::Graph> make_graph(const job::JobFlags& flags) {
  if (job::is_name_of_file(flags.network.network)) return read_graph(flags.network);
  DT_TRY(graph::Graph graph, graph::build_model({.network = flags.network.network,
                                                 .num_layers = flags.network.num_layers,
                                                 .num_classes = flags.network.num_classes,
                                                 .image = flags.network.image_shape,
                                                 .bn_momentum = flags.network.bn_momentum,
                                                 .smooth_alpha = flags.network.smooth_alpha,
                                                 .data_type = flags.augment.data_type,
                                                 .widen_factor = flags.network.widen_factor,
                                                 .num_group = flags.network.num_group,
                                                 .batch_norm = flags.network.batch_norm,
                                                 .add_stn = flags.network.add_stn}));
  DT_TRY_VOID(fine_tune(flags.network, graph));
  return graph;
}

Result<graph::Shapes> shapes_of(const job::NetworkFlags& flags, const graph::Graph& graph) {
  DT_TRY(graph::Shapes shapes, graph::infer_shapes(graph, flags.image_shape), "building network '{}' for images {}",
         flags.network, to_string(flags.image_shape));
  return shapes;
}

}  // namespace

Result<> complete_flags(job::Flags& flags) {
  job::NetworkFlags& network = flags.job.network;
  const bool is_known = network.num_classes > 0 && !network.image_shape.empty();
  // A network with a new head gets as many classes as the data set has.
  const bool has_new_head = !network.layer_before_fullc.empty();
  if (!job::is_name_of_file(network.network) || is_known || has_new_head) return apply_own_data_set(flags);
  DT_TRY(const graph::Graph graph, read_graph(network));
  const std::optional<Shape> stated = graph::stated_image(graph);
  if (network.image_shape.empty() && stated) network.image_shape = *stated;
  // Whether the number of classes is that of the network. The network determines it if it has several labels or the
  // data are synthetic. Otherwise, with a single label, the data set determines it.
  const bool tells_classes = network.num_classes == 0 &&
                             (flags.job.augment.benchmark || graph.variables(graph::Variable::Role::kLabel).size() > 1);
  if (flags.job.augment.benchmark && network.image_shape.empty()) {
    network.image_shape = job::image_of_network(network.network);
  }
  const auto take_classes = [&]() -> Result<> {
    if (!tells_classes || network.image_shape.empty()) return {};
    DT_TRY(const graph::Shapes shapes, shapes_of(network, graph));
    network.num_classes = classes_of(shapes);
    return {};
  };
  DT_TRY_VOID(take_classes());
  DT_TRY_VOID(apply_own_data_set(flags));
  return take_classes();
}

Result<std::vector<int64_t>> stated_image(const job::NetworkFlags& flags) {
  DT_TRY(const graph::Graph graph, read_graph(flags));
  return graph::stated_image(graph).value_or(Shape());
}

Result<int64_t> classes_of_file(const job::NetworkFlags& flags) {
  DT_TRY(const graph::Graph graph, read_graph(flags));
  DT_TRY(const graph::Shapes shapes, shapes_of(flags, graph));
  return classes_of(shapes);
}

Result<Network> build_network(const job::JobFlags& flags) {
  DT_TRY(graph::Graph graph, make_graph(flags));
  DT_TRY(graph::Shapes shapes, shapes_of(flags.network, graph));
  if (const int64_t classes = classes_of(shapes); classes != flags.network.num_classes) {
    return fail(Code::kUsage, "the network in {} has {} classes, but the data have {} (--num-classes)",
                flags.network.file, classes, flags.network.num_classes);
  }
  DT_TRY_VOID(check_initializer(flags, shapes));
  return Network{std::move(graph), std::move(shapes)};
}

Result<InitializerSpec> initializer_spec(const job::JobFlags& flags) {
  const std::string& rule = flags.network.initializer;
  return optim::parse_initializer(rule == "default" ? job::default_initializer(flags.network.network) : rule);
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
