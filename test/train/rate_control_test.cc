// Learning rates that are changed by hand while a run trains.
#include <filesystem>
#include <map>
#include <thread>

#include "fakes.h"
#include "members.h"
#include "support/catch.h"
#include "toy_run.h"
#include "train/rate_control.h"
#include "train/rate_request.h"

using namespace dtrain;
using namespace dtrain::train;
using namespace dtrain::train::test;

namespace {

constexpr int64_t kBatches = 8;  // of an epoch

TrainSpec continued(TrainSpec spec) {
  spec.start_from = StartFrom{spec.save_prefix, std::nullopt};
  return spec;
}

std::string file(const TempDir& dir, const std::string& name) {
  return must(read_file(dir.path(name)));
}

double factor_after(const TempDir& dir, int64_t epoch) {
  return must(read_checkpoint({dir.path("net"), epoch})).header->rate_factor;
}

std::vector<std::string> changes(const ToyRun& run) {
  std::vector<std::string> found;
  for (const std::string& line : run.lines()) {
    if (line.find("learning rate x") != std::string::npos) found.push_back(line);
  }
  return found;
}

// Asks for a rate before some steps, and stops before one.
class Asking final : public LocalCoordinator {
 public:
  Asking(const std::atomic<bool>& never, std::string metrics_path, std::map<uint64_t, std::string> requests,
         uint64_t stop_at = ~uint64_t{0})
      : LocalCoordinator(never),
        metrics_path_(std::move(metrics_path)),
        requests_(std::move(requests)),
        stop_at_(stop_at) {}
  Result<bool> may_begin(uint64_t step) override {
    const auto request = requests_.find(step);
    if (request != requests_.end()) {
      must(request_rate(metrics_path_, must(parse_rate_request(request->second))));
    }
    return step < stop_at_;
  }

 private:
  std::string metrics_path_;
  std::map<uint64_t, std::string> requests_;
  uint64_t stop_at_;
};

// Records the rates that it is told.
class RateStore final : public SilentStore {
 public:
  Result<> set_rate(const kvstore::RateChange& change, bool for_servers) override {
    told.push_back(
        fmt::format("{:g} from {}{}", change.factor, change.from_samples, for_servers ? " for servers" : ""));
    return {};
  }
  std::vector<std::string> told;
};

// Worker 1 of three, whose leader is lost before it can say that it has told the servers the rate.
class AfterLeader final : public LocalCoordinator {
 public:
  using LocalCoordinator::LocalCoordinator;
  [[nodiscard]] uint32_t rank() const override { return 1; }
  [[nodiscard]] uint32_t workers() const override { return 3; }
  [[nodiscard]] std::vector<uint32_t> live() const override { return live_; }

 private:
  Result<std::vector<job::Contribution>> gather(const std::string&, job::Contribution own,
                                                std::span<const uint32_t>) override {
    live_ = {1, 2};
    return std::vector<job::Contribution>{std::move(own), job::RateChange{}};
  }
  std::vector<uint32_t> live_ = {0, 1, 2};
};

}  // namespace

TEST_CASE("the rate follows the samples of an update, also if the leader is lost meanwhile", "[train]") {
  const std::atomic<bool> never = false;
  AfterLeader coordinator(never);
  RateStore store;
  TrainSpec spec;
  spec.rate_follows_batch = true;
  spec.schedule.base = 0.5;
  spec.epoch = {.samples = 120, .samples_per_step = 12, .samples_per_update = 12};
  EpochClock clock(spec.epoch, spec.schedule, {.may_lose_workers = true}, store, coordinator);
  RateControl rate({.spec = spec, .clock = clock, .store = store, .coordinator = coordinator, .log = Log::silent()});
  rate.begin(0.25);
  clock.change_rule_within_epoch({.samples = 120, .samples_per_step = 8, .samples_per_update = 8}, {}, {});
  REQUIRE(rate.follow_batch());
  const std::string factor = fmt::format("{:g} from 0", 0.25 * 8 / 12);
  CHECK(store.told == std::vector{factor, factor + " for servers"});
  CHECK(clock.rate_of_next_update() == Approx(0.5 * 0.25 * 8 / 12));
  CHECK(rate.factor() == 0.25);  // what a checkpoint gets, and a worker that joins

  // The new leader alone decides from now on, and the factor is never that of an earlier change.
  store.told.clear();
  clock.change_rule_after_epoch(spec.epoch);
  REQUIRE(rate.follow_batch());
  CHECK(store.told == std::vector<std::string>{"0.25 from 0 for servers"});
  CHECK(clock.rate_of_next_update() == 0.5 * 0.25);
}

