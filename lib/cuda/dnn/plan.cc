#include "cuda/dnn/plan.h"

#include <fmt/core.h>

#include <algorithm>
#include <limits>
#include <optional>
#include <set>

namespace dtrain::cuda {

namespace {

// What is known about an engine configuration before it is compiled.
struct Traits {
  int64_t engine = 0;
  std::vector<cudnnBackendNumericalNote_t> numerics;
  std::vector<cudnnBackendBehaviorNote_t> behaviors;

  [[nodiscard]] bool has(cudnnBackendNumericalNote_t note) const {
    return std::find(numerics.begin(), numerics.end(), note) != numerics.end();
  }
  [[nodiscard]] bool has(cudnnBackendBehaviorNote_t note) const {
    return std::find(behaviors.begin(), behaviors.end(), note) != behaviors.end();
  }
};

Traits traits_of(const Descriptor& config) {
  const Descriptor engine = config.get_descriptor(CUDNN_ATTR_ENGINECFG_ENGINE, CUDNN_BACKEND_ENGINE_DESCRIPTOR);
  return {engine.get<int64_t>(CUDNN_ATTR_ENGINE_GLOBAL_INDEX),
          engine.get_all<cudnnBackendNumericalNote_t>(CUDNN_ATTR_ENGINE_NUMERICAL_NOTE),
          engine.get_all<cudnnBackendBehaviorNote_t>(CUDNN_ATTR_ENGINE_BEHAVIOR_NOTE)};
}

std::string tag_of(const Descriptor& config, int64_t engine) {
  std::string tag = fmt::format("eng{}", engine);
  for (const Descriptor& knob : config.get_descriptors(CUDNN_ATTR_ENGINECFG_KNOB_CHOICES,
                                                       CUDNN_BACKEND_KNOB_CHOICE_DESCRIPTOR, CUDNN_KNOB_TYPE_COUNTS)) {
    tag += fmt::format("_k{}={}", static_cast<int>(knob.get<cudnnBackendKnobType_t>(CUDNN_ATTR_KNOB_CHOICE_KNOB_TYPE)),
                       knob.get<int64_t>(CUDNN_ATTR_KNOB_CHOICE_KNOB_VALUE));
  }
  return tag;
}

// Counts why configurations were rejected, for the message if no configuration is left.
struct Tally {
  int listed = 0, ruled_out = 0, too_large = 0, compile = 0, refused = 0, failed = 0;
  std::string refusal;  // the first refusal, of a configuration or of the heuristics
  std::string failure;  // the first error of a plan that was measured

  [[nodiscard]] std::string text() const {
    std::string text = listed == 0 ? "cuDNN lists no engine" : fmt::format("of {} engine configurations", listed);
    if (ruled_out > 0) text += fmt::format(", {} ruled out by the options", ruled_out);
    if (too_large > 0) text += fmt::format(", {} with too large a workspace", too_large);
    if (compile > 0) text += fmt::format(", {} compiled at run time, with a driver", compile);
    if (refused > 0) text += fmt::format("; cuDNN refuses {} ({})", refused, refusal);
    if (failed > 0) text += fmt::format("; {} failed when they were measured ({})", failed, failure);
    return text;
  }
};

// Whether the engine must not be used. Tensor cores multiply float16 and bfloat16 exactly and sum in float32. Engines
// with one of the first two notes below round once more in between, which the tolerances of the tests do not allow.
bool ruled_out(const Traits& traits, const PlanOptions& options, bool is_float32) {
  return traits.has(CUDNN_NUMERICAL_NOTE_DOWN_CONVERT_INPUTS) ||
         (!options.reduced_sums && traits.has(CUDNN_NUMERICAL_NOTE_REDUCED_PRECISION_REDUCTION)) ||
         (!options.winograd && traits.has(CUDNN_NUMERICAL_NOTE_WINOGRAD)) ||
         (is_float32 && !options.tf32 && traits.has(CUDNN_NUMERICAL_NOTE_TENSOR_CORE)) ||
         (options.deterministic && traits.has(CUDNN_NUMERICAL_NOTE_NONDETERMINISTIC));
}

}  // namespace

// One search through the configurations that the heuristics list.
class PlanSearch {
 public:
  PlanSearch(const Device& device, const Descriptor& graph, cudnnDataType_t type, const PlanOptions& options)
      : device_(device), graph_(graph), is_float32_(type == CUDNN_DATA_FLOAT), options_(options) {}

