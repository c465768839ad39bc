#include "calls.h"

#include <algorithm>

#include "cuda/executor/executor.h"
#include "graph/models/models.h"
#include "modes.h"
#include "speed.h"

namespace dtrain::gpu {

namespace {

double gb_per_s(const cuda::TimedCall& call) {
  return call.ms > 0 ? static_cast<double>(call.bytes) / call.ms / 1e6 : 0;
}

std::string line_of(const cuda::TimedCall& call, double whole_ms) {
  return fmt::format("    {:44} {:8} {:8.3f} ms {:5.1f} % {:9.1f} MB {:8.0f} GB/s\n", call.name,
                     call.backward ? "backward" : "forward", call.ms, 100 * call.ms / whole_ms,
                     static_cast<double>(call.bytes) / 1e6, gb_per_s(call));
}

// The slowest calls first.
std::string table_of(std::vector<cuda::TimedCall> calls, double whole_ms) {
  constexpr size_t kLines = 25;
  std::ranges::stable_sort(calls, std::greater<>(), &cuda::TimedCall::ms);
  std::string table;
  for (size_t i = 0; i < std::min(kLines, calls.size()); i++) table += line_of(calls[i], whole_ms);
  return table;
}

Json numbers_of(const std::vector<cuda::TimedCall>& calls, double whole_ms) {
  Json all = Json::array();
  for (const cuda::TimedCall& call : calls) {
    all.push_back({{"name", call.name},
                   {"backward", call.backward},
                   {"ms", call.ms},
                   {"bytes", call.bytes},
                   {"gb_s", gb_per_s(call)}});
  }
  return {{"ms", whole_ms}, {"calls", all}, {"table", table_of(calls, whole_ms)}};
}

}  // namespace

Result<Outcome> time_calls(Machine& machine, const CallsOptions& options) {
  machine.use();
  DT_TRY(graph::Graph graph,
         graph::build_model({.network = options.network, .num_classes = options.classes, .image = options.image}));
  const Course course{
      .graph = std::move(graph),
      .options = mode_of("float16").options({.batch_size = options.batch, .inputs = {{.shape = options.image}}})};
  DT_TRY(const auto learner, Learner::create(machine.fast_backend(), course));
  const Images images = random_images(course, options.classes);
  DT_TRY(const std::vector<cuda::TimedCall> calls,
         learner->time_calls(Batch::of(images.data, images.labels), options.steps));
  double whole_ms = 0;
  int64_t bytes = 0;
  for (const cuda::TimedCall& call : calls) {
    whole_ms += call.ms;
    bytes += call.bytes;
  }
  return passed(fmt::format("{} calls, {:.2f} ms in all, {:.2f} GB counted", calls.size(), whole_ms,
                            static_cast<double>(bytes) / 1e9),
                numbers_of(calls, whole_ms));
}

}  // namespace dtrain::gpu