TEST_CASE("without --elastic-batch scale, the rate does not follow the samples of an update", "[train]") {
  const std::atomic<bool> never = false;
  AfterLeader coordinator(never);
  RateStore store;
  TrainSpec spec;
  spec.epoch = {.samples = 120, .samples_per_step = 12, .samples_per_update = 12};
  EpochClock clock(spec.epoch, spec.schedule, {}, store, coordinator);
  RateControl rate({.spec = spec, .clock = clock, .store = store, .coordinator = coordinator, .log = Log::silent()});
  REQUIRE(rate.follow_batch());
  CHECK(store.told.empty());
}

TEST_CASE("a resumed run has the changed rate, and the same bits as one that was not stopped", "[train]") {
  const TempDir whole, parts;
  const std::atomic<bool> never = false;
  TrainSpec spec = toy_spec("", 6);
  spec.schedule = {.base = 0.05, .factor = 0.9, .every_epochs = 1};
  const auto run_until = [&](const TempDir& dir, uint64_t stop_at, bool is_first) {
    spec.save_prefix = dir.path("net");
    spec.metrics_path = dir.path("metrics.jsonl");
    Asking asking(never, spec.metrics_path, {{5, "x0.5"}, {kBatches * 3 + 2, "x0.5"}}, stop_at);
    ToyRun run(is_first ? spec : continued(spec), {}, &asking);
    REQUIRE(run.run());
    return run.log_text();
  };
  constexpr uint64_t kNever = ~uint64_t{0};
  run_until(whole, kNever, true);
  REQUIRE(factor_after(whole, 6) == 0.25);
  for (const uint64_t stop_at : {uint64_t{3}, uint64_t{kBatches * 2 + 5}, uint64_t{kBatches * 4}, kNever}) {
    const std::string log = run_until(parts, stop_at, stop_at == 3);
    if (stop_at == kNever) {
      CHECK_THAT(log, Catch::Contains("times that of the schedule, because it was changed earlier in this run"));
    }
  }
  CHECK(file(whole, "net-0006.params") == file(parts, "net-0006.params"));
  CHECK(file(whole, "net-0006.states") == file(parts, "net-0006.states"));
}

TEST_CASE("a rate that is asked for holds from the end of the epoch on", "[train]") {
  const TempDir dir;
  TrainSpec spec = toy_spec(dir.path("net"), 5);
  spec.schedule = {.base = 0.5, .factor = 0.5, .step_epochs = {3}};
  spec.metrics_path = dir.path("metrics.jsonl");
  const std::atomic<bool> never = false;
  Asking asking(never, spec.metrics_path, {{3, "0.25"}, {kBatches + 1, "x0.5"}, {kBatches * 3, "0.125"}});
  ToyRun run(spec, {}, &asking);
  REQUIRE(run.run());
  CHECK(factor_after(dir, 1) == 0.5);
  CHECK(factor_after(dir, 2) == 0.25);
  CHECK(factor_after(dir, 3) == 0.25);
  CHECK(factor_after(dir, 4) == 0.5);
  REQUIRE(changes(run).size() == 3);
  CHECK_THAT(changes(run)[0], Catch::Contains("(requested: 0.25)"));
  for (const char* line : {"Update[9]: Change learning rate to 2.50000e-01", "Update[17]: Change learning rate to 1.25",
                           "Update[25]: Change learning rate to 6.25", "Update[33]: Change learning rate to 1.25"}) {
    CHECK_THAT(run.log_text(), Catch::Contains(line));
  }
  CHECK_FALSE(std::filesystem::exists(dir.path("rate-request")));
}

