#include "cuda/dnn/plan.h"

#include <fmt/core.h>

#include <algorithm>
#include <optional>

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
  int listed = 0, ruled_out = 0, too_large = 0, compile = 0, refused = 0;
  std::string refusal;  // the first refusal, of a configuration or of the heuristics

  [[nodiscard]] std::string text() const {
    std::string text = listed == 0 ? "cuDNN lists no engine" : fmt::format("of {} engine configurations", listed);
    if (ruled_out > 0) text += fmt::format(", {} ruled out by the options", ruled_out);
    if (too_large > 0) text += fmt::format(", {} with too large a workspace", too_large);
    if (compile > 0) text += fmt::format(", {} compiled at run time, with a driver", compile);
    if (refused > 0) text += fmt::format("; cuDNN refuses {} ({})", refused, refusal);
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

// One search through the configurations that the heuristics list.
class Search {
 public:
  Search(const PlanOptions& options, bool is_float32) : options_(options), is_float32_(is_float32) {}

  // Returns the first configuration that becomes a plan. Those that compile at run time are set aside for
  // second_choice.
  std::optional<Descriptor> first_choice(const Device& device, const Descriptor& graph, cudnnBackendHeurMode_t mode) {
    for (Descriptor& config : configurations(device, graph, mode)) {
      tally_.listed++;
      const Traits traits = traits_of(config);
      if (ruled_out(traits, options_, is_float32_)) {
        tally_.ruled_out++;
      } else if (traits.has(CUDNN_BEHAVIOR_NOTE_RUNTIME_COMPILATION)) {
        tally_.compile++;
        put_off_.push_back(std::move(config));
      } else if (auto plan = finalised(config)) {
        return plan;
      }
    }
    return std::nullopt;
  }

  std::optional<Descriptor> second_choice() {
    for (const Descriptor& config : put_off_) {
      if (auto plan = finalised(config)) return plan;
    }
    return std::nullopt;
  }

  [[nodiscard]] const Tally& tally() const { return tally_; }

 private:
  std::vector<Descriptor> configurations(const Device& device, const Descriptor& graph, cudnnBackendHeurMode_t mode) {
    Descriptor heuristics(CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR);
    heuristics.set(CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH, graph);
    heuristics.set(CUDNN_ATTR_ENGINEHEUR_MODE, mode);
    device.bind_heuristics(heuristics);
    if (is_refused(heuristics.try_finalize())) return {};  // this mode does not support the pattern
    return heuristics.get_descriptors(CUDNN_ATTR_ENGINEHEUR_RESULTS, CUDNN_BACKEND_ENGINECFG_DESCRIPTOR,
                                      heuristics.count_descriptors(CUDNN_ATTR_ENGINEHEUR_RESULTS));
  }

  std::optional<Descriptor> finalised(const Descriptor& config) {
    Descriptor plan(CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR);
    plan.set(CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG, config);
    if (is_refused(plan.try_finalize())) return std::nullopt;
    if (plan.get<int64_t>(CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE) > options_.workspace_bytes_max) {
      tally_.too_large++;
      return std::nullopt;
    }
    return plan;
  }

  bool is_refused(std::optional<std::string> refusal) {
    if (!refusal) return false;
    if (tally_.refused++ == 0) tally_.refusal = std::move(*refusal);
    return true;
  }

  const PlanOptions& options_;
  bool is_float32_;
  std::vector<Descriptor> put_off_;
  Tally tally_;
};

}  // namespace

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
  Search search(options, type == CUDNN_DATA_FLOAT);
  std::optional<Descriptor> plan = search.first_choice(device, graph, CUDNN_HEUR_MODE_A);
  if (!plan) plan = search.first_choice(device, graph, CUDNN_HEUR_MODE_FALLBACK);
  if (!plan && options.compile_at_run_time && device.is_here()) plan = search.second_choice();
  if (!plan) {
    return fail(Code::kDevice,
                "{}: cuDNN has no plan for this operation: {}; {}use another --dtype, or --cpus instead "
                "of --gpus",
                device.identity(), search.tally().text(), options.deterministic ? "leave out --deterministic, " : "");
  }
  return Plan(std::move(*plan));
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
