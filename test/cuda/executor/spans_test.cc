// What a traced step records of a device. The emulator's events have the times of the host's clock.
#include <map>
#include <string>

#include "cases.h"
#include "cuda/executor/device_executor.h"
#include "cuda/optimizer.h"
#include "emulator.h"
#include "graph/models/models.h"
#include "plain_runner.h"
#include "support/catch.h"
#include "telemetry/timeline.h"

using namespace dtrain;
using namespace dtrain::exec;
using exec::test::fill_parameters;
using exec::test::HostBatch;
using exec::test::Values;
using telemetry::Timeline;
using telemetry::TimelineEvent;

namespace {

constexpr int64_t kRows = 2;

// Lenet with an optimizer on the device, or with its parameters on the host.
struct Traced {
  Timeline timeline;
  graph::Graph graph = graph::build_model({.network = "lenet"}).value();
  HostBatch batch = make_batch({.name = "", .graph = graph, .image = {1, 28, 28}, .batch = kRows}, Values::kFloats, 1);
  std::unique_ptr<Executor> executor;
  std::unique_ptr<optim::ArrayOptimizer> optimizer;
  int64_t began_ns = 0, ended_ns = 0;

  explicit Traced(bool on_device, std::vector<size_t> buckets = {0}, bool has_timeline = true) {
    executor = cuda::test::emulated_backend()
                   ->compile(graph, {.batch_size = kRows,
                                     .inputs = {{.shape = {1, 28, 28}}},
                                     .bucket_begin = std::move(buckets),
                                     .parameters_on_device = on_device,
                                     .timeline = has_timeline ? &timeline : nullptr})
                   .value();
    fill_parameters(executor->parameters(), Values::kFloats, 7);
    if (!on_device) return;
    optimizer = cuda::make_device_optimizer(*executor, {.momentum = 0.9}).value();
    std::vector<optim::LearnedArray> arrays;
    for (const ParameterSpan& p : executor->device_parameters().parameters) {
      arrays.push_back({optim::multipliers_of(p.kind), p.weight, p.gradient});
    }
    optimizer->bind({arrays});
    REQUIRE(copy_to_device(executor->parameters(), executor->device_parameters()));
  }
  GradientReady ready() {
    return [this](size_t) -> Result<> {
      if (optimizer) optimizer->update(0, {.learning_rate = 0.01, .gradient_scale = 1.0 / kRows, .updates = 1});
      return {};
    };
  }
  cuda::DeviceExecutor& cuda_executor() { return dynamic_cast<cuda::DeviceExecutor&>(*executor); }
  // Returns the number of graphs that the step ran.
  size_t step() {
    const cuda::emulator::Session session;
    REQUIRE(executor->forward(batch.view(), no_wait));
    REQUIRE(executor->backward(ready()));
    REQUIRE(executor->finish());
    return static_cast<size_t>(
        std::ranges::count_if(session.records(), [](const auto& record) { return record.name == "graph"; }));
  }
  size_t traced_step() {
    timeline.begin();
    began_ns = Timeline::now_ns();
    const size_t graphs = step();
    ended_ns = Timeline::now_ns();
    timeline.end();
    return graphs;
  }
  // By track.
  std::map<std::string, std::vector<TimelineEvent>> spans() {
    std::map<std::string, std::vector<TimelineEvent>> tracks;
    for (const telemetry::TimelineRow& row : timeline.rows()) tracks[row.thread] = row.events;
    return tracks;
  }
  std::vector<float> weights() {
    if (optimizer) REQUIRE(copy_to_host(executor->device_parameters(), executor->parameters()));
    const std::span<const float> all = executor->parameters().all_weights;
    const std::span<const float> gradients = executor->parameters().all_gradients;
    std::vector<float> values(all.begin(), all.end());
    if (!optimizer) values.insert(values.end(), gradients.begin(), gradients.end());
    return values;
  }
  std::vector<cuda::TimedCall> time_calls() { return cuda_executor().time_calls(batch.view(), ready(), 1).value(); }
};

std::vector<std::string> names_of(const std::vector<TimelineEvent>& spans, const std::string& category) {
  std::vector<std::string> names;
  for (const TimelineEvent& span : spans) {
    if (span.category == category) names.emplace_back(span.name);
  }
  return names;
}

// "conv1: forward" for each call of the program, in order.
std::vector<std::string> all_operators() {
  std::vector<std::string> names;
  for (const cuda::TimedCall& call : Traced(true).time_calls()) {
    names.push_back(call.name + (call.backward ? ": backward" : ": forward"));
  }
  return {names.begin() + 1, names.end() - 1};  // without the weights at the beginning and the update at the end
}

// Several calls in a row of one node as one: their number depends on the place of the parameters and on the buckets.
std::vector<std::string> nodes_of(std::vector<std::string> calls) {
  calls.erase(std::unique(calls.begin(), calls.end()), calls.end());
  return calls;
}

void check_order(const Traced& traced, const std::vector<TimelineEvent>& spans) {
  int64_t before = traced.began_ns;
  for (const TimelineEvent& span : spans) {
    INFO(span.name);
    CHECK(before <= span.begin_ns);
    CHECK(span.begin_ns <= span.end_ns);
    before = span.end_ns;
  }
  CHECK(before <= traced.ended_ns);
}

}  // namespace

