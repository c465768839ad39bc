// A whole server in this process, with a scheduler and a worker: what happens when it runs out of memory in the middle
// of a gradient. This program has an aligned_alloc of its own, so that no other test fails by it.
#include <atomic>
#include <cstdlib>
#include <future>
#include <memory>

#include "base/signals.h"
#include "job/spec/job_plan.h"
#include "job/spec/job_spec.h"
#include "kvstore/cluster.h"
#include "kvstore/worker/dist_store.h"
#include "role/process/addresses.h"
#include "role/process/membership.h"
#include "role/server/server.h"
#include "role/setup/network.h"
#include "role/setup/update.h"
#include "rpc/data_client.h"
#include "rpc/job.h"
#include "support/catch.h"
#include "support/command_line.h"
#include "support/must.h"
#include "support/temp_dir.h"

namespace {

std::atomic<size_t> failing_bytes = 0;  // an aligned allocation of exactly this size fails

}  // namespace

// NOLINTNEXTLINE(readability-inconsistent-declaration-parameter-name): the names of the C library are reserved.
extern "C" void* aligned_alloc(size_t alignment, size_t bytes) noexcept {
  void* memory = nullptr;
  return bytes == failing_bytes || posix_memalign(&memory, alignment, bytes) != 0 ? nullptr : memory;
}

namespace dtrain::role {
namespace {

using dtrain::test::must;
using rpc::test::within;
using namespace std::chrono_literals;

// One worker and one server of a job that trains a network of three dense layers.
struct SmallJob {
  SmallJob() {
    spec.flags.seed = 1;
    spec.records_train = 100;
    spec.records_val = 0;
    spec.shares = {{0, 100}};
    spec.batches = {1};
    network = must(build_network(spec.flags));
    placement = kvstore::place(key_sizes(network.shapes), 1, kvstore::PlacementRule::kBalanced,
                               spec.flags.scheme.bigarray_bound);
    spec.placement = kvstore::to_text(placement);
  }
  [[nodiscard]] job::Flags flags(const std::string& role, const std::string& scheduler) const {
    const std::vector<std::string> arguments =
        test::command_line("--role", role, "--scheduler", scheduler,
                           "--rank 0 -n 1 -s 1 --network mlp --num-classes 10 --image-shape 1,28,28 --data-dir mnist "
                           "--data-type mnist --run-dir",
                           dir.path("run"), "--kv-store dist_sync --batch-size 100");
    return must(job::parse_flags(arguments, [](const std::string&) { return std::nullopt; })).flags;
  }
  // A scheduler that hands out the spec as it is.
  [[nodiscard]] std::unique_ptr<rpc::Scheduler> start_scheduler() const {
    rpc::SchedulerOptions options;
    options.security = must(security_of(job::LaunchFlags{}));
    options.membership = rpc::test::settings(1, 1);
    options.membership.job_text = job::text(job::requested(flags("scheduler", "127.0.0.1:1")));
    options.finish_job = [text = job::text(spec)](const rpc::Joined&) -> Result<rpc::CompleteJob> {
      return rpc::CompleteJob{text, {}};
    };
    return must(rpc::Scheduler::start(std::move(options), Log::silent()));
  }

  dtrain::test::TempDir dir;
  job::JobSpec spec = job::requested(flags("worker", "127.0.0.1:1"));
  Network network;
  std::vector<kvstore::Slice> placement;
};

}  // namespace

TEST_CASE("a server that runs out of memory in the middle of a gradient ends, and the job with its error", "[role]") {
  const SmallJob job;
  const auto scheduler = job.start_scheduler();
  const std::string address = "127.0.0.1:" + std::to_string(scheduler->port());
  const Signals signals;
  auto server = std::async(std::launch::async, [&] { return run_server(job.flags("server", address), signals); });

  const rpc::Security security = must(security_of(job::LaunchFlags{}));
  rpc::test::Process process(scheduler->port(), rpc::Role::kWorker, security);
  process.request = join_request(job.flags("worker", address), rpc::Role::kWorker);
  process.request.records_train = 100;
  std::future<Error> told = process.failed.get_future();
  const rpc::JoinReply reply = must(within(process.join()));

  std::vector<Shape> shapes;
  for (const graph::ParameterInfo& parameter : job.network.shapes.parameters) shapes.push_back(parameter.shape);
  const dtrain::test::Arrays arrays(shapes, {});
  const auto store = must(kvstore::DistStore::create({.incarnation = process.options.incarnation,
                                                      .placement = job.placement,
                                                      .rule = update_rule(job.spec.flags, job::plan_of(job.spec))},
                                                     process.waits));
  const auto pipes = must(rpc::DataClient::create({.servers = {reply.of(rpc::Role::kServer)[0].address},
                                                   .incarnation = process.options.incarnation,
                                                   .security = security},
                                                  *store, process.waits, Log::silent()));
  must(pipes->connect(10s));
  store->attach(pipes->pipes());
  must(store->initialize({&arrays.view(), 1}, {}));

  failing_bytes = arrays.view().parameters[0].gradient.size_bytes();  // that of the server's sum of these
  must(store->gradient_ready({0, 0}, 0, 100));
  const Error error = within(std::move(told));
  failing_bytes = 0;
  CHECK_THAT(error.text(), Catch::Contains("server 0 failed") && Catch::Contains("not enough memory"));
  const Result<int> ended = within(std::move(server));
  REQUIRE_FALSE(ended);
  CHECK(ended.error().code == Code::kDevice);
  CHECK_THAT(ended.error().text(), Catch::Contains("not enough memory"));
  const std::optional<Result<>> outcome = scheduler->wait(dtrain::test::kPatience);
  REQUIRE(outcome);
  REQUIRE_FALSE(*outcome);
  CHECK_THAT(outcome->error().text(), Catch::Contains("server 0 failed"));
  store->cancel(error);
  pipes->close();
}

}  // namespace dtrain::role
