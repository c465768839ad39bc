// Which checkpoints stay, which is the best, and validation within epochs.
#include <filesystem>
#include <set>
#include <thread>

#include "members.h"
#include "support/catch.h"
#include "toy_run.h"

using namespace dtrain;
using namespace dtrain::train;
using namespace dtrain::train::test;

namespace {

// The numbers of the checkpoints in a directory that have weights and states.
std::set<std::string> checkpoints(const TempDir& dir) {
  std::set<std::string> found;
  for (const auto& entry : std::filesystem::directory_iterator(dir.path())) {
    const std::string stem = entry.path().stem().string();
    const bool both =
        std::filesystem::exists(dir.path(stem + ".params")) && std::filesystem::exists(dir.path(stem + ".states"));
    if (both) found.insert(stem.substr(stem.find('-') + 1));
  }
  return found;
}

TrainSpec resumed(TrainSpec spec) {
  spec.start_from = StartFrom{spec.save_prefix, std::nullopt};
  return spec;
}

std::string weights(const TempDir& dir, const std::string& name) {
  return must(read_file(dir.path("net-" + name + ".params")));
}

std::vector<std::string> validation_lines(const ToyRun& run) {
  std::vector<std::string> found;
  for (const std::string& line : run.lines()) {
    if (line.find("Validation-") != std::string::npos) found.push_back(line.substr(0, line.find('=')));
  }
  return found;
}

}  // namespace

TEST_CASE("only the last checkpoints of a run are kept, also when it is resumed", "[train]") {
  const TempDir dir;
  TrainSpec spec = toy_spec(dir.path("net"), 5);
  spec.keep = 2;
  REQUIRE(ToyRun(spec).run());
  CHECK(checkpoints(dir) == std::set<std::string>{"0004", "0005"});
  spec.num_epochs = 7;
  REQUIRE(ToyRun(resumed(spec)).run());
  CHECK(checkpoints(dir) == std::set<std::string>{"0006", "0007"});
  // A run that starts from another run's checkpoint does not remove that run's files.
  spec.num_epochs = 9;
  spec.keep = 1;
  spec.start_from = StartFrom{spec.save_prefix, 7};
  REQUIRE(ToyRun(spec).run());
  CHECK(checkpoints(dir) == std::set<std::string>{"0006", "0007", "0009"});
}

TEST_CASE("all checkpoints are kept by default", "[train]") {
  const TempDir dir;
  REQUIRE(ToyRun(toy_spec(dir.path("net"), 3)).run());
  CHECK(checkpoints(dir) == std::set<std::string>{"0001", "0002", "0003"});
  const Checkpoint last = must(read_checkpoint({dir.path("net"), 3}));
  CHECK(last.header->kept_epochs.empty());
}

TEST_CASE("the best checkpoint has the weights of the epoch with the best validation accuracy", "[train]") {
  const TempDir dir;
  TrainSpec spec = toy_spec(dir.path("net"), 4);
  ToyRun run(spec);
  REQUIRE(run.run());
  const BestAccuracy best = must(read_checkpoint({dir.path("net"), 4})).header->best.value();
  CHECK(best.accuracy == run.metric(telemetry::Metric::kBestValidationAccuracy));
  CHECK(weights(dir, "best") == weights(dir, fmt::format("{:04}", best.epoch + 1)));
  CHECK(std::filesystem::exists(dir.path("net-symbol.json")));
  CHECK(newest_checkpoint(dir.path("net")).value()->epoch == 4);
}

TEST_CASE("a resumed run replaces the best checkpoint only by a better one", "[train]") {
  const TempDir dir;
  TrainSpec spec = toy_spec(dir.path("net"), 6);
  REQUIRE(ToyRun(spec).run());
  const std::string best = weights(dir, "best");
  const TempDir parts;
  spec.save_prefix = parts.path("net");
  for (const int64_t epochs : {1, 2, 5, 6}) {
    spec.num_epochs = epochs;
    REQUIRE(ToyRun(epochs == 1 ? spec : resumed(spec)).run());
  }
  CHECK(weights(parts, "best") == best);
}

TEST_CASE("validation within an epoch changes no weight and has lines of its own", "[train]") {
  const TempDir plain, interrupted, parts;
  REQUIRE(ToyRun(toy_spec(plain.path("net"), 2)).run());
  TrainSpec spec = toy_spec(interrupted.path("net"), 2);
  spec.eval_batches_interval = 4;  // an epoch has 8 batches: not again at its end
  ToyRun run(spec);
  REQUIRE(run.run());
  CHECK(validation_lines(run) ==
        std::vector<std::string>{"Epoch[0] Batch [3] Validation-accuracy", "Epoch[0] Validation-accuracy",
                                 "Epoch[1] Batch [3] Validation-accuracy", "Epoch[1] Validation-accuracy"});
  CHECK(weights(plain, "0002") == weights(interrupted, "0002"));

  spec.save_prefix = parts.path("net");
  const std::atomic<bool> never = false;
  StoppingCoordinator stop(never, 5);
  REQUIRE(ToyRun(spec, {}, &stop).run());
  ToyRun rest(resumed(spec));
  REQUIRE(rest.run());
  CHECK(validation_lines(rest).front() == "Epoch[0] Validation-accuracy");
  CHECK(weights(plain, "0002") == weights(parts, "0002"));
}

TEST_CASE("workers validate within epochs together", "[train]") {
  const TempDir dir;
  TrainSpec spec = toy_spec(dir.path("net"), 2);
  spec.eval_batches_interval = 2;
  Meetings meetings(2);
  std::vector<std::thread> threads;
  std::vector<std::string> lines;
  std::vector<Position> ends(2);
  for (uint32_t rank = 0; rank < 2; rank++) {
    threads.emplace_back([&, rank] {
      Member member(meetings, rank);
      ToyRun run(spec, {.rank = rank, .workers = 2}, &member);
      ends[rank] = must(run.run()).position;
      if (rank == 0) lines = validation_lines(run);
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (const Position& end : ends) CHECK(is_at(end, 2, 0));
  REQUIRE_FALSE(lines.empty());
  CHECK(lines.front() == "Epoch[0] Batch [1] Validation-accuracy");
}
