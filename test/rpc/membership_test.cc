// The scheduler's service and its clients: the decisions of sync/membership.h, through real calls.

#include "base/file.h"
#include "net/tcp.h"
#include "rpc/job.h"
#include "support/catch.h"
#include "support/temp_dir.h"

namespace dtrain::rpc::test {

using namespace dtrain::test;
namespace {

using Catch::Contains;

Error refusal(Process& process) {
  auto reply = within(process.join());
  REQUIRE_FALSE(reply.has_value());
  return reply.error();
}

}  // namespace

TEST_CASE("every process gets the same table, its own rank and the complete job", "[rpc]") {
  Job job(settings(2, 1));
  Process& second = job.add(Role::kWorker);
  second.request.want_rank = 1;
  Process& first = job.add(Role::kWorker);
  Process& server = job.add(Role::kServer);
  for (Process* worker : {&first, &second}) {
    worker->request.records_train = 60'000;
    worker->request.records_val = 10'000;
  }
  std::vector<std::future<Result<JoinReply>>> joins;
  for (Process* process : {&second, &first, &server}) joins.push_back(process->join());
  std::vector<JoinReply> replies;
  for (auto& join : joins) replies.push_back(within(std::move(join)).value());
  CHECK(replies[0].rank == 1);
  CHECK(replies[1].rank == 0);
  CHECK(replies[2].rank == 0);
  for (const JoinReply& reply : replies) {
    CHECK(reply.job_text == "network = lenet\nlr = 0.1\nplacement = 0:0:0:4:0\n");
    CHECK(reply.records_train == 60'000);
    REQUIRE(reply.nodes.size() == 3);
    CHECK(reply.nodes[0].incarnation == first.options.incarnation);
    CHECK(reply.of(Role::kServer)[0].address == "127.0.0.1:1");
  }
}

TEST_CASE("a caller with another token or build or without a token is refused, and the job continues", "[rpc]") {
  Job job(settings(1, 0));
  Process intruder(job.scheduler->port(), Role::kWorker, {.token = "secre!", .build_id = "build-1", .tls = {}});
  Process stranger(job.scheduler->port(), Role::kWorker, {.token = "", .build_id = "build-1", .tls = {}});
  Process older(job.scheduler->port(), Role::kWorker, {.token = "secret", .build_id = "build-0", .tls = {}});
  for (Process* process : {&intruder, &stranger}) {
    const Error error = refusal(*process);
    CHECK(error.code == Code::kDenied);
    CHECK_THAT(error.message, Contains("job token"));
  }
  const Error error = refusal(older);
  CHECK(error.code == Code::kDenied);
  CHECK_THAT(error.message, Contains("build-0") && Contains("--allow-mixed-builds"));
  job.start(1, 0);
}

TEST_CASE("silent connections are closed and do not keep the job from starting", "[rpc]") {
  Job job(settings(1, 0));
  std::vector<UniqueFd> silent;
  for (int i = 0; i < 100; i++) silent.push_back(connect_to(job.scheduler->port()));
  job.start(1, 0);
  for (const UniqueFd& connection : silent) CHECK(is_closed_within(connection, kPatience));
}

TEST_CASE("an HTTP/2 connection without a call is closed, and a member's is not", "[rpc]") {
  Job job(settings(1, 0));
  job.start(1, 0);
  const UniqueFd idle = connect_to(job.scheduler->port());
  say(idle, kHttp2Greeting);
  CHECK(is_closed_within(idle, kPatience));
  CHECK(job[0].client->sum("afterwards", {}).has_value());
}

TEST_CASE("a caller that is refused cannot write lines or escape codes into the log", "[rpc]") {
  const dtrain::test::TempDir dir;
  Log log = Log::silent();
  REQUIRE(log.add_file(dir.path("log")));
  Job job(settings(2, 0), security(), {}, log);
  Process other_host(job.scheduler->port(), Role::kWorker);
  other_host.request.host = "here\x1b[2J\n2016-05-12 10:11:12,345 Node[0] Epoch[0] Train-accuracy=1";
  other_host.request.job_text = "network = mlp\n\x1b[2J\n";
  CHECK(refusal(other_host).code == Code::kUsage);
  std::string text;  // the scheduler may still be writing it
  await([&] { return !(text = *read_file(dir.path("log"))).empty(); });
  CHECK_THAT(text, Contains("host=here\\x1b[2J\\x0a2016-05-12"));
  CHECK(text.find('\x1b') == std::string::npos);
  CHECK_THAT(text, !Contains("\n2016"));
}

TEST_CASE("a process of another build may join if mixed builds are allowed", "[rpc]") {
  Security lenient = security();
  lenient.allow_mixed_builds = true;
  Job job(settings(1, 0), lenient);
  Process older(job.scheduler->port(), Role::kWorker, {.token = "secret", .build_id = "build-0", .tls = {}});
  CHECK(within(older.join()).has_value());
}

// Two workers, of which worker 1 lacks an index, and a server. Each worker runs `prepare` between its two joins.
struct Preparing {
  explicit Preparing(sync::membership::Settings settings,
                     const std::function<Result<Records>(ControlClient& control)>& prepare)
      : job(std::move(settings)) {
    for (uint32_t i = 0; i < 3; i++) {
      Process& process = job.add(i < 2 ? Role::kWorker : Role::kServer);
      process.request.want_rank = i < 2 ? i : 0;
      process.request.lacks_index = i == 1;
      if (i < 2) process.prepare = [prepare, control = process.client.get()] { return prepare(*control); };
      joins.push_back(process.join());
    }
  }

  Job job;
  std::vector<std::future<Result<JoinReply>>> joins;
};

TEST_CASE("workers prepare their data together before the job starts", "[rpc]") {
  Preparing all(settings(2, 1), [](ControlClient& control) -> Result<Records> {
    CHECK(control.workers() == 2);
    const std::vector<double> mine = {control.rank() == 0 ? 60'000.0 : 0.0};
    DT_TRY(const std::vector<double> sums, control.sum("the index", mine));
    return Records{.train = static_cast<uint64_t>(sums[0]), .val = 7};
  });
  for (auto& join : all.joins) {
    const Result<JoinReply> reply = within(std::move(join));
    INFO((reply ? "" : reply.error().text()));
    REQUIRE(reply);
    CHECK(reply->job_text == "network = lenet\nlr = 0.1\nplacement = 0:0:0:4:0\n");
    CHECK(reply->records_train == 60'000);
    CHECK(reply->records_val == 7);
    CHECK(reply->nodes.size() == 3);
  }
}

TEST_CASE("the start fails for all and names a worker that cannot prepare its data", "[rpc]") {
  Preparing all(settings(2, 1), [](ControlClient& control) -> Result<Records> {
    if (control.rank() == 0) return fail(Code::kData, "train.rec: no record");
    DT_TRY_VOID(control.sum("the index", {}));
    return Records{};
  });
  const Result<JoinReply> failed = within(std::move(all.joins[0]));
  REQUIRE_FALSE(failed);
  CHECK(failed.error().message == "train.rec: no record");
  all.job[0].client->done(tl::unexpected(failed.error()));
  for (const size_t other : {1, 2}) {
    const Result<JoinReply> reply = within(std::move(all.joins[other]));
    REQUIRE_FALSE(reply);
    CHECK(reply.error().code == Code::kData);
    CHECK_THAT(reply.error().message, Contains("worker 0 failed: train.rec: no record"));
    all.job[other].client->done(tl::unexpected(reply.error()));
  }
  const auto outcome = all.job.scheduler->wait(kPatience);
  REQUIRE(outcome.has_value());
  CHECK(outcome->error().code == Code::kData);
}

TEST_CASE("workers with different numbers of records are told which numbers differ", "[rpc]") {
  Preparing all(settings(2, 1), [](ControlClient& control) { return Records{.train = 50 + control.rank(), .val = 0}; });
  for (auto& join : all.joins) {
    const Result<JoinReply> reply = within(std::move(join));
    REQUIRE_FALSE(reply);
    CHECK_THAT(reply.error().message, Contains("worker 1 has 51") && Contains("worker 0 has 50"));
  }
}

TEST_CASE("a stop request ends the start of a job whose workers prepare their data", "[rpc]") {
  Preparing all(settings(2, 1), [&](ControlClient& control) -> Result<Records> {
    if (control.rank() == 0) {
      control.request_stop();
      DT_TRY_VOID(finish_of(control));  // returns when the scheduler has answered
    }
    DT_TRY_VOID(control.sum("the index", {}));
    return Records{};
  });
  for (auto& join : all.joins) {
    const Result<JoinReply> reply = within(std::move(join));
    REQUIRE_FALSE(reply);
    CHECK(reply.error().code == Code::kPreempted);
    CHECK_THAT(reply.error().message, Contains("worker 0 was asked to stop before the job had started"));
  }
}

TEST_CASE("a taken rank, other flags and other records are usage errors that say what differs", "[rpc]") {
  Job job(settings(2, 0));
  Process& first = job.add(Role::kWorker);
  first.request.want_rank = 0;
  first.request.records_train = 100;
  auto first_join = first.join();
  Process& other_flags = job.add(Role::kWorker);
  other_flags.request.job_text = "network = mlp\nlr = 0.1\n";
  const Error flags = refusal(other_flags);
  CHECK(flags.code == Code::kUsage);
  CHECK_THAT(flags.message, Contains("network (job: lenet, here: mlp)"));
  Process& other_records = job.add(Role::kWorker);
  other_records.request.records_train = 99;
  const Error records = refusal(other_records);
  CHECK(records.code == Code::kUsage);
  CHECK_THAT(records.message, Contains("worker 1 has 99") && Contains("worker 0 has 100"));
  Process& twin = job.add(Role::kWorker);
  twin.request.want_rank = 0;
  twin.request.records_train = 100;
  const Error taken = refusal(twin);
  CHECK(taken.code == Code::kUsage);
  CHECK_THAT(taken.message, Contains("another process has already joined"));
  Process& good = job.add(Role::kWorker);
  good.request.records_train = 100;
  CHECK(within(good.join()).value().rank == 1);
  CHECK(within(std::move(first_join)).value().rank == 0);
}

TEST_CASE("at the startup limit all waiting processes are told which ones are missing", "[rpc]") {
  auto short_limit = settings(2, 1);
  short_limit.start_timeout_ms = 300;
  Job job(short_limit);
  const Error error = refusal(job.add(Role::kWorker));
  CHECK(error.code == Code::kStartup);
  CHECK_THAT(error.message, Contains("worker 1, server 0 did not join within 0.3 s"));
  const auto outcome = job.scheduler->wait(kPatience);
  REQUIRE(outcome.has_value());
  CHECK(outcome->error().code == Code::kStartup);
}

TEST_CASE("an absent scheduler is an error with its address after the limit", "[rpc]") {
  Process process(1, Role::kWorker);  // nothing listens on port 1
  process.options.start_timeout = 300ms;
  process.create();
  const Error error = refusal(process);
  CHECK(error.code == Code::kStartup);
  CHECK_THAT(error.message, Contains("127.0.0.1:1") && Contains("0.3 s"));
}

TEST_CASE("a worker that joins a running job does not wait longer for its scheduler than the job's processes do",
          "[rpc]") {
  Process process(1, Role::kWorker);  // the job is over: nothing listens
  process.request.is_late = true;
  const Error error = refusal(process);
  CHECK(error.code == Code::kStartup);
  CHECK_THAT(error.message, Contains("127.0.0.1:1") && Contains("0.5 s"));
}

TEST_CASE("a signal ends the wait for other processes to join", "[rpc]") {
  Job job(settings(2, 0));
  Process& process = job.add(Role::kWorker);
  auto join = process.join();
  process.client->request_stop();
  auto reply = within(std::move(join));
  REQUIRE_FALSE(reply.has_value());
  CHECK(reply.error().code == Code::kPreempted);
}

TEST_CASE("an error of finish_job ends the start for all processes", "[rpc]") {
  SchedulerOptions options;
  options.security = security();
  options.membership = settings(1, 0);
  options.finish_job = [](const Joined&) -> Result<CompleteJob> { return fail(Code::kUsage, "no placement fits"); };
  const auto scheduler = Scheduler::start(std::move(options), Log::silent()).value();
  Process process(scheduler->port(), Role::kWorker);
  CHECK(refusal(process).message == "no placement fits");
}

TEST_CASE("a port in use is a startup error that names the port and a remedy", "[rpc]") {
  Job job(settings(1, 0));
  SchedulerOptions options;
  options.listen = {"127.0.0.1", job.scheduler->port(), 0};
  options.membership = settings(1, 0);
  const auto second = Scheduler::start(options, Log::silent());
  REQUIRE_FALSE(second.has_value());
  CHECK(second.error().code == Code::kStartup);
  CHECK_THAT(second.error().message, Contains(std::to_string(job.scheduler->port())) &&
                                         Contains("another process uses it") && Contains("--port"));
  // With a range of ports, the scheduler tries the next port.
  options.listen.port_last = static_cast<uint16_t>(job.scheduler->port() + 20);
  CHECK(Scheduler::start(options, Log::silent()).has_value());
  options.listen = {"203.0.113.1", 0, 0};  // reserved for documentation; no host has it
  CHECK(Scheduler::start(options, Log::silent()).error().code == Code::kStartup);
}

}  // namespace dtrain::rpc::test
