#include "watching.h"

#include <algorithm>
#include <cmath>

#include "role/setup/device_loader.h"
#include "telemetry/registry.h"

namespace dtrain::gpu {

namespace {

constexpr uint64_t kTracedSteps = 3;

using Spans = std::vector<telemetry::TimelineEvent>;

// Of the row or track with this name, in the order of time.
Spans spans_of(const std::vector<telemetry::TimelineRow>& rows, const std::string& name) {
  Spans spans;
  for (const telemetry::TimelineRow& row : rows) {
    if (row.thread == name) spans.insert(spans.end(), row.events.begin(), row.events.end());
  }
  std::ranges::stable_sort(spans, {}, &telemetry::TimelineEvent::begin_ns);
  return spans;
}

// The host's steps, whichever thread made them.
Spans steps_of(const std::vector<telemetry::TimelineRow>& rows) {
  Spans steps;
  for (const telemetry::TimelineRow& row : rows) {
    std::ranges::copy_if(row.events, std::back_inserter(steps),
                         [](const auto& event) { return std::string_view(event.name) == "step"; });
  }
  std::ranges::sort(steps, {}, &telemetry::TimelineEvent::begin_ns);
  return steps;
}

// The first reason for which the spans cannot be those of work that the host queued in these steps; empty: none.
std::string fault_of(const Spans& spans, const Spans& steps) {
  int64_t before = 0;
  for (const telemetry::TimelineEvent& span : spans) {
    if (span.end_ns < span.begin_ns) return fmt::format("'{}' ends before it begins", span.name);
    if (span.begin_ns < before) return fmt::format("'{}' begins before the span before it ends", span.name);
    before = span.end_ns;
    const bool is_in_step = std::ranges::any_of(steps, [&](const telemetry::TimelineEvent& step) {
      return step.begin_ns <= span.begin_ns && span.end_ns <= step.end_ns;
    });
    if (!is_in_step) return fmt::format("'{}' is outside of the steps", span.name);
  }
  return "";
}

uint64_t operators_of(const Spans& spans) {
  return static_cast<uint64_t>(
      std::ranges::count_if(spans, [](const auto& span) { return std::string_view(span.category) == "operator"; }));
}

uint64_t updates_of(const Spans& spans) {
  return static_cast<uint64_t>(
      std::ranges::count_if(spans, [](const auto& span) { return std::string_view(span.name) == "update"; }));
}

double ms_of(const Spans& spans) {
  constexpr double kNsPerMs = 1e6;
  double ms = 0;
  for (const telemetry::TimelineEvent& span : spans) ms += static_cast<double>(span.end_ns - span.begin_ns) / kNsPerMs;
  return ms;
}

Outcome judge_trace(const std::vector<telemetry::TimelineRow>& rows) {
  const Spans steps = steps_of(rows), work = spans_of(rows, "GPU 0");
  const Spans updating = spans_of(rows, "GPU 0: sums and updates");
  const uint64_t operators = operators_of(work), updates = updates_of(updating);
  const Json numbers = {{"steps", steps.size()},       {"operators", operators},   {"updates", updates},
                        {"ms_of_steps", ms_of(steps)}, {"ms_of_gpu", ms_of(work)}, {"ms_of_updates", ms_of(updating)}};
  const std::string text = fmt::format("{} steps of {:.2f} ms in all: {} operators, {:.2f} ms of the GPU", steps.size(),
                                       ms_of(steps), operators, ms_of(work));
  // A step that is left out because float16 overflowed is traced and does not count.
  const bool is_complete = steps.size() >= kTracedSteps && operators > 0 && operators % steps.size() == 0;
  if (!is_complete || updates != steps.size()) {
    return failed(fmt::format("{}, {} updates: spans are missing", text, updates), numbers);
  }
  for (const Spans& spans : {work, updating}) {
    if (const std::string fault = fault_of(spans, steps); !fault.empty()) {
      return failed(fmt::format("{}; {}", text, fault), numbers);
    }
  }
  return passed(text, numbers);
}

}  // namespace

Result<Outcome> trace_steps(Machine& machine, const Product& product) {
  return trace_by_trainer(machine, product, kTracedSteps, judge_trace);
}

Result<Outcome> use_of_device(Machine& machine) {
  using telemetry::Metric;
  DT_TRY(const auto module, role::load_devices(machine.module_path()));
  DT_TRY(const std::string bus, module->pci_bus_id(0));
  telemetry::Registry registry;
  const auto handle = telemetry::collect_gpu_use(registry, {{.label = "0", .pci_bus_id = bus}}, machine.nvml());
  const telemetry::Snapshot snapshot = registry.snapshot();
  Json numbers = {{"pci_bus_id", bus}};
  for (const telemetry::Sample& sample : snapshot) numbers[telemetry::info(sample.metric).name] = sample.value;
  const auto busy = value_of(snapshot, Metric::kGpuBusyShare, "0");
  const auto used = value_of(snapshot, Metric::kGpuMemoryBytes, "0");
  const auto total = value_of(snapshot, Metric::kGpuMemoryTotalBytes, "0");
  if (snapshot.empty()) return failed(fmt::format("{} has no metrics of GPU {}", machine.nvml(), bus), numbers);
  if (!used || !total) return failed("the memory is unknown", numbers);
  // NVML counts some memory that CUDA does not give away.
  const auto of_cuda = static_cast<double>(machine.memory().total_bytes);
  const bool is_same_gpu = std::abs(*total - of_cuda) < 0.1 * of_cuda && *used <= *total;
  const std::string text = fmt::format("{}: {} busy, {:.2f} of {:.2f} GiB in use, {:.2f} GiB as CUDA counts", bus,
                                       busy ? fmt::format("{:.0f} %", 100 * *busy) : "unknown how", *used / (1 << 30),
                                       *total / (1 << 30), of_cuda / (1 << 30));
  return is_same_gpu ? passed(text, numbers) : failed(text, numbers);
}

}  // namespace dtrain::gpu
