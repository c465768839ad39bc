// Barriers through real calls: sums are in membership_test.cc; here are all-gathers, their limits and their time limit.
#include <atomic>
#include <condition_variable>
#include <memory>
#include <mutex>

#include "rpc/channel.h"
#include "rpc/contribution.h"
#include "rpc/job.h"
#include "rpc/scheduler_messages.h"
#include "rpc/status.h"
#include "scheduler.grpc.pb.h"
#include "support/catch.h"

namespace dtrain::rpc::test {
namespace {

using Catch::Contains;

// Runs `call` for each worker of the job, on its own thread. Returns the results by rank.
template <class Call>
auto on_each(Job& job, const Call& call) {
  std::vector<std::future<decltype(call(uint32_t{}, std::declval<ControlClient&>()))>> running;
  for (uint32_t rank = 0; rank < job.processes.size(); rank++) {
    running.push_back(std::async(std::launch::async, [&, rank] { return call(rank, *job[rank].client); }));
  }
  std::vector<decltype(running.front().get())> results;
  for (auto& one : running) results.push_back(within(std::move(one)));
  return results;
}

// Makes calls of many workers, all at once, and returns their replies in order.
template <class Request, class Reply, class Start>
std::vector<Reply> call_all(const std::vector<Request>& requests, const Start& start) {
  std::vector<Reply> replies(requests.size());
  std::vector<grpc::ClientContext> contexts(requests.size());
  std::vector<grpc::Status> statuses(requests.size());
  std::mutex mutex;
  std::condition_variable changed;
  size_t answered = 0;
  for (size_t i = 0; i < requests.size(); i++) {
    sign(contexts[i], security());
    contexts[i].set_deadline(std::chrono::system_clock::now() + 60s);
    start(contexts[i], requests[i], replies[i], [&, i](const grpc::Status& status) {
      const std::lock_guard lock(mutex);
      statuses[i] = status;
      answered++;
      changed.notify_one();
    });
  }
  std::unique_lock lock(mutex);
  changed.wait(lock, [&] { return answered == requests.size(); });
  for (const grpc::Status& status : statuses) REQUIRE(status.ok());
  return replies;
}

}  // namespace

TEST_CASE("every kind of message is decoded as it was encoded", "[rpc]") {
  const job::WorkerState worker{.steps = 7, .loss_scale = 1024.5, .good_steps = 1999, .metric_sums = {1, 0.1, -3}};
  const std::vector<job::Contribution> messages = {
      job::Chunk{.size = 5, .bytes = std::string("a\0b", 3)},
      job::FileCount{.files = 4},
      job::IndexProgress{.is_done = true, .offset = uint64_t{1} << 60},
      job::DeviceCount{.devices = 8},
      job::Address{.bytes = "here"},
      job::RunStart{.position = "epoch 2", .rest = "5", .rate_factor = 0.1, .workers = {worker, {}}},
      job::EpochEnd{.steps = 9, .stopping = true, .border = 3, .saves = true, .kept = 0},
      worker,
      job::Speed{.samples_per_s = 0.1},
      job::NewGroups{.next_step = 77},
      job::RateChange{.factor = 0.1},
      job::WorkerTimes{.samples = 640, .batches = 10, .seconds = 1.5},
      job::BatchDurations{.ms = {150, 0.25}},
      job::PairAddresses{.bytes = {"for 0", std::string("\0", 1), ""}}};
  REQUIRE(messages.size() == std::variant_size_v<job::Contribution>);
  for (const job::Contribution& message : messages) {
    const proto::Contribution sent = to_proto(message);
    INFO(kind_of(sent));
    CHECK_FALSE(kind_of(sent).empty());
    const std::optional<job::Contribution> received = from_proto(sent);
    REQUIRE(received);
    CHECK(received->index() == message.index());
    CHECK(to_proto(*received).SerializeAsString() == sent.SerializeAsString());
    if (const auto* end = std::get_if<job::EpochEnd>(&*received)) CHECK(end->kept == 0);
  }
  CHECK_FALSE(from_proto(proto::Contribution()));
  CHECK(kind_of(proto::Contribution()).empty());
}

TEST_CASE("a view is decoded as it was encoded", "[rpc]") {
  const sync::View view{.number = 7,
                        .workers = {{.incarnation = 3, .begin = 9}, {.state = sync::Seat::State::kJoining}},
                        .servers = {{.incarnation = 5, .is_live = false, .address = "10.0.0.1:4000"}},
                        .restores = 2,
                        .restored = 40,
                        .must_restore = true};
  CHECK(to_view(to_down(sync::membership::Notice(view)).view()) == view);
}

TEST_CASE("each barrier gives every worker the messages of all workers in rank order", "[rpc]") {
  Job job(settings(3, 0));
  job.start(3, 0);
  const auto results = on_each(job, [](uint32_t rank, ControlClient& client) -> Result<std::vector<job::EpochEnd>> {
    for (uint64_t i = 0; i < 20; i++) {
      DT_TRY(const std::vector<job::EpochEnd> all, client.all_gather("steps", job::EpochEnd{.steps = 100 * i + rank}));
      for (uint64_t other = 0; other < 3; other++) {
        if (all[other].steps != 100 * i + other)
          return fail(Code::kInternal, "worker {} at {}", other, all[other].steps);
      }
      DT_TRY_VOID(client.sum("between", {}));
    }
    return client.all_gather("last", job::EpochEnd{.steps = rank, .stopping = rank == 1});
  });
  for (const auto& all : results) {
    REQUIRE(all);
    CHECK(all->at(1).stopping);
    CHECK_FALSE(all->at(2).stopping);
  }
}

// In allreduce each worker's address has about 136 bytes for each other worker.
TEST_CASE("14 allreduce workers exchange their addresses", "[rpc]") {
  constexpr uint32_t kWorkers = 14;
  Job job(settings(kWorkers, 0));
  job.start(kWorkers, 0);
  const auto address = [](uint32_t rank) { return std::string(13 * 136 + 24, static_cast<char>(200 + rank)); };
  const auto results = on_each(job, [&](uint32_t rank, ControlClient& client) {
    return client.all_gather("addresses of the workers", job::Address{address(rank)});
  });
  for (const auto& all : results) {
    REQUIRE(all);
    for (uint32_t rank = 0; rank < kWorkers; rank++) CHECK(all->at(rank).bytes == address(rank));
  }
}

// Otherwise all replies together would have as many addresses as the cube of the number of workers.
TEST_CASE("a worker gets of the addresses for pairs only those for it, also if it asks again", "[rpc]") {
  constexpr uint32_t kWorkers = 5;
  Job job(settings(kWorkers, 0));
  job.start(kWorkers, 0);
  const auto address = [](uint32_t from, uint32_t to) { return fmt::format("from {} to {}", from, to); };
  const auto addresses_of = [&](uint32_t from) {
    job::PairAddresses all;
    for (uint32_t to = 0; to < kWorkers; to++) all.bytes.push_back(address(from, to));
    return all;
  };
  const auto results = on_each(job, [&](uint32_t rank, ControlClient& client) {
    return client.all_gather("addresses of the workers", addresses_of(rank));
  });
  for (uint32_t to = 0; to < kWorkers; to++) {
    REQUIRE(results[to]);
    for (uint32_t from = 0; from < kWorkers; from++) {
      CHECK(results[to]->at(from).bytes == std::vector<std::string>{address(from, to)});
    }
  }
  const auto stub =
      proto::Scheduler::NewStub(make_channel({"127.0.0.1", job.scheduler->port()}, security(), Traffic::kControl));
  proto::BarrierRequest again;
  again.set_incarnation(job[3].options.incarnation);
  again.set_name("addresses of the workers");
  *again.mutable_contribution() = to_proto(addresses_of(3));
  grpc::ClientContext context;
  sign(context, security());
  proto::BarrierReply reply;
  REQUIRE(stub->Barrier(&context, again, &reply).ok());
  REQUIRE(reply.contributions_size() == kWorkers);
  REQUIRE(reply.contributions(1).pair_addresses().bytes_size() == 1);
  CHECK(reply.contributions(1).pair_addresses().bytes(0) == address(1, 3));
}

TEST_CASE("1,000 workers join and exchange messages at a barrier", "[rpc]") {
// The replies hold a million addresses of processes. ThreadSanitizer knows nothing of the locks inside gRPC and looks
// each access to them up in its suppressions: with 1,000 workers that takes longer than the deadlines of the calls.
#ifdef __SANITIZE_THREAD__
  constexpr uint32_t kWorkers = 50;
#else
  constexpr uint32_t kWorkers = 1000;
#endif
  auto patient = settings(kWorkers, 0);
  patient.heartbeat_timeout_ms = 120'000;
  patient.start_timeout_ms = 60'000;
  Job job(patient);
  const net::Endpoint scheduler{"127.0.0.1", job.scheduler->port()};
  // A connection carries at most 16 calls at a time.
  std::vector<std::unique_ptr<proto::Scheduler::Stub>> stubs;
  for (uint32_t i = 0; i < (kWorkers + 15) / 16; i++) {
    stubs.push_back(proto::Scheduler::NewStub(make_channel(scheduler, security(), Traffic::kControl)));
  }
  const auto async = [&](Incarnation incarnation) { return stubs[incarnation % stubs.size()]->async(); };
  std::vector<proto::JoinRequest> joins(kWorkers);
  std::vector<proto::BarrierRequest> barriers(kWorkers);
  for (uint32_t rank = 0; rank < kWorkers; rank++) {
    joins[rank].set_role(proto::ROLE_WORKER);
    joins[rank].set_want_rank(rank);
    joins[rank].set_incarnation(rank + 1);
    joins[rank].set_job_text("network = lenet\nlr = auto\n");
    barriers[rank].set_incarnation(rank + 1);
    barriers[rank].set_name("speeds");
    *barriers[rank].mutable_contribution() = to_proto(job::Speed{0.5 + rank});
  }
  const auto joined = call_all<proto::JoinRequest, proto::JoinReply>(
      joins, [&](auto& context, const auto& request, auto& reply, auto done) {
        async(request.incarnation())->Join(&context, &request, &reply, done);
      });
  CHECK(joined.back().nodes_size() == kWorkers);
  const auto replies = call_all<proto::BarrierRequest, proto::BarrierReply>(
      barriers, [&](auto& context, const auto& request, auto& reply, auto done) {
        async(request.incarnation())->Barrier(&context, &request, &reply, done);
      });
  for (const proto::BarrierReply& reply : replies) {
    REQUIRE(reply.contributions_size() == kWorkers);
    CHECK(reply.contributions(0).speed().samples_per_s() == 0.5);
    CHECK(reply.contributions(kWorkers - 1).speed().samples_per_s() == 0.5 + kWorkers - 1);
  }
}

TEST_CASE("a message that is too large is refused by its sender and by the scheduler", "[rpc]") {
  Job job(settings(1, 0));
  job.start(1, 0);
  const job::Address large{std::string(job::kContributionBytesMax, 'x')};  // a few bytes too many when encoded
  const auto refused = job[0].client->all_gather("addresses", large);
  REQUIRE_FALSE(refused);
  CHECK(refused.error().code == Code::kUsage);
  CHECK_THAT(refused.error().message, Contains("'addresses'") && Contains("the limit of 4194304"));

  const auto stub =
      proto::Scheduler::NewStub(make_channel({"127.0.0.1", job.scheduler->port()}, security(), Traffic::kControl));
  const auto ask = [&](const proto::BarrierRequest& request) {
    grpc::ClientContext context;
    sign(context, security());
    proto::BarrierReply reply;
    return from_status(stub->Barrier(&context, request, &reply)).message;
  };
  proto::BarrierRequest request;
  request.set_incarnation(job[0].options.incarnation);
  *request.mutable_contribution() = to_proto(large);
  CHECK_THAT(ask(request), Contains("bytes of a message, more than the limit of 4194304"));
  request.mutable_contribution()->Clear();  // no message of a known kind
  CHECK_THAT(ask(request), Contains("a message of a known kind"));
  *request.mutable_contribution() = to_proto(job::Speed{1});
  request.add_values(1);
  CHECK_THAT(ask(request), Contains("numbers or a message"));
  CHECK(job[0].client->all_gather("speeds", job::Speed{2}).value().at(0).samples_per_s == 2);
}

TEST_CASE("messages that are too large in total end the job with an error", "[rpc]") {
  auto limited = settings(2, 0);
  limited.barrier_bytes_max = 1000;
  Job job(limited);
  job.start(2, 0);
  const auto results = on_each(job, [](uint32_t, ControlClient& client) {
    return client.all_gather("addresses", job::Address{std::string(600, 'x')});
  });
  for (const auto& result : results) {
    REQUIRE_FALSE(result);
    CHECK(result.error().code == Code::kUsage);
    CHECK_THAT(result.error().message, Contains("2 workers") && Contains("more than the limit of 1000"));
  }
}

TEST_CASE("a barrier names a worker that has finished and sends no message", "[rpc]") {
  Job job(settings(2, 0));
  job.start(2, 0);
  job[1].client->done({});
  const auto all = job[0].client->all_gather("speeds", job::Speed{1});
  REQUIRE_FALSE(all);
  CHECK_THAT(all.error().message, Contains("worker 1 sent no message"));
}

}  // namespace dtrain::rpc::test
