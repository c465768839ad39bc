#include "job/process/inject.h"

#include "job/parse.h"
#include "support/catch.h"

namespace dtrain::job {

using Catch::Matchers::Contains;

namespace {

Inject inject_of(const std::string& text) {
  Inject inject;
  const Result<> parsed = parse_value(text, inject);
  INFO((parsed ? "" : parsed.error().text()));
  REQUIRE(parsed);
  return inject;
}

std::string refused_inject(const std::string& text) {
  Inject inject;
  const Result<> parsed = parse_value(text, inject);
  REQUIRE_FALSE(parsed);
  CHECK(parsed.error().code == Code::kUsage);
  CHECK(inject.empty());
  return parsed.error().message;
}

constexpr ProcessName worker(int64_t rank) {
  return {Role::kWorker, rank};
}

}  // namespace

TEST_CASE("faults are parsed for each process", "[job]") {
  const Inject inject = inject_of("drop=0.1,dup=0.1,delay=0..50ms,step-ms=100@worker:3,kill=worker:1@step:40");
  CHECK(inject.of(worker(0)) == Faults{.drop = 0.1, .dup = 0.1, .delay = {0, 50}});
  CHECK(inject.of(worker(1)) == Faults{.drop = 0.1, .dup = 0.1, .delay = {0, 50}, .points = {{.number = 40}}});
  CHECK(inject.of(worker(3)) == Faults{.drop = 0.1, .dup = 0.1, .delay = {0, 50}, .step_ms = 100});
  CHECK(inject.of({Role::kServer, 3}) == Faults{.drop = 0.1, .dup = 0.1, .delay = {0, 50}});
  CHECK_FALSE(inject.seed);
  CHECK(inject_of("index-ms=7000@worker:0").of(worker(0)) == Faults{.index_ms = 7000});
  CHECK(inject_of("index-ms=7000@worker:0").of(worker(1)) == Faults{});
}

TEST_CASE("a process can be killed and stopped, each once", "[job]") {
  const Faults faults = inject_of("stop=worker:1@held:2+1.5ms,kill=worker:1@data:40").of(worker(1));
  CHECK(faults.points == std::vector<FailPoint>{{.event = "data", .number = 40},
                                                {.event = "held", .number = 2, .later_ms = 1.5, .signal = SIGSTOP}});
  CHECK(inject_of("kill=worker:1@data:40").counts_messages());
  CHECK_FALSE(inject_of("kill=worker:1@step:40,stop=worker:1@step:4").counts_messages());
}

TEST_CASE("a rule for one process replaces the rule for all processes", "[job]") {
  const Inject inject = inject_of(
      "drop=0.5@server:1, drop=0.1, delay=1..2ms@worker:0, step-ms=20, seed=7, "
      "drop=0@worker:2, step-ms=2.5@worker:2, kill=server:0@step:3, kill=worker:2@step:0");
  CHECK(inject.of({Role::kServer, 1}).drop == 0.5);
  CHECK(inject.of({Role::kServer, 0}) ==
        Faults{.drop = 0.1, .points = {{.number = 3}}});  // and its steps are not paced
  CHECK(inject.of(worker(2)) == Faults{.step_ms = 2.5, .points = {{}}});
  CHECK(inject.of(worker(0)) == Faults{.drop = 0.1, .delay = {1, 2}, .step_ms = 20});
  CHECK(inject.of({Role::kScheduler, 0}) == Faults{.drop = 0.1});
  CHECK(inject.seed == 7);
}

TEST_CASE("faults are parsed back from their text", "[job]") {
  const std::string text =
      "drop=0.1,drop=0.5@server:1,dup=1,delay=0.5..50ms,step-ms=100@worker:3,index-ms=5@worker:0,kill=worker:1@step:40,"
      "kill=worker:2@barrier:3+20ms,stop=worker:1@hold:2,stop=server:0@step:7,seed=9";
  CHECK(format_value(inject_of(text)) == text);
  CHECK(format_value(inject_of("seed=9, dup=1")) == "dup=1,seed=9");
  CHECK(parsed({"-n", "2", "--inject", "dup=.25"}).wire.inject == inject_of("dup=0.25"));
  CHECK(parsed({"-n", "2", "--inject", "none"}).wire.inject.empty());
}

TEST_CASE("malformed faults are refused with their rule", "[job]") {
  CHECK_THAT(refused_inject("drop=1.5"), Contains("drop: '1.5' is not a probability from 0 to 1"));
  CHECK_THAT(refused_inject("drop"), Contains("drop: '' is not a number"));
  CHECK_THAT(refused_inject("dupe=0.1"), Contains("did you mean 'dup'?"));
  CHECK_THAT(refused_inject("delay=50ms"), Contains("A..Bms"));
  CHECK_THAT(refused_inject("delay=0..50"), Contains("A..Bms"));
  CHECK_THAT(refused_inject("delay=50..20ms"), Contains("is larger than the second"));
  CHECK_THAT(refused_inject("delay=-1..20ms"), Contains("not between 0 and one hour"));
  CHECK_THAT(refused_inject("delay=..ms"), Contains("not a number"));
  CHECK_THAT(refused_inject("step-ms=10@server:0"), Contains("server:0 has no steps"));
  CHECK_THAT(refused_inject("step-ms=10@worker"), Contains("ROLE:RANK"));
  CHECK_THAT(refused_inject("drop=0.1@boss:1"), Contains("there is no 'boss'"));
  CHECK_THAT(refused_inject("drop=0.1@none:1"), Contains("must be a role (scheduler, server or worker)"));
  CHECK_THAT(refused_inject("drop=0.1@worker:-1"), Contains("a rank of at least 0"));
  CHECK_THAT(refused_inject("kill=worker:1"), Contains("@step:N"));
  CHECK_THAT(refused_inject("kill=worker:1@step:-3"), Contains("whole number of at least 0"));
  CHECK_THAT(refused_inject("kill=worker:1@hord:3"), Contains("did you mean 'hold'?"));
  CHECK_THAT(refused_inject("stop=worker:1@hold:0"), Contains("messages are counted from 1"));
  CHECK_THAT(refused_inject("stop=worker:1@hold:2+20"), Contains("N+MSms"));
  CHECK_THAT(refused_inject("kill=scheduler:0@barrier:1"), Contains("only workers and servers count messages"));
  CHECK_THAT(refused_inject("stop=worker:1@hold:1,stop=worker:1@step:4"), Contains("twice for worker:1"));
  CHECK_THAT(refused_inject("drop=0.1,drop=0.2"), Contains("drop: the rule is given twice"));
  CHECK_THAT(refused_inject("kill=worker:1@step:3,kill=worker:1@step:4"), Contains("twice for worker:1"));
  CHECK_THAT(refused_inject("seed=1,seed=2"), Contains("seed: the rule is given twice"));
}

TEST_CASE("faults for processes that the job does not have are refused", "[job]") {
  CHECK_THAT(refused({"-n", "2", "--inject", "drop=0.1@worker:2"}), Contains("there is no worker:2: the job has 2"));
  CHECK_THAT(refused({"-n", "2", "-s", "1", "--inject", "kill=server:1@step:0"}), Contains("there is no server:1"));
  CHECK_THAT(refused({"--inject", "step-ms=10"}), Contains("a job of several processes"));
  CHECK_THAT(refused({"-n", "2", "--kv-store", "allreduce", "--inject", "drop=0.1"}),
             Contains("messages to servers, but allreduce has no servers"));
  CHECK(parsed({"-n", "2", "--kv-store", "allreduce", "--inject", "step-ms=10"}).wire.inject.of(worker(1)).step_ms ==
        10);
  CHECK_THAT(refused({"-n", "2", "--inject", "drop=x"}), Contains("--inject: drop: 'x' is not a number"));
}

TEST_CASE("PS_DROP_MSG of ps-lite sets the probability of dropped messages", "[job]") {
  CHECK(parsed({"-n", "2"}, {{"PS_DROP_MSG", "10"}}).wire.inject == inject_of("drop=0.1"));
  CHECK(parsed({"-n", "2"}, {{"PS_DROP_MSG", "0"}}).wire.inject.empty());
  CHECK(parsed({"-n", "2", "--inject", "none"}, {{"PS_DROP_MSG", "10"}}).wire.inject.empty());
  CHECK_THAT(refused({"-n", "2"}, Code::kUsage, {{"PS_DROP_MSG", "some"}}), Contains("PS_DROP_MSG"));
}

}  // namespace dtrain::job
