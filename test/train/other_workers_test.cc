// Runs that continue with another number of workers or another batch size.
#include "train/other_workers.h"

#include <thread>

#include "job/parse.h"
#include "job/spec/job_spec.h"
#include "members.h"
#include "support/catch.h"
#include "toy_run.h"
#include "train/rest_text.h"

using namespace dtrain;
using namespace dtrain::train;
using namespace dtrain::train::test;

namespace {

job::JobSpec spec_of(int64_t workers, int64_t batch, int64_t records) {
  job::JobSpec spec =
      job::requested(job::parsed({"-n", std::to_string(workers), "-s", "1", "--kv-store", "dist_sync", "--network",
                                  "lenet", "--seed", "3", "--batch-size", std::to_string(batch)}));
  spec.records_train = spec.records_val = records;
  for (const data::Share& share : data::equal_shares(records, workers)) {
    spec.shares.push_back({share.begin, share.end});
    spec.batches.push_back(data::batches_per_epoch((records + workers - 1) / workers, batch));
  }
  return spec;
}

StartSpec start_spec(const job::JobSpec& spec) {
  StartSpec start;
  start.job_text = job::text(spec);
  start.epoch = job::plan_of(spec).epoch_of.front();
  return start;
}

// After two epochs and 10 steps of 4 workers with batches of 8: 320 of 1,000 records are read.
Start begun() {
  return {.position = {.epoch = 2, .step = 10, .own_steps = 74, .updates = 74, .samples = 74 * 32},
          .slots = {},
          .metric_sums = {{80, 1}, {80, 2}, {80, 3}, {80, 4}},
          .loss_scales = {},
          .worker_steps = {}};
}

void adapt(Start& start, const std::string& before, const StartSpec& now, const Log& log) {
  adapt_to_workers(start, before, now.job_text, now.epoch, log);
}

}  // namespace

TEST_CASE("a position within an epoch continues with the records that are left", "[train]") {
  const job::JobSpec before = spec_of(4, 8, 1000), now = spec_of(3, 16, 1000);
  Start start = begun();
  adapt(start, job::text(before), start_spec(now), Log::silent());
  CHECK(data::count_left(start.rest) == 680);
  // An epoch has 21 steps of 48 records. The 680 that are left need 15 steps.
  CHECK(start.position == Position{2, 6, 2 * 21 + 6, 74, 2 * 21 * 48 + 6 * 48});
  CHECK(start.rest.first_step == 6);
  CHECK(start.metric_sums == std::vector<std::vector<double>>{{320, 10}});

  // Five steps later, one worker continues.
  start.position.step += 5;
  adapt(start, job::text(now), start_spec(spec_of(1, 4, 1000)), Log::silent());
  CHECK(data::count_left(start.rest) == 680 - 5 * 48);
  CHECK(start.position.step == 250 - (680 - 5 * 48) / 4);
  CHECK(parse_rest(to_text(start.rest)).value() == start.rest);
}

TEST_CASE("the schedule continues at the same fraction of the epochs after an epoch's end", "[train]") {
  Start start = begun();
  start.position = {.epoch = 3, .step = 0, .own_steps = 96, .updates = 96, .samples = 96 * 32};
  adapt(start, job::text(spec_of(4, 8, 1000)), start_spec(spec_of(3, 16, 1000)), Log::silent());
  CHECK(start.position == Position{3, 0, 3 * 21, 96, 3 * 21 * 48});
  CHECK(start.rest == data::EpochRest{});
}

TEST_CASE("equal workers leave a position unchanged", "[train]") {
  Start start = begun();
  const job::JobSpec same = spec_of(4, 8, 1000);
  adapt(start, job::text(same), start_spec(same), Log::silent());
  CHECK(start.position == begun().position);
  CHECK(start.metric_sums.size() == 4);
}

TEST_CASE("a changed number of records is a warning with the number of records", "[train]") {
  TempDir dir;
  Log log = Log::silent();
  must(log.add_file(dir.path("log")));
  Start start = begun();
  adapt(start, job::text(spec_of(4, 8, 1000)), start_spec(spec_of(4, 16, 900)), log);
  log.flush();
  CHECK_THAT(must(read_file(dir.path("log"))), Catch::Contains("up to 704 of its 900 records are read again"));
  CHECK(start.rest.read.empty());
  CHECK(start.position.step == 15 - 11);
}

TEST_CASE("the rest of an epoch is read back from its text, and other texts are refused", "[train]") {
  const std::string text = "5 32:0-50,50-100 16:0-18,18-36";
  CHECK(to_text(parse_rest(text).value()) == text);
  CHECK(parse_rest("").value() == data::EpochRest{});
  for (const char* wrong : {"5", "5 ", "5 32", "5 32:", "5 32:0", "5 32:0-", "5 32:50-0", "5 -1:0-50", "5 32:0-50,",
                            "x", "5 32:0-50 16:0-19", "5 32:0-50  16:0-9", "5 32:0-9999999999999", "5 32:0-50 "}) {
    INFO(wrong);
    CHECK_FALSE(parse_rest(wrong));
  }
}

// Two workers make 2 of 4 steps; one process makes the other 4 of its 8 steps. When it is stopped once more and
// resumed, its bits are those of a run that was not.
TEST_CASE("a run of two workers continues in one process, which can be interrupted again", "[train]") {
  const TempDir dir, again;
  TrainSpec spec = toy_spec(dir.path("net"), 2);
  spec.job_text = job::text(spec_of(2, kToyBatch, kToyRecords));
  spec.job_hash = "two";
  Meetings meetings(2);
  std::vector<std::thread> threads;
  for (uint32_t rank = 0; rank < 2; rank++) {
    threads.emplace_back([&, rank] {
      Member member(meetings, rank, 2);
      must(ToyRun(spec, {.rank = rank, .workers = 2}, &member).run());
    });
  }
  for (std::thread& thread : threads) thread.join();
  std::filesystem::copy(dir.path(), again.path());
  const auto alone = [&](const TempDir& in) {
    TrainSpec one = toy_spec(in.path("net"), 2);
    one.job_text = job::text(spec_of(1, kToyBatch, kToyRecords));
    one.job_hash = "one";
    one.start_from = StartFrom{in.path("net"), std::nullopt};
    return one;
  };
  ToyRun whole(alone(dir));
  CHECK(is_at(must(whole.run()).position, 2, 0));
  CHECK_THAT(whole.log_text(),
             Catch::Contains("epoch 1: the 17 records that are left are divided among 1 workers, in 4 steps"));
  CHECK(whole.samples() == (4 + 8) * kToyBatch);
  const std::atomic<bool> never = false;
  StoppingCoordinator coordinator(never, 4);  // two updates were made by two workers, two by this one
  const TrainOutcome stopped = must(ToyRun(alone(again), {}, &coordinator).run());
  CHECK(stopped.stopped);
  CHECK(is_at(stopped.position, 0, 6));
  REQUIRE(ToyRun(alone(again)).run());
  const auto bytes = [](const TempDir& in, const char* file) { return must(read_file(in.path(file))); };
  CHECK((bytes(dir, "net-0002.params") == bytes(again, "net-0002.params")));
  CHECK((bytes(dir, "net-0002.states") == bytes(again, "net-0002.states")));
}
