// Learning rates that change while a run trains: on a plateau, or by hand.
#include <filesystem>
#include <map>
#include <thread>

#include "members.h"
#include "support/catch.h"
#include "toy_run.h"
#include "train/rate_request.h"

using namespace dtrain;
using namespace dtrain::train;
using namespace dtrain::train::test;

namespace {

constexpr int64_t kBatches = 8;  // of an epoch

// No accuracy is ever above that of epoch 0.
TrainSpec on_plateau(const TempDir& dir, int64_t epochs) {
  TrainSpec spec = toy_spec(dir.path("net"), epochs);
  spec.schedule = {.base = 1e-9};
  spec.plateau = {.patience = 2, .factor = 0.25};
  return spec;
}

TrainSpec continued(TrainSpec spec) {
  spec.start_from = StartFrom{spec.save_prefix, std::nullopt};
  return spec;
}

ToyOptions softmax() {
  return {.network = linear_network(), .bucket_begin = {0}};
}

std::string file(const TempDir& dir, const std::string& name) {
  return must(read_file(dir.path(name)));
}

RateState rate_after(const TempDir& dir, int64_t epoch) {
  return must(read_checkpoint({dir.path("net"), epoch})).header->rate;
}

std::vector<std::string> changes(const ToyRun& run) {
  std::vector<std::string> found;
  for (const std::string& line : run.lines()) {
    if (line.find("learning rate x") != std::string::npos) found.push_back(line);
  }
  return found;
}

// Asks for a rate before some steps.
class Asking final : public LocalCoordinator {
 public:
  Asking(const std::atomic<bool>& never, std::string metrics_path, std::map<uint64_t, std::string> requests)
      : LocalCoordinator(never), metrics_path_(std::move(metrics_path)), requests_(std::move(requests)) {}
  Result<bool> may_begin(uint64_t step) override {
    const auto request = requests_.find(step);
    if (request != requests_.end()) {
      must(request_rate(metrics_path_, must(parse_rate_request(request->second))));
    }
    return true;
  }

 private:
  std::string metrics_path_;
  std::map<uint64_t, std::string> requests_;
};

}  // namespace

TEST_CASE("a plateau of the validation accuracy lowers the rate again and again", "[train]") {
  const TempDir dir;
  ToyRun run(on_plateau(dir, 6), softmax());
  REQUIRE(run.run());
  CHECK(rate_after(dir, 2) == RateState{});
  CHECK(rate_after(dir, 3) == RateState{0.25, 2});
  CHECK(rate_after(dir, 4) == RateState{0.25, 2});
  CHECK(rate_after(dir, 5) == RateState{0.0625, 4});
  REQUIRE(changes(run).size() == 2);
  CHECK_THAT(changes(run)[1], Catch::Contains("learning rate x 0.25 after 200 samples, 0.0625 times that of the "
                                              "schedule (no validation accuracy above") &&
                                  Catch::Contains("that of epoch 1, in 2 epochs"));
  CHECK_THAT(run.log_text(), Catch::Contains("Update[25]: Change learning rate to 2.50000e-10"));
}

TEST_CASE("a plateau does not lower the rate below the lowest one", "[train]") {
  const TempDir dir;
  TrainSpec spec = on_plateau(dir, 7);
  spec.plateau = {.patience = 1, .factor = 0.1, .rate_min = 2e-10};
  ToyRun run(spec, softmax());
  REQUIRE(run.run());
  CHECK(rate_after(dir, 7) == RateState{2e-10 / 1e-9, 1});
  CHECK(changes(run).size() == 1);
}

// The factor of the plateau and a step of the schedule are the same arithmetic.
TEST_CASE("a plateau changes the rate of every update from the next epoch on", "[train]") {
  const TempDir plain, changed;
  TrainSpec spec = toy_spec(changed.path("net"), 5);
  spec.schedule = {.base = 0.05};
  spec.plateau = {.patience = 1, .factor = 0.5};
  REQUIRE(ToyRun(spec).run());
  const RateState rate = rate_after(changed, 5);
  REQUIRE(rate.changed_epoch);
  spec.plateau = {};
  spec.save_prefix = plain.path("net");
  spec.schedule.factor = 0.5;
  for (int64_t epoch = 0; epoch < 5; epoch++) {
    const RateState after = rate_after(changed, epoch + 1);
    if (after.changed_epoch == epoch) spec.schedule.step_epochs.push_back(static_cast<double>(epoch + 1));
  }
  REQUIRE(ToyRun(spec).run());
  CHECK(file(plain, "net-0005.params") == file(changed, "net-0005.params"));
}

TEST_CASE("a resumed run has the changed rate, and the same bits as one that was not stopped", "[train]") {
  const TempDir whole, parts;
  TrainSpec spec = toy_spec(whole.path("net"), 6);
  spec.schedule = {.base = 0.05, .factor = 0.9, .every_epochs = 1};
  spec.plateau = {.patience = 1, .factor = 0.5};
  REQUIRE(ToyRun(spec).run());
  REQUIRE(rate_after(whole, 6).factor < 1);
  spec.save_prefix = parts.path("net");
  const std::atomic<bool> never = false;
  for (const uint64_t stop_at : {uint64_t{3}, uint64_t{kBatches * 2 + 5}, uint64_t{kBatches * 4}, ~uint64_t{0}}) {
    StoppingCoordinator stop(never, stop_at);
    ToyRun run(stop_at == 3 ? spec : continued(spec), {}, &stop);
    REQUIRE(run.run());
    if (stop_at == ~uint64_t{0}) {
      CHECK_THAT(run.log_text(), Catch::Contains("times that of the schedule, because the run has changed it before"));
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
  CHECK(rate_after(dir, 1) == RateState{0.5, 0});
  CHECK(rate_after(dir, 2) == RateState{0.25, 1});
  CHECK(rate_after(dir, 3) == RateState{0.25, 1});
  CHECK(rate_after(dir, 4) == RateState{0.5, 3});
  REQUIRE(changes(run).size() == 3);
  CHECK_THAT(changes(run)[0], Catch::Contains("(by hand: 0.25)"));
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
  CHECK_THAT(run.log_text(), Catch::Contains("the learning rate stays, though 0.1 was asked for: the schedule's is 0"));
  CHECK(rate_after(dir, 1) == RateState{});
}

TEST_CASE("a request needs a run that trains", "[train]") {
  const TempDir dir;
  const std::string metrics = dir.path("metrics.jsonl");
  const RateRequest request = must(parse_rate_request("0.1"));
  CHECK_THAT(request_rate(metrics, request).error().message, Catch::Contains("no run trains in"));
  must(write_file_atomic(metrics, "{}\n"));
  CHECK_THAT(request_rate(metrics, request).error().message, Catch::Contains("or has ended"));
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
  CHECK(must(parse_checkpoint_header(to_json(header, {}))).rate == RateState{});
  header.rate = {0.1, 3};
  CHECK(must(parse_checkpoint_header(to_json(header, {}))).rate == header.rate);
  for (const double factor : {0.0, -1.0}) {
    header.rate.factor = factor;
    CHECK_THAT(parse_checkpoint_header(to_json(header, {})).error().message, Catch::Contains("'rate' of the header"));
  }
}
