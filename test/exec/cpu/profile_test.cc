#include <algorithm>
#include <string>
#include <vector>

#include "exec/cpu/executor.h"
#include "exec/cpu/peak.h"
#include "graph/models/models.h"
#include "support/catch.h"
#include "telemetry/timeline.h"

using namespace dtrain;
using namespace dtrain::exec;

namespace {

const std::vector<float> kProfiledData(2 * 784, 0.5F), kProfiledLabels(2, 0.0F);

void profiled_step(Executor& executor) {
  REQUIRE(executor.forward(Batch::of(kProfiledData, kProfiledLabels), no_wait));
  REQUIRE(executor.backward([](size_t) -> Result<> { return {}; }));
}

}  // namespace

TEST_CASE("the profile has each step of a convolution with its operations and bytes", "[exec][cpu]") {
  const graph::Graph graph = graph::build_model({.network = "lenet", .image = {1, 28, 28}}).value();
  auto executor =
      cpu::CpuExecutor::compile(graph, {.batch_size = 2, .inputs = {{.shape = {1, 28, 28}}}, .threads = 1}).value();
  profiled_step(*executor);
  CHECK(executor->profile().empty());
  executor->enable_profile();
  profiled_step(*executor);
  profiled_step(*executor);
  const std::vector<cpu::ProfileLine> lines = executor->profile();
  const auto line = [&](const std::string& node, const std::string& what) {
    const auto found =
        std::ranges::find_if(lines, [&](const auto& l) { return l.node.starts_with(node) && l.what == what; });
    INFO(node << ": " << what);
    REQUIRE(found != lines.end());
    return *found;
  };
  // The second convolution: 50 filters of 20 x 5 x 5 at 8 x 8 places of 2 images.
  const double products = 2.0 * 50 * 20 * 5 * 5 * 8 * 8;
  for (const char* what : {"convolution", "convolution backward data", "convolution backward weights"}) {
    const cpu::ProfileLine convolution = line("convolution1", what);
    CHECK(convolution.flops == 2 * products);
    CHECK(convolution.bytes >= sizeof(float) * (2.0 * 20 * 12 * 12 + 2.0 * 50 * 8 * 8 + 50 * 20 * 5 * 5));
    CHECK(convolution.least_s > 0);
    CHECK(convolution.least_s <= convolution.mean_s);
  }
  CHECK(line("fullyconnected0", "fully connected").flops == 2.0 * 2 * 800 * 500);
}

TEST_CASE("the peak of the host is measured", "[exec][cpu]") {
  const cpu::Peak peak = cpu::measure_peak(1);
  CHECK(peak.flops_per_s > 1e8);
  CHECK(peak.bytes_per_s > 1e8);
}

// The names are those of nodes, and live as long as the timeline.
TEST_CASE("a pass records each operator on its timeline while that is on", "[exec][cpu]") {
  telemetry::Timeline timeline;
  {
    const graph::Graph graph = graph::build_model({.network = "mlp", .image = {1, 28, 28}}).value();
    auto executor =
        make_cpu_backend()
            ->compile(graph, {.batch_size = 2, .inputs = {{.shape = {1, 28, 28}}}, .threads = 1, .timeline = &timeline})
            .value();
    profiled_step(*executor);
    CHECK(timeline.rows().empty());
    timeline.begin();
    profiled_step(*executor);
    timeline.end();
    profiled_step(*executor);
  }
  std::vector<std::string> names;
  for (const telemetry::TimelineRow& row : timeline.rows()) {
    for (const telemetry::TimelineEvent& event : row.events) names.emplace_back(event.name);
  }
  CHECK(std::ranges::count(names, "fc1: fully connected") == 1);
  CHECK(std::ranges::count(names, "fc1: fully connected backward weights") == 1);
}
