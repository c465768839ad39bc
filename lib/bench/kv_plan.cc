#include "bench/kv_plan.h"

#include <algorithm>
#include <cmath>
#include <sstream>

#include "base/file.h"
#include "base/random.h"
#include "graph/graph.h"
#include "graph/models/models.h"
#include "job/flags/flags.h"
#include "job/resolve/data_set.h"
#include "kvstore/worker/buckets.h"
#include "role/setup/threads.h"
#include "rpc/security.h"

namespace dtrain::bench {
namespace {

constexpr int64_t kSmallElements = 1000;
constexpr uint64_t kSeed = 1;

Result<> read_shapes(const std::string& path, const std::string& text, KvPlan& plan) {
  std::istringstream lines(text);
  std::string line;
  for (int number = 1; std::getline(lines, line); number++) {
    std::istringstream words(line);
    std::string name;
    if (!(words >> name) || name.front() == '#') continue;
    Shape shape;
    for (int64_t extent = 0; words >> extent;) shape.push_back(extent);
    const bool positive = element_count(shape) > 0 && element_count(shape) < int64_t{1} << 31;
    if (!words.eof() || shape.empty() || !positive) {
      return fail(Code::kUsage, "{}:{}: '{}' does not have the form NAME D0 D1 ...", path, number, line);
    }
    plan.names.push_back(name);
    plan.kinds.push_back(ParameterKind::kWeight);
    plan.shapes.push_back(shape);
  }
  if (plan.names.empty()) return fail(Code::kUsage, "{}: no arrays", path);
  return {};
}

// Sets the learned arrays of a network, for the number of classes and the image shape that it was designed for.
Result<> network_shapes(const std::string& network, KvPlan& plan) {
  const std::string data_type(job::data_set_of_network(network));
  const graph::ModelOptions model{.network = network,
                                  .num_classes = job::find_data_set(data_type)->classes,
                                  .image = job::image_of_network(network),
                                  .data_type = data_type};
  DT_TRY(const graph::Graph graph, graph::build_model(model), "looking for a file or a network '{}'", network);
  DT_TRY(const graph::Shapes shapes, graph::infer_shapes(graph, model.image));
  for (const graph::ParameterInfo& parameter : shapes.parameters) {
    plan.names.push_back(parameter.name);
    plan.kinds.push_back(parameter.kind);
    plan.shapes.push_back(parameter.shape);
  }
  return {};
}

Result<> set_rule(const BenchKvOptions& options, KvPlan& plan) {
  if (options.optimizer == "none") {
    plan.rule.optimizer = {.momentum = 0, .weight_decay = 0};
    plan.rule.schedule.base = 1;
  } else {
    plan.rule.optimizer.name = options.optimizer;
    DT_TRY_VOID(optim::state_slots(plan.rule.optimizer));
  }
  return {};
}

// The flags of a server in a job with this number of processes on this host. The other flags have the default values of
// a training job.
job::Flags server_flags(const BenchKvOptions& options) {
  job::Flags flags;
  flags.launch.role = job::Role::kServer;
  flags.job.num_workers = options.workers;
  flags.job.num_servers = options.servers;
  return flags;
}

std::vector<float> random_gradient(size_t count, uint32_t worker, size_t key) {
  RandomStream random(kSeed, Use::kSynthetic, worker, key);
  std::vector<float> values(count);
  for (float& value : values) value = static_cast<float>(random.uniform(-1, 1));
  return values;
}

size_t elements(const KvPlan& plan, size_t key) {
  return static_cast<size_t>(element_count(plan.shapes[key]));
}

}  // namespace

uint64_t KvPlan::bytes() const {
  uint64_t count = 0;
  for (size_t key = 0; key < arrays(); key++) count += elements(*this, key);
  return count * sizeof(float);
}

uint64_t KvPlan::bytes_on_server(uint32_t server) const {
  uint64_t count = 0;
  for (const kvstore::Slice& slice : placement) count += slice.server == server ? slice.count : 0;
  return count * sizeof(float) * (1 + optim::state_slots(rule.optimizer)->size());
}

Result<KvPlan> make_kv_plan(const BenchKvOptions& options) {
  KvPlan plan;
  if (const Result<std::string> text = read_file(options.shapes)) {
    DT_TRY_VOID(read_shapes(options.shapes, *text, plan));
  } else {
    DT_TRY_VOID(network_shapes(options.shapes, plan));
  }
  DT_TRY_VOID(set_rule(options, plan));
  std::vector<uint64_t> counts;
  for (size_t key = 0; key < plan.names.size(); key++) counts.push_back(elements(plan, key));
  plan.bucket_begin = kvstore::plan_buckets(counts);
  plan.bucket_begin.push_back(plan.names.size());
  plan.names.emplace_back("small_weight");
  plan.kinds.push_back(ParameterKind::kWeight);
  plan.shapes.push_back({kSmallElements});
  counts.push_back(kSmallElements);
  const job::Flags flags = server_flags(options);
  plan.placement = kvstore::place(counts, options.servers, kvstore::PlacementRule::kBalanced,
                                  static_cast<uint64_t>(flags.job.scheme.bigarray_bound));
  plan.shard_threads = role::shard_threads(flags, flags.job.scheme.reduce_threads);
  for (uint32_t worker = 0; worker < options.workers; worker++) plan.incarnations.push_back(rpc::make_incarnation());
  return plan;
}

KvArrays::KvArrays(const KvPlan& plan, uint32_t worker) {
  std::vector<TensorName> names;
  for (size_t key = 0; key < plan.names.size(); key++) {
    names.push_back({plan.names[key], plan.kinds[key], plan.shapes[key]});
  }
  memory_ = ParameterMemory(names, {});
  for (size_t key = 0; key < plan.names.size(); key++) {
    const std::vector<float> values = random_gradient(elements(plan, key), worker, key);
    std::ranges::copy(values, memory_.view().parameters[key].gradient.begin());
  }
}

KvReference::KvReference(const KvPlan& plan, uint32_t workers) : plan_(plan), workers_(workers) {
  const size_t slots = optim::state_slots(plan.rule.optimizer)->size();
  for (size_t key = 0; key < plan.arrays(); key++) {
    std::vector<float> sum(elements(plan, key));
    for (uint32_t worker = 0; worker < workers; worker++) {
      const std::vector<float> gradient = random_gradient(sum.size(), worker, key);
      for (size_t i = 0; i < sum.size(); i++) sum[i] += gradient[i];
    }
    weights_.emplace_back(sum.size());
    state_.emplace_back(slots, std::vector<float>(sum.size()));
    sums_.push_back(std::move(sum));
  }
}

void KvReference::update() {
  for (size_t key = 0; key < sums_.size(); key++) {
    std::vector<std::span<float>> state(state_[key].begin(), state_[key].end());
    optim::UpdateStep step =
        kvstore::update_step(plan_.rule, optim::multipliers_of(plan_.kinds[key]), counters_, workers_);
    step.part = {.array = key, .begin = 0};
    optim::update(plan_.rule.optimizer, step, weights_[key], sums_[key], state);
  }
  counters_.samples += workers_;
  counters_.updates++;
}

double KvReference::error(const ParameterView& got) const {
  double difference = 0;
  double size = 0;
  for (size_t key = 0; key < weights_.size(); key++) {
    for (size_t i = 0; i < weights_[key].size(); i++) {
      difference += std::abs(double{got.parameters[key].weight[i]} - double{weights_[key][i]});
      size += std::abs(double{weights_[key][i]});
    }
  }
  return size == 0 ? difference : difference / size;
}

}  // namespace dtrain::bench