TEST_CASE("a traced step has a span for each operator, in order and one after another", "[cuda][exec][trace]") {
  for (const bool on_device : {true, false}) {
    Traced traced(on_device, on_device ? std::vector<size_t>{0} : std::vector<size_t>{0, 2, 4});
    for (int i = 0; i < 3; i++) traced.step();
    CHECK(traced.spans().empty());
    traced.traced_step();
    const auto tracks = traced.spans();
    REQUIRE(tracks.contains("GPU 0"));
    const std::vector<std::string> calls = names_of(tracks.at("GPU 0"), "operator");
    CHECK(nodes_of(calls) == nodes_of(all_operators()));
    if (on_device) CHECK(calls == all_operators());
    for (const auto& [name, spans] : tracks) {
      INFO(name);
      check_order(traced, spans);
    }
    CHECK(names_of(tracks.at("GPU 0: batches"), "device") == std::vector<std::string>{"copy the batch"});
    const auto copies = names_of(tracks.at("GPU 0: copies"), "device");
    CHECK(std::ranges::count(copies, "copy results to the host") == 1);
    CHECK(std::ranges::count(copies, "copy gradients to the host") == (on_device ? 0 : 3));
    CHECK(tracks.contains("GPU 0: sums and updates") == on_device);
    const auto has_bytes = [](const TimelineEvent& span) {
      return span.arguments[0].name != nullptr && std::string(span.arguments[0].name) == "bytes" &&
             span.arguments[0].value > 0;
    };
    CHECK(std::ranges::count_if(tracks.at("GPU 0"), has_bytes) > 20);
  }
}

// The first step of a device may be traced as well; the ones after it are captured as always.
TEST_CASE("a trace changes no weights, and the graph stays as it is", "[cuda][exec][trace]") {
  for (const bool on_device : {true, false}) {
    for (const uint64_t seed : {0, 1, 2}) {
      Traced plain(on_device, {0}, false), traced(on_device);
      const cuda::emulator::LateStreams late(seed);
      for (const int step : {0, 1, 2, 3, 4, 5, 6}) {
        const bool is_traced = step == 0 || step == 5;
        INFO("step " << step << ", seed " << seed);
        const size_t graphs = is_traced ? traced.traced_step() : traced.step();
        // Each turn has a graph of its own; with the parameters on the host there is only one.
        CHECK((graphs > 0) == (step > (on_device ? 2 : 1) && !is_traced));
        plain.step();
        CHECK(traced.weights() == plain.weights());
      }
    }
  }
}

TEST_CASE("without a trace no event is timed, and the host waits no more", "[cuda][exec][trace]") {
  for (const bool on_device : {true, false}) {
    Traced with(on_device), without(on_device, {0}, false);
    with.traced_step();
    for (int step = 0; step < 4; step++) {
      const uint64_t timed = cuda::emulator::timed_events(), waits = cuda::emulator::host_waits();
      with.step();
      CHECK(cuda::emulator::timed_events() == timed);
      const uint64_t own = cuda::emulator::host_waits() - waits;
      without.step();
      CHECK(cuda::emulator::host_waits() - waits == 2 * own);
    }
  }
}

// The sums of a group are in the graph. A device that left it out would not meet the others.
TEST_CASE("with a group the graph is timed as a whole", "[cuda][exec][trace]") {
  Traced traced(true);
  traced.cuda_executor().store_stream()->set_watch([](auto) -> Result<> { return {}; });
  for (int i = 0; i < 2; i++) traced.step();
  for (int i = 0; i < 4; i++) {  // two that capture, and two that replay
    CHECK(traced.traced_step() == 1);
    const auto tracks = traced.spans();
    CHECK(names_of(tracks.at("GPU 0"), "device") ==
          std::vector<std::string>{"take the batch", "forward, backward and update"});
    CHECK(names_of(tracks.at("GPU 0"), "operator").empty());
    CHECK_FALSE(tracks.contains("GPU 0: sums and updates"));
    check_order(traced, tracks.at("GPU 0"));
  }
}

// The next batch is copied while the step runs, and may arrive after it.
TEST_CASE("the copy of an announced batch is recorded with the step in which it begins", "[cuda][exec][trace]") {
  Traced traced(true);
  traced.step();
  traced.timeline.begin();
  for (int i = 0; i < 2; i++) {
    REQUIRE(traced.executor->forward(traced.batch.view(), no_wait));
    REQUIRE(traced.executor->backward(traced.ready()));
    traced.executor->announce(traced.batch.view());
    REQUIRE(traced.executor->finish());
  }
  traced.timeline.end();
  CHECK(traced.spans().at("GPU 0: batches").size() == 3);
}

TEST_CASE("validation is traced too", "[cuda][exec][trace]") {
  Traced traced(true);
  auto inference = cuda::test::emulated_backend()
                       ->compile(traced.graph,
                                 {.purpose = Options::Purpose::kInference,
                                  .batch_size = kRows,
                                  .inputs = {{.shape = {1, 28, 28}}},
                                  .parameters_on_device = true,
                                  .timeline = &traced.timeline},
                                 traced.executor.get())
                       .value();
  traced.timeline.begin();
  REQUIRE(inference->forward(traced.batch.view(), no_wait));
  CHECK(inference->result(0).size() == kRows * 10);
  traced.timeline.end();
  const auto names = names_of(traced.spans().at("GPU 0"), "operator");
  CHECK_FALSE(names.empty());
  CHECK(std::ranges::all_of(names, [](const std::string& name) { return name.ends_with(": forward"); }));
}
