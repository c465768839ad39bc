#include "train/start.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <set>
#include <unordered_map>

#include "graph/fine_tune.h"
#include "graph/graph.h"
#include "job/spec/job_spec.h"
#include "train/fill_weights.h"
#include "train/other_workers.h"

namespace dtrain::train {
namespace {

using SlotsByName = std::unordered_map<std::string, const NamedArray*>;

SlotsByName by_name(const std::vector<NamedArray>& arrays) {
  SlotsByName found;
  for (const NamedArray& array : arrays) found[array.name] = &array;
  return found;
}

Result<const NamedArray*> find_array(const SlotsByName& arrays, const std::string& name, const Shape& shape) {
  const auto found = arrays.find(name);
  if (found == arrays.end()) return fail(Code::kData, "the checkpoint has no '{}', which the network needs", name);
  if (found->second->shape != shape) {
    return fail(Code::kData, "the shape of '{}' is {}, but {} in the network", name,
                dtrain::to_string(found->second->shape), dtrain::to_string(shape));
  }
  return found->second;
}

// Returns the slots that the optimizer uses, in canonical order; other slots are dropped.
Result<std::vector<NamedArray>> pick_slots(const std::vector<NamedArray>& slots, const StartSpec& spec,
                                           const ParameterView& view) {
  DT_TRY(const std::vector<std::string> rule_slots, optim::state_slots(spec.optimizer));
  const SlotsByName named = by_name(slots);
  std::vector<NamedArray> picked;
  for (const ParameterSpan& parameter : view.parameters) {
    for (const std::string& slot : rule_slots) {
      DT_TRY(const NamedArray* array, find_array(named, parameter.name + ":" + slot, parameter.shape),
             "looking for the state of the optimizer '{}'", spec.optimizer.name);
      picked.push_back(*array);
    }
  }
  return picked;
}

Result<Start> fresh(const StartSpec& spec, const ParameterView& view) {
  DT_TRY_VOID(optim::initialize(spec.initializer, view, spec.seed));
  return Start{};
}

Result<Start> continued(const StartSpec& spec, const ParameterView& view, Checkpoint checkpoint, const Log& log) {
  const CheckpointHeader& header = *checkpoint.header;
  if (header.optimizer.name != spec.optimizer.name) {
    return fail(Code::kUsage, "the optimizer is '{}' in the checkpoint, but '{}' in this job", header.optimizer.name,
                spec.optimizer.name);
  }
  const auto changed = header.job_hash == spec.job_hash ? std::vector<std::string>()
                                                        : job::differing_keys(header.job_text, spec.job_text);
  if (!changed.empty()) {
    const std::string text =
        fmt::format("the checkpoint was written with different values of: {}", fmt::join(changed, ", "));
    // With --resume, the process that read the run's jobspec has already shown both values.
    if (spec.from->epoch) {
      log.warn("{}", text);
    } else {
      log.info("{}", text);
    }
  }
  DT_TRY(std::vector<NamedArray> slots, pick_slots(checkpoint.slots, spec, view));
  Start start{.position = header.position,
              .rest = header.rest,
              .slots = std::move(slots),
              .rate_factor = header.rate_factor,
              .metric_sums = header.metric_sums,
              .loss_scales = header.loss_scales,
              .worker_steps = header.worker_steps,
              .best = header.best,
              .kept_epochs = spec.from->epoch ? std::vector<int64_t>() : header.kept_epochs};
  const int64_t epoch = header.position.epoch;
  const int64_t before = spec.epoch.steps_until(epoch), steps = spec.epoch.steps_until(epoch + 1) - before;
  start.position.own_steps = static_cast<uint64_t>(before + header.position.step);
  adapt_to_workers(start, header.job_text, spec.job_text, spec.epoch, log);
  if (spec.epoch.ends_after_fixed_steps && start.rest.read.empty() && start.position.step >= steps) {
    return fail(Code::kData,
                "the checkpoint was written within an epoch, after {} of its steps, but in this job that epoch has "
                "only {} steps",
                header.position.step, steps);
  }
  log.info("The run continues at {}", to_text(start.position));
  return start;
}

Result<Start> foreign(const StartSpec& spec, const graph::Graph& graph, const ParameterView& view,
                      const CheckpointName& name, const Log& log) {
  log.info("{} has no {}: the optimizer starts from its initial state", name.params_path(), name.states_path());
  set_fixed_gammas(graph, view);
  const int64_t epoch = name.epoch.value_or(0);
  if (epoch > 0 && optim::counts_updates(spec.optimizer)) {
    return fail(Code::kUsage,
                "the checkpoint has no state for the optimizer '{0}', which corrects its first updates: copy the "
                "checkpoint to {1}-0000.params and give --load-epoch 0, or use another optimizer",
                spec.optimizer.name, name.prefix);
  }
  const auto steps = static_cast<uint64_t>(spec.epoch.steps_until(epoch));
  return Start{.position = {.epoch = epoch,
                            .own_steps = steps,
                            .updates = steps,
                            .samples = static_cast<uint64_t>(epoch) * spec.epoch.samples},
               .slots = {},
               .metric_sums = {},
               .loss_scales = {},
               .worker_steps = {}};
}

Result<Start> load(const StartSpec& spec, const graph::Graph& graph, const ParameterView& view,
                   const CheckpointName& name, const Log& log) {
  DT_TRY(Checkpoint checkpoint, read_checkpoint(name));
  DT_TRY_VOID(fill_weights(checkpoint, graph, view));
  Start start;
  if (checkpoint.header) {
    DT_TRY(start, continued(spec, view, std::move(checkpoint), log));
  } else {
    DT_TRY(start, foreign(spec, graph, view, name, log));
  }
  log.info("Loaded model {}",
           name.epoch ? fmt::format("{}_{:04}.params", name.prefix, *name.epoch) : name.params_path());
  return start;
}

}  // namespace

namespace {

// Removes the arrays that the view has no place for, and returns their names.
std::vector<std::string> take_unknown(std::vector<NamedArray>& arrays, const std::set<std::string>& known) {
  std::vector<std::string> unknown;
  for (const NamedArray& array : arrays) {
    if (!known.contains(array.name)) unknown.push_back(array.name);
  }
  std::erase_if(arrays, [&](const NamedArray& array) { return !known.contains(array.name); });
  return unknown;
}

Result<Start> fine_tuned(const StartSpec& spec, const graph::Graph& graph, const ParameterView& view, const Log& log) {
  DT_TRY_VOID(optim::initialize(spec.initializer, view, spec.seed));
  DT_TRY(Checkpoint model, read_weights(spec.pretrained), "reading the pretrained model");
  const std::vector<std::string> drawn = graph::new_head_parameters();
  ParameterView kept{.parameters = {}, .statistics = view.statistics};
  std::set<std::string> known;
  for (const ParameterSpan& parameter : view.parameters) {
    if (std::ranges::find(drawn, parameter.name) == drawn.end()) kept.parameters.push_back(parameter);
  }
  for (const auto* spans : {&kept.parameters, &kept.statistics}) {
    for (const ParameterSpan& span : *spans) known.insert(span.name);
  }
  std::vector<std::string> unused;
  for (auto* arrays : {&model.parameters, &model.statistics, &model.without_prefix}) {
    for (std::string& name : take_unknown(*arrays, known)) unused.push_back(std::move(name));
  }
  DT_TRY_VOID(fill_weights(model, graph, kept), "fine-tuning the model '{}'{}", spec.pretrained, spec.pretrained_note);
  set_fixed_gammas(graph, kept);
  log.info("Loaded model {}", spec.pretrained);
  log.info("initialized with new random values: {}; unused arrays of the model: {}", fmt::join(drawn, ", "),
           unused.empty() ? "none" : fmt::format("{}", fmt::join(unused, ", ")));
  return Start{};
}

}  // namespace

Result<Start> make_start(const StartSpec& spec, const graph::Graph& graph, const ParameterView& view, const Log& log) {
  if (!spec.from && !spec.pretrained.empty()) return fine_tuned(spec, graph, view, log);
  if (!spec.from) return fresh(spec, view);
  CheckpointName name{spec.from->prefix, spec.from->epoch};
  if (!name.epoch) {
    DT_TRY(const std::optional<CheckpointName> newest, newest_checkpoint(name.prefix));
    if (!newest) {
      return fail(Code::kNotFound,
                  "the run to resume has no checkpoint on this host ({0}-NNNN.params, {0}-last.params): start it again "
                  "without --resume",
                  name.prefix);
    }
    name = *newest;
  }
  Result<Start> start = load(spec, graph, view, name, log);
  const bool named = start || start.error().message.find(name.stem()) != std::string::npos;
  if (!named) start.error().message = fmt::format("checkpoint '{}': {}", name.stem(), start.error().message);
  return start;
}

}  // namespace dtrain::train
