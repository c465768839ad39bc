#include "role/worker/planned_memory.h"

#include <vector>

#include "job/flags/flags.h"
#include "support/catch.h"
#include "support/must.h"

namespace dtrain::role {

using Catch::Matchers::Contains;
using test::must;

namespace {

job::Flags lenet_flags(int64_t batch_size) {
  job::Flags flags;
  flags.job.network.network = "lenet";
  flags.job.network.num_classes = 10;
  flags.job.network.image_shape = {1, 28, 28};
  flags.job.scheme.kv_store = "device";
  flags.job.batch_size = batch_size;
  flags.launch.threads = 1;  // ThreadSanitizer does not see OpenMP's barriers
  return flags;
}

job::Flags with_processes(job::Flags flags, int64_t workers, int64_t servers) {
  flags.job.scheme.kv_store = "dist_sync";
  flags.job.num_workers = workers;
  flags.job.num_servers = servers;
  return flags;
}

constexpr double kLenetWeights = 4 * 431080;  // of lenet, in bytes

}  // namespace

TEST_CASE("the planned memory has parameters, optimizer, batches and what the executors say", "[role]") {
  const job::Flags flags = lenet_flags(64);
  const Network network = must(build_network(flags.job));
  const PlannedMemory plan = must(planned_memory({flags, network, true, {.workers = 1}}, 1000));
  CHECK(plan.weights == kLenetWeights);
  CHECK(plan.gradients == kLenetWeights);
  CHECK(plan.optimizer == kLenetWeights);           // the momentum
  CHECK(plan.batches == 2 * 5 * 64 * 4 * 28 * 28);  // four batches ahead and one in use, for training and validation
  CHECK(plan.server == 0);
  CHECK(plan.worker() == 3 * kLenetWeights + plan.batches + 1000);

  const job::Flags job = with_processes(flags, 3, 2);
  const PlannedMemory parts = must(planned_memory({job, network, false, {.workers = 3, .servers = 2}}, 0));
  CHECK(parts.optimizer == 0);
  CHECK(parts.server == 3 * kLenetWeights / 2);
  CHECK(parts.batches == plan.batches / 2);
  CHECK(parts.on({.workers = 3, .servers = 2}) == 3 * parts.worker() + 3 * kLenetWeights);
}

TEST_CASE("the plan is that of the compiled network, and grows with the batch", "[role]") {
  const job::Flags flags = lenet_flags(64);
  const Network network = must(build_network(flags.job));
  const MemoryQuestion question{flags, network, true, {.workers = 1}};
  const double small = must(plan_memory(question, 64)).activations,
               large = must(plan_memory(question, 640)).activations;
  CHECK(small > 64 * memory_need(network).activations - 64 * 4 * 28 * 28);
  CHECK(large > 5 * small);
  CHECK(must(plan_memory({flags, network, false, {.workers = 1}}, 64)).activations < small);
}

TEST_CASE("a job that does not fit is refused with the memory and the largest batch that fits", "[role]") {
  const job::Flags flags = lenet_flags(4096);
  const Network network = must(build_network(flags.job));
  const MemoryQuestion question{flags, network, true, {.workers = 1}};
  const double needed = must(plan_memory(question, 4096)).worker();
  CHECK(must(judge_memory(question, {.bytes = needed, .free_bytes = needed})).empty());
  const Result<std::string> refused = judge_memory(question, {.bytes = needed / 3, .free_bytes = needed / 3});
  REQUIRE_FALSE(refused);
  CHECK(refused.error().code == Code::kUsage);
  const std::string& message = refused.error().message;
  CHECK_THAT(message, Contains("network 'lenet' at --batch-size 4096 takes") && Contains("can be used on this host"));
  const std::string before = "give --batch-size ";
  REQUIRE(message.find(before) != std::string::npos);
  const int64_t fits = std::stoll(message.substr(message.find(before) + before.size()));
  CHECK(must(plan_memory(question, fits)).worker() <= needed / 3);
  CHECK(must(plan_memory(question, fits + fits / 20)).worker() > needed / 3);

  const std::string warning = must(judge_memory(question, {.bytes = needed, .free_bytes = needed / 2}));
  CHECK_THAT(warning, Contains("are free: end other programs") && Contains(before));
}

TEST_CASE("a batch that is too large to be compiled is estimated", "[role]") {
  const job::Flags flags = lenet_flags(1 << 20);
  const Network network = must(build_network(flags.job));
  const Result<std::string> refused =
      judge_memory({flags, network, false, {.workers = 1}}, {.bytes = 0x1p30, .free_bytes = 0x1p30});
  REQUIRE_FALSE(refused);
  CHECK_THAT(refused.error().message, Contains("at --batch-size 1048576 takes") &&
                                          Contains("only 1.0 GiB can be used on this host: give --batch-size "));
}

TEST_CASE("workers and servers on one host are counted together", "[role]") {
  const job::Flags flags = with_processes(lenet_flags(512), 3, 2);
  const Network network = must(build_network(flags.job));
  const MemoryQuestion question{flags, network, true, {.workers = 3, .servers = 2}};
  const double all = must(plan_memory(question, 512)).on(question.host);
  CHECK(must(judge_memory(question, {.bytes = all, .free_bytes = all})).empty());
  const Result<std::string> refused = judge_memory(question, {.bytes = all - 1, .free_bytes = all - 1});
  REQUIRE_FALSE(refused);
  CHECK_THAT(refused.error().message,
             Contains("on this host, with 3 workers and 2 servers (each worker: weights and gradients 3.3 MiB") &&
                 Contains("each server: ") && Contains("or run fewer workers on the host"));
}

TEST_CASE("the largest batch is found with few questions", "[role]") {
  int asked = 0;
  const auto linear = [&](int64_t batch) -> Result<double> {
    asked++;
    return 100 + 7.0 * static_cast<double>(batch);
  };
  CHECK(must(largest_batch({.least = 1, .too_large = 4096, .too_large_bytes = 100 + 7 * 4096}, 10000, linear)) == 1414);
  CHECK(asked <= 3);
  CHECK(must(largest_batch({.least = 1, .too_large = 4096, .too_large_bytes = 1e6}, 106, linear)) == 0);
  CHECK(must(largest_batch({.least = 1, .too_large = 2, .too_large_bytes = 200}, 107, linear)) == 1);
  CHECK(must(largest_batch({.least = 2, .too_large = 2, .too_large_bytes = 200}, 107, linear)) == 0);
  // Workspace makes the need jump.
  const auto steps = [&](int64_t batch) -> Result<double> {
    return static_cast<double>(batch) * 10 + (batch > 300 ? 2000 : 0);
  };
  const int64_t found = must(largest_batch({.least = 1, .too_large = 1000, .too_large_bytes = 12000}, 4000, steps));
  CHECK(found >= 280);
  CHECK(found <= 300);
  // Above some size not even the executors can be made.
  const auto limited = [&](int64_t batch) -> Result<double> {
    return batch > 100 ? std::numeric_limits<double>::infinity() : static_cast<double>(batch) * 10;
  };
  const int64_t made = must(largest_batch({.least = 1, .too_large = 1000, .too_large_bytes = 1e9}, 1e8, limited));
  CHECK(made >= 60);
  CHECK(made <= 100);
}

}  // namespace dtrain::role
