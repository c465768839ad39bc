// Checkpoints are written by a thread of their own, from a copy in memory.
#include "train/checkpoint_writer.h"

#include <cerrno>
#include <filesystem>
#include <future>

#include "support/catch.h"
#include "support/patience.h"
#include "toy_run.h"

using namespace dtrain;
using namespace dtrain::train;
using namespace dtrain::train::test;
using dtrain::test::await;
using dtrain::test::kPatience;
using dtrain::test::within;

namespace {

// Holds up the first system call of a write until it is released.
class Gate {
 public:
  AtomicFile::Fault fault() {
    return [this](const char*) {
      if (!std::exchange(reached_, true)) was_opened_ = opened_.wait_for(kPatience) == std::future_status::ready;
      return 0;
    };
  }
  void open() { open_.set_value(); }
  // Whether the write was released, and did not end its wait by itself. To be called when all is written.
  [[nodiscard]] bool was_opened() const { return was_opened_; }

 private:
  std::promise<void> open_;
  std::future<void> opened_ = open_.get_future();
  bool reached_ = false, was_opened_ = false;  // used by the writing thread only
};

struct WriterNet {
  WriterNet() {
    view.parameters = {{"fc_weight", ParameterKind::kWeight, {4}, weight, {}}};
    view.statistics = {{"bn_moving_mean", ParameterKind::kOther, {1}, mean, {}}};
  }
  std::vector<float> weight = {1, 1, 1, 1}, mean = {1};
  ParameterView view;
};

class WriterRun {
 public:
  explicit WriterRun(AtomicFile::Fault fault)
      : writer_({.prefix = dir_.path("net"),
                 .symbol = "{}",
                 .waits = waits_,
                 .log = Log::silent(),
                 .fault = std::move(fault)}) {}

  // Saves the epoch with all weights and momenta set to its number.
  Result<> save(int64_t epoch, std::vector<CheckpointName> outdated = {}, bool is_best = false) {
    std::ranges::fill(net_.weight, static_cast<float>(epoch));
    DT_TRY(Snapshot * snapshot, writer_.next());
    DT_TRY_VOID(snapshot->copy_weights(net_.view));
    snapshot->state.slots = {{"fc_weight:mom", {4}, std::vector<float>(4, static_cast<float>(epoch))}};
    snapshot->checkpoint = name(epoch);
    snapshot->outdated = std::move(outdated);
    snapshot->is_best = is_best;
    writer_.write();
    std::ranges::fill(net_.weight, -1.0F);  // training continues
    return {};
  }
  [[nodiscard]] CheckpointName name(int64_t epoch) const { return {dir_.path("net"), epoch}; }
  [[nodiscard]] bool has(int64_t epoch) const { return std::filesystem::exists(name(epoch).params_path()); }
  [[nodiscard]] std::string path(const std::string& file) const { return dir_.path(file); }
  [[nodiscard]] const Waits& waits() const { return waits_; }
  CheckpointWriter& writer() { return writer_; }

 private:
  TempDir dir_;
  Waits waits_;
  WriterNet net_;
  CheckpointWriter writer_;
};

}  // namespace

TEST_CASE("a save goes on in the background, and the next one waits for it by name", "[train]") {
  Gate gate;
  WriterRun run(gate.fault());
  REQUIRE(run.save(1));
  CHECK_FALSE(run.has(1));
  std::future<Result<>> second = std::async(std::launch::async, [&] { return run.save(2); });
  await([&] { return run.waits().foremost().has_value(); });
  CHECK_THAT(run.waits().foremost()->name, Catch::Contains("net-0001' to be written"));
  gate.open();
  REQUIRE(within(std::move(second)));
  REQUIRE(run.writer().finish());
  CHECK_FALSE(run.waits().foremost());
  for (const int64_t epoch : {1, 2}) {
    const Checkpoint checkpoint = must(read_checkpoint(run.name(epoch)));
    CHECK(checkpoint.parameters.at(0).values == std::vector<float>(4, static_cast<float>(epoch)));
    CHECK(checkpoint.slots.at(0).values == std::vector<float>(4, static_cast<float>(epoch)));
  }
  CHECK(run.writer().longest_s() > 0);
}

TEST_CASE("outdated checkpoints are removed only when the new one is complete", "[train]") {
  bool full = false;
  WriterRun run([&](const char*) { return full ? ENOSPC : 0; });
  REQUIRE(run.save(1));
  REQUIRE(run.save(2, {run.name(1)}, true));
  REQUIRE(run.writer().finish());
  CHECK_FALSE(run.has(1));
  CHECK(std::filesystem::exists(run.path("net-best.params")));
  full = true;
  REQUIRE(run.save(3, {run.name(2)}));
  const Result<> failed = run.writer().finish();
  REQUIRE_FALSE(failed);
  CHECK_THAT(failed.error().message, Catch::Contains("net-symbol.json") && Catch::Contains("No space left"));
  CHECK(run.has(2));
  full = false;
  CHECK(run.save(4).error().message == failed.error().message);  // the first error is kept
}

// The first write is released only by a step of the next epoch.
TEST_CASE("training continues while a checkpoint is written", "[train]") {
  class Releasing final : public StoppingCoordinator {
   public:
    using StoppingCoordinator::StoppingCoordinator;
    Result<bool> may_begin(uint64_t step) override {
      if (step == 10) gate.open();
      return StoppingCoordinator::may_begin(step);
    }
    Gate gate;
  };
  const std::atomic<bool> never = false;
  const TempDir dir;
  Releasing coordinator(never, 1000);
  ToyRun run(toy_spec(dir.path("net"), 2), {.checkpoint_fault = coordinator.gate.fault()}, &coordinator);
  REQUIRE(run.run());
  CHECK(coordinator.gate.was_opened());
  for (const int64_t epoch : {1, 2})
    CHECK(must(read_checkpoint({dir.path("net"), epoch})).header->position.epoch == epoch);
}

TEST_CASE("a full disk ends the run with an error that names the file", "[train]") {
  const TempDir dir;
  ToyRun run(toy_spec(dir.path("net"), 3), {.checkpoint_fault = [](const char*) { return ENOSPC; }});
  const auto outcome = run.run();
  REQUIRE_FALSE(outcome);
  CHECK(outcome.error().code == Code::kData);
  CHECK_THAT(outcome.error().message, Catch::Contains("net-symbol.json") && Catch::Contains("No space left"));
  CHECK(run.samples() < 3 * 8 * kToyBatch);
}