  // Makes plans and passes them to `take`, until that returns false. The numbers limit how many plans are made.
  void run(int precompiled_max, int compiled_max, const std::function<bool(Plan)>& take) {
    for (const cudnnBackendHeurMode_t mode : {CUDNN_HEUR_MODE_A, CUDNN_HEUR_MODE_FALLBACK}) {
      for (Descriptor& config : configurations(mode)) {
        if (!is_precompiled(config)) continue;
        if (precompiled_max > 0 && !pass_on(config, precompiled_max, take)) return;
      }
    }
    if (!options_.compile_at_run_time || !device_.is_here()) return;
    for (const Descriptor& config : compiled_at_run_time_) {
      if (compiled_max == 0 || !pass_on(config, compiled_max, take)) return;
    }
  }

  void note_failure(const Error& error) {
    if (tally_.failed++ == 0) tally_.failure = error.message;
  }

  [[nodiscard]] tl::unexpected<Error> no_plan() const {
    return fail(Code::kDevice,
                "{}: cuDNN has no plan for this operation: {}; {}use another --dtype, or --cpus instead of --gpus",
                device_.identity(), tally_.text(), options_.deterministic ? "leave out --deterministic, " : "");
  }

 private:
  std::vector<Descriptor> configurations(cudnnBackendHeurMode_t mode) {
    Descriptor heuristics(CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR);
    heuristics.set(CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH, graph_);
    heuristics.set(CUDNN_ATTR_ENGINEHEUR_MODE, mode);
    device_.bind_heuristics(heuristics);
    if (is_refused(heuristics.try_finalize())) return {};  // this mode does not support the pattern
    return heuristics.get_descriptors(CUDNN_ATTR_ENGINEHEUR_RESULTS, CUDNN_BACKEND_ENGINECFG_DESCRIPTOR,
                                      heuristics.count_descriptors(CUDNN_ATTR_ENGINEHEUR_RESULTS));
  }

  // Whether the configuration may be used and needs no compilation. If it needs one, it is set aside.
  bool is_precompiled(Descriptor& config) {
    tally_.listed++;
    const Traits traits = traits_of(config);
    if (ruled_out(traits, options_, is_float32_)) {
      tally_.ruled_out++;
      return false;
    }
    if (!traits.has(CUDNN_BEHAVIOR_NOTE_RUNTIME_COMPILATION)) return true;
    tally_.compile++;
    compiled_at_run_time_.push_back(std::move(config));
    return false;
  }

  // Finalizes the configuration and passes the plan to `take`, unless the same plan was passed before: both modes may
  // list a configuration. Returns false if `take` does.
  bool pass_on(const Descriptor& config, int& plans_left, const std::function<bool(Plan)>& take) {
    Descriptor made(CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR);
    made.set(CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG, config);
    if (is_refused(made.try_finalize())) return true;
    if (made.get<int64_t>(CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE) > options_.workspace_bytes_max) {
      tally_.too_large++;
      return true;
    }
    Plan plan(std::move(made));
    if (!passed_on_.insert(plan.tag()).second) return true;
    plans_left--;
    return take(std::move(plan));
  }

  bool is_refused(std::optional<std::string> refusal) {
    if (!refusal) return false;
    if (tally_.refused++ == 0) tally_.refusal = std::move(*refusal);
    return true;
  }