TEST_CASE("a rate that is asked for holds after a validation within the epoch", "[train]") {
  const TempDir dir;
  TrainSpec spec = toy_spec(dir.path("net"), 1);
  spec.schedule = {.base = 0.5};
  spec.metrics_path = dir.path("metrics.jsonl");
  spec.eval_batches_interval = 3;
  const std::atomic<bool> never = false;
  Asking asking(never, spec.metrics_path, {{4, "x0.5"}});
  ToyRun run(spec, {}, &asking);
  REQUIRE(run.run());
  CHECK_THAT(run.log_text(), Catch::Contains("Update[7]: Change learning rate to 2.50000e-01"));
}

TEST_CASE("a request for a rate that cannot be had leaves the rate as it is, with a warning", "[train]") {
  const TempDir dir;
  TrainSpec spec = toy_spec(dir.path("net"), 1);
  spec.schedule = {.base = 0};
  spec.metrics_path = dir.path("metrics.jsonl");
  const std::atomic<bool> never = false;
  Asking asking(never, spec.metrics_path, {{1, "0.1"}});
  ToyRun run(spec, {}, &asking);
  REQUIRE(run.run());
  CHECK_THAT(run.log_text(),
             Catch::Contains("the learning rate is not changed to the requested 0.1: the schedule's rate is 0"));
  CHECK(factor_after(dir, 1) == 1);
}

TEST_CASE("a request needs a run that trains", "[train]") {
  const TempDir dir;
  const std::string metrics = dir.path("metrics.jsonl");
  const RateRequest request = must(parse_rate_request("0.1"));
  CHECK_THAT(request_rate(metrics, request).error().message, Catch::Contains("no run is training in"));
  must(write_file_atomic(metrics, "{}\n"));
  CHECK_THAT(request_rate(metrics, request).error().message, Catch::Contains("or it has ended"));
  must(write_file_atomic(dir.path("rate-request"), "0.3\n"));  // of an earlier process
  {
    RateRequests requests = RateRequests::open(metrics);
    CHECK_FALSE(requests.take(Log::silent()));
    must(request_rate(metrics, request));
    must(request_rate(metrics, must(parse_rate_request("x0.25"))));
    const RateRequest taken = requests.take(Log::silent()).value();
    CHECK(taken.kind == RateRequest::Kind::kFactor);
    CHECK(taken.value == 0.25);
    must(write_file_atomic(dir.path("rate-request"), "soon"));
    CHECK_FALSE(requests.take(Log::silent()));
    CHECK_FALSE(std::filesystem::exists(dir.path("rate-request")));
  }
  CHECK_FALSE(request_rate(metrics, request));
}

TEST_CASE("a request is a rate or a factor above 0", "[train]") {
  CHECK(to_string(must(parse_rate_request("1e-3"))) == "0.001");
  CHECK(to_string(must(parse_rate_request("x10"))) == "x10");
  for (const char* text : {"", "x", "0", "-1", "x0", "xx1", "nan", "inf", "xinf", "1,2", "fast"}) {
    INFO(text);
    CHECK_FALSE(parse_rate_request(text));
  }
}

TEST_CASE("the header of a checkpoint has the changed rate only if there is one", "[train]") {
  CheckpointHeader header;
  header.job_hash = "1234";
  CHECK(to_json(header, {}).find("\"rate\"") == std::string::npos);
  CHECK(must(parse_checkpoint_header(to_json(header, {}))).rate_factor == 1);
  header.rate_factor = 0.1;
  CHECK(must(parse_checkpoint_header(to_json(header, {}))).rate_factor == header.rate_factor);
  for (const double factor : {0.0, -1.0}) {
    header.rate_factor = factor;
    CHECK_THAT(parse_checkpoint_header(to_json(header, {})).error().message, Catch::Contains("'rate' of the header"));
  }
}
