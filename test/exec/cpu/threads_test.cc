#include <map>

#include "cases.h"
#include "exec/cpu/bound.h"
#include "exec/cpu/parallel.h"
#include "graph/models/models.h"
#include "support/catch.h"

using namespace dtrain;
using namespace dtrain::exec;

namespace {

cpu_set_t own_cpus() {
  cpu_set_t cpus;
  REQUIRE(sched_getaffinity(0, sizeof(cpus), &cpus) == 0);
  return cpus;
}

// The CPUs that each thread of the current team may use.
std::vector<cpu_set_t> cpus_of_team(int threads) {
  std::vector<cpu_set_t> cpus(static_cast<size_t>(threads));
#pragma omp parallel
  sched_getaffinity(0, sizeof(cpu_set_t), &cpus[static_cast<size_t>(omp_get_thread_num())]);
  return cpus;
}

}  // namespace

// Asks the kernel in the team, and again in a team of another size that consists of the same threads. The calling
// thread is moved to another's CPU and returns to its own.
TEST_CASE("a team with one thread per CPU binds each thread to a CPU, and other teams bind none", "[exec][cpu]") {
  const cpu_set_t all = own_cpus();
  const int count = CPU_COUNT(&all);
  if (count < 2) {
    WARN("skipped: one CPU only");
    return;
  }
  const cpu::Team team(count);
  const std::vector<cpu_set_t> cpus = cpus_of_team(count);
  CHECK(CPU_EQUAL(&cpus[0], &all));
  cpu_set_t home = all;
  for (size_t i = 1; i < cpus.size(); i++) {
    CHECK(CPU_COUNT(&cpus[i]) == 1);
    CPU_XOR(&home, &home, &cpus[i]);
  }
  CHECK(CPU_COUNT(&home) == 1);

  REQUIRE(sched_setaffinity(0, sizeof(cpu_set_t), &cpus[1]) == 0);
  team.keep_apart();
  const cpu_set_t after = own_cpus();
  CHECK(CPU_EQUAL(&after, &all));
  CHECK(CPU_ISSET(sched_getcpu(), &home));

  const cpu::Team larger(count + 1);
  for (const cpu_set_t& one : cpus_of_team(count + 1)) CHECK(CPU_EQUAL(&one, &all));
}

// Data loaders and gRPC start threads when they first need them.
TEST_CASE("callbacks of a pass do not run bound to a CPU", "[exec][cpu]") {
  const cpu_set_t all = own_cpus();
  const graph::Graph graph = graph::build_model({.network = "mlp", .image = {1, 28, 28}}).value();
  const Options options{.batch_size = 2, .inputs = {{.shape = {1, 28, 28}}}, .threads = CPU_COUNT(&all)};
  auto executor = make_cpu_backend()->compile(graph, options).value();
  const std::vector<float> data(2 * 784, 0.5f), labels(2, 0.0f);
  int called = 0;
  const auto look = [&](size_t) -> Result<> {
    const cpu_set_t here = own_cpus();
    called += CPU_EQUAL(&here, &all) ? 1 : 0;
    return {};
  };
  REQUIRE(executor->forward(Batch::of(data, labels), look));
  REQUIRE(executor->backward(look));
  CHECK(called == 2);
}

// A denormal times one is 0 on every thread of the team, after a pass that was started by this thread.
TEST_CASE("every compute thread flushes denormals", "[exec][cpu]") {
  const graph::Graph graph = graph::build_model({.network = "mlp", .image = {1, 28, 28}}).value();
  auto executor =
      make_cpu_backend()->compile(graph, {.batch_size = 2, .inputs = {{.shape = {1, 28, 28}}}, .threads = 3}).value();
  const std::vector<float> data(2 * 784, 1e-40f), labels(2, 0.0f);
  REQUIRE(executor->forward(Batch::of(data, labels), no_wait));

  volatile float denormal = 1e-40f;
  std::vector<float> product(3, 1.0f);
  cpu::parallel_shares(3, 1 << 20, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; i++) product[static_cast<size_t>(i)] = denormal * 1.0f;
  });
  CHECK(product == std::vector<float>{0.0f, 0.0f, 0.0f});
}

TEST_CASE("shares are contiguous, complete and nearly equal", "[exec][cpu]") {
  for (int64_t n = 0; n < 20; n++) {
    for (int64_t threads = 1; threads < 7; threads++) {
      int64_t next = 0;
      for (int64_t t = 0; t < threads; t++) {
        const auto [begin, end] = cpu::share_of(n, t, threads);
        CHECK(begin == next);
        CHECK((end - begin == n / threads || end - begin == n / threads + 1));
        next = end;
      }
      CHECK(next == n);
    }
  }
}

// Each convolution has a line for each direction, except the gradient of the images. Winograd is timed where it can be
// used.
TEST_CASE("the bound times every primitive of a step", "[exec][cpu]") {
  const graph::Graph graph = graph::build_model({.network = "inception-bn-28-small"}).value();
  const cpu::Bound bound =
      cpu::measure_bound(graph, {.batch_size = 1, .inputs = {{.shape = {3, 28, 28}}}, .threads = 1}).value();
  std::map<std::string, int> lines;
  int winograd = 0;
  for (const cpu::BoundLine& line : bound.lines) {
    lines[line.what]++;
    CHECK(line.direct_s > 0);
    winograd += line.winograd_s > 0 ? 1 : 0;
  }
  CHECK(lines["convolution"] == 19);
  CHECK(lines["convolution backward weights"] == 19);
  CHECK(lines["convolution backward data"] == 18);
  CHECK(lines["batch norm"] == 19);
  CHECK(lines["pooling"] == 3);
  CHECK(lines["eltwise"] == 0);  // each is fused into the batch norm before it
  CHECK(lines["inner product"] == 1);
  CHECK(bound.best_s() <= bound.direct_s());
}
