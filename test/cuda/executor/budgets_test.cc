// The device memory that a step of whole networks moves, and its launches, from the lowering alone: nothing runs. The
// golden file is reviewed as a diff when it changes; DTRAIN_REWRITE_GOLDEN=1 rewrites it.
#include <cstdlib>
#include <map>

#include "base/file.h"
#include "cuda/executor/layout.h"
#include "cuda/executor/lower.h"
#include "emulator.h"
#include "graph/models/models.h"
#include "plain_runner.h"
#include "support/catch.h"
#include "support/must.h"

namespace dtrain::cuda::test {
namespace {

using dtrain::test::must;

constexpr int64_t kImagesInStep = 256;
// Where the values would be. Kernels look only at the alignment of addresses when they are launched.
constexpr uintptr_t kArena = uintptr_t{1} << 40, kScratch = uintptr_t{1} << 41;

void* address(uintptr_t at) {
  return reinterpret_cast<void*>(at);
}

struct Budget {
  std::vector<emulator::Record> records;
  size_t arena_bytes = 0;
};

Budget budget_of(const std::string& network) {
  const emulator::RecordOnly only;
  const Shape image = {3, 224, 224};
  const graph::Graph graph = must(graph::build_model({.network = network, .num_classes = 1000, .image = image}));
  const exec::Options options{.batch_size = kImagesInStep, .inputs = {{.shape = image}}, .dtype = Type::kFloat16};
  const graph::Shapes shapes = must(exec::infer_shapes(graph, options));
  const Layout layout = choose_layout(graph, shapes, options);
  const auto runner = plain_runner();
  const GraphPlans plans = must(plan_convolutions(graph, shapes, layout, options, *runner));
  const DeviceParameters parameters(shapes, options.purpose, layout.weights);
  LossScale loss_scale;
  const PassInput input{.inputs = {{.floats = static_cast<const float*>(address(kArena))}},
                        .labels = static_cast<const float*>(address(kArena)),
                        .loss_scale = &loss_scale};
  const Lowered lowered = lower({graph, shapes, options, layout, plans, parameters, input});
  const exec::MemoryPlan plan = lowered.program.plan_memory(true);
  const Addresses at = lowered.program.addresses(plan, address(kArena), address(kScratch));
  std::vector<Call> calls;  // bound before launches are recorded, because binding uploads tables, once for all steps
  for (const Step& step : lowered.program.steps()) calls.push_back(step.bind(at));
  const emulator::Session session;
  for (const Call& call : calls) call(nullptr);
  return {session.records(), plan.arena_bytes};
}

// The name of a kernel, or of a pass without its shape: "forward float16".
std::string kind_of(const std::string& name) {
  const size_t type = name.find("float16");
  return type == std::string::npos ? name : name.substr(0, type - 1);
}

std::string text_of(const std::string& network) {
  struct Sum {
    int launches = 0;
    double bytes = 0;
  };
  const Budget budget = budget_of(network);
  std::map<std::string, Sum> sums;
  Sum all;
  for (const auto& r : budget.records) {
    for (Sum* sum : {&sums[kind_of(r.name)], &all}) {
      sum->launches++;
      sum->bytes += static_cast<double>(r.bytes);
    }
  }
  std::string text = fmt::format("{}: {} launches, {:.2f} GB; {} MiB of activations\n", network, all.launches,
                                 all.bytes / 1e9, budget.arena_bytes >> 20);
  for (const auto& [kind, sum] : sums) {
    text += fmt::format("  {:5} {:8.3f} GB  {}\n", sum.launches, sum.bytes / 1e9, kind);
  }
  return text;
}

}  // namespace

TEST_CASE("the bytes and launches of a step of whole networks are those of budgets.txt", "[cuda][exec]") {
  std::string text = fmt::format(
      "# A forward and a backward pass in float16, batch {}, as test/cuda/executor/budgets_test.cc records them "
      "without "
      "a GPU.\n# Each byte of the tensors of a launch counts once; workspaces of cuDNN do not count.\n",
      kImagesInStep);
  for (const char* network : {"resnet-50", "resnet-v1-50", "resnet-v1.5-50", "inception-bn", "vgg-16"}) {
    text += text_of(network);
  }
  const std::string path = std::string(DTRAIN_CUDA_EXECUTOR_TEST_DIR) + "/budgets.txt";
  if (std::getenv("DTRAIN_REWRITE_GOLDEN") != nullptr) REQUIRE(write_file_atomic(path, text));
  CHECK(must(read_file(path)) == text);
}

}  // namespace dtrain::cuda::test