  const Device& device_;
  const Descriptor& graph_;
  bool is_float32_;
  const PlanOptions& options_;
  std::vector<Descriptor> compiled_at_run_time_;
  std::set<std::string> passed_on_;  // tags
  Tally tally_;
};

std::string PlanOptions::key() const {
  std::string key = fmt::format("workspace {}", workspace_bytes_max);
  if (tf32) key += " tf32";
  if (winograd) key += " winograd";
  if (reduced_sums) key += " reduced_sums";
  if (deterministic) key += " deterministic";
  if (!compile_at_run_time) key += " compiled";
  return key;
}

void BoundPlan::run(cudnnHandle_t handle, cudaStream_t stream) const {
  DT_CUDNN(cudnnSetStream(handle, stream));
  DT_CUDNN(cudnnBackendExecute(handle, plan_, pack_.get()));
}

Plan::Plan(Descriptor plan) : plan_(std::move(plan)) {
  const Descriptor config =
      plan_.get_descriptor(CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG, CUDNN_BACKEND_ENGINECFG_DESCRIPTOR);
  const Traits traits = traits_of(config);
  workspace_bytes_ = static_cast<size_t>(plan_.get<int64_t>(CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE));
  engine_ = traits.engine;
  tag_ = tag_of(config, traits.engine);
  compiled_at_run_time_ = traits.has(CUDNN_BEHAVIOR_NOTE_RUNTIME_COMPILATION);
}

std::string Plan::json() const {
  return plan_.get_text(CUDNN_ATTR_EXECUTION_PLAN_JSON_REPRESENTATION);
}

BoundPlan Plan::bind(std::span<const Binding> bindings, void* workspace) const {
  std::vector<int64_t> ids;
  std::vector<void*> pointers;
  for (const Binding& binding : bindings) {
    DT_CHECK(reinterpret_cast<uintptr_t>(binding.pointer) % OperationGraph::kAlignment == 0, "{} at {} is not aligned",
             slot_name(binding.slot), binding.pointer);
    ids.push_back(static_cast<int64_t>(binding.slot));
    pointers.push_back(binding.pointer);
  }
  Descriptor pack(CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR);
  pack.set_all(CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS, std::span<const int64_t>(ids));
  pack.set_all(CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS, std::span<void* const>(pointers));
  pack.set(CUDNN_ATTR_VARIANT_PACK_WORKSPACE, workspace);
  pack.finalize();
  return {plan_, std::move(pack)};
}

void Plan::execute(cudnnHandle_t handle, std::span<const Binding> bindings, void* workspace,
                   cudaStream_t stream) const {
  bind(bindings, workspace).run(handle, stream);
}

Result<Plan> choose_plan(const Device& device, const Descriptor& graph, cudnnDataType_t type,
                         const PlanOptions& options) {
  PlanSearch search(device, graph, type, options);
  std::optional<Plan> first;
  search.run(1, 1, [&](Plan plan) {
    first = std::move(plan);
    return false;
  });
  if (!first) return search.no_plan();
  return std::move(*first);
}

Result<TimedPlan> choose_fastest_plan(const Device& device, const Descriptor& graph, cudnnDataType_t type,
                                      const PlanOptions& options, const Measure& measure,
                                      const std::function<bool()>& is_time_up) {
  PlanSearch search(device, graph, type, options);
  std::vector<TimedPlan> timed;  // in the order of the search
  double least = std::numeric_limits<double>::infinity();
  search.run(kPrecompiledMeasuredMax, kCompiledMeasuredMax, [&](Plan plan) {
    if (const Result<double> seconds = measure(plan)) {
      least = std::min(least, *seconds);
      timed.push_back({std::move(plan), *seconds});
    } else {
      search.note_failure(seconds.error());
    }
    return timed.empty() || !is_time_up();
  });
  if (timed.empty()) return search.no_plan();
  const auto is_fast = [&](const TimedPlan& each) { return *each.seconds <= least * (1 + kEqualTimes); };
  return std::move(*std::ranges::find_if(timed, is_fast));
}

Result<Plan> load_plan(const Device& device, const std::string& json) {
  try {
    Descriptor plan(CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR);
    device.bind_stored_plan(plan);
    plan.set_text(CUDNN_ATTR_EXECUTION_PLAN_JSON_REPRESENTATION, json);
    plan.finalize();
    return Plan(std::move(plan));
  } catch (const DeviceError& refusal) {
    return fail(Code::kData, "cuDNN {} rejects the stored plan: {}", cudnn_version_text(), refusal.what());
  }
}

}  // namespace dtrain::cuda
