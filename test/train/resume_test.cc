// Resumed runs: training for k epochs, stopping, resuming and training for k more gives the same bits as 2k epochs.
#include <algorithm>
#include <filesystem>

#include "support/catch.h"
#include "tensor/ndarray_file.h"
#include "toy_run.h"
#include "train/checkpoint.h"

using namespace dtrain;
using namespace dtrain::train;
using namespace dtrain::train::test;

namespace {

using How = StoppingCoordinator::How;
const std::atomic<bool> kNever = false;

// Compares the checkpoints of `epoch` in two directories byte by byte: weights, statistics, momenta, position,
// schedule.
void check_same_checkpoint(const TempDir& a, const TempDir& b, int64_t epoch) {
  const CheckpointName first{a.path("net"), epoch};
  const CheckpointName second{b.path("net"), epoch};
  CHECK(must(read_file(first.params_path())) == must(read_file(second.params_path())));
  CHECK(must(read_file(first.states_path())) == must(read_file(second.states_path())));
}

// The lines about an epoch's results, without its time, which differs.
std::vector<std::string> results(const ToyRun& run, int64_t epoch) {
  std::vector<std::string> found;
  for (const std::string& line : run.lines()) {
    if (line.starts_with(fmt::format("Epoch[{}] Train-", epoch)) ||
        line.starts_with(fmt::format("Epoch[{}] Validation-", epoch))) {
      found.push_back(line);
    }
  }
  return found;
}

TrainSpec resuming(const TempDir& dir, int64_t epochs) {
  TrainSpec spec = toy_spec(dir.path("net"), epochs);
  spec.start_from = StartFrom{dir.path("net"), std::nullopt};
  return spec;
}

}  // namespace

TEST_CASE("two epochs and two resumed epochs give the bits of four epochs", "[train]") {
  for (const bool on_cpu_backend : {false, true}) {
    const TempDir whole;
    const TempDir parts;
    const ToyOptions options{.on_cpu_backend = on_cpu_backend};
    ToyRun four(toy_spec(whole.path("net"), 4), options);
    REQUIRE(four.run());
    REQUIRE(ToyRun(toy_spec(parts.path("net"), 2), options).run());
    ToyRun rest(resuming(parts, 4), options);
    const auto outcome = rest.run();
    REQUIRE(outcome);
    CHECK(outcome->position == toy_position(4));
    check_same_checkpoint(whole, parts, 4);
    CHECK(results(rest, 3) == results(four, 3));
  }
}

namespace {

// The second convolution and the third have the same weight and bias.
graph::Graph network_with_shared_weight() {
  using namespace graph;
  Graph g;
  const Convolution same_size{.filters = 4, .kernel_h = 3, .kernel_w = 3, .pad_h = 1, .pad_w = 1};
  const NodeId data = g.add("data", Input{}, {});
  const NodeId first = g.add("conv1", same_size, {data});
  const NodeId second = g.add("conv2", same_size, {first});
  const NodeId relu = g.add("relu", Activation{}, {second});
  std::vector<TensorId> inputs = g.node(second).inputs;
  inputs[0] = g.tensor(Edge{relu});
  const NodeId third = g.add_reader("conv3", same_size, inputs);
  g.add("softmax", SoftmaxOutput{}, {g.add("fc", FullyConnected{.outputs = kToyClasses}, {third})});
  return g;
}

}  // namespace

// However the parameters are divided into buckets, and resumed or not.
TEST_CASE("a network with a shared weight trains with the same bits", "[train]") {
  for (const bool on_cpu_backend : {false, true}) {
    ToyOptions options{.network = network_with_shared_weight(), .on_cpu_backend = on_cpu_backend};
    const TempDir whole;
    const TempDir parts;
    const TempDir one_bucket;
    ToyRun four(toy_spec(whole.path("net"), 4), options);
    REQUIRE(four.run());
    REQUIRE(ToyRun(toy_spec(parts.path("net"), 2), options).run());
    REQUIRE(ToyRun(resuming(parts, 4), options).run());
    check_same_checkpoint(whole, parts, 4);
    options.bucket_begin = {0};
    REQUIRE(ToyRun(toy_spec(one_bucket.path("net"), 4), options).run());
    check_same_checkpoint(whole, one_bucket, 4);
    const auto arrays = must(read_file(CheckpointName{whole.path("net"), 4}.params_path()));
    CHECK(arrays.find("arg:conv2_weight") != std::string::npos);
    CHECK(arrays.find("arg:conv3_weight") == std::string::npos);
  }
}

// adam's steps depend on the number of the update.
TEST_CASE("adam with a warm-up and a cosine resumes with the bits of an uninterrupted run", "[train]") {
  const auto with_adam = [](TrainSpec spec) {
    spec.optimizer.name = "adam";
    spec.schedule = {.base = 0.01,
                     .kind = optim::ScheduleSpec::Kind::kCosine,
                     .end_epochs = 4,
                     .warmup_epochs = 2.5,
                     .warmup_begin = 0.001};
    return spec;
  };
  const TempDir whole, parts;
  REQUIRE(ToyRun(with_adam(toy_spec(whole.path("net"), 4))).run());
  REQUIRE(ToyRun(with_adam(toy_spec(parts.path("net"), 2))).run());
  REQUIRE(ToyRun(with_adam(resuming(parts, 4))).run());
  check_same_checkpoint(whole, parts, 4);
  // Without its state it cannot go on in the middle.
  std::filesystem::remove(parts.path("net-0002.states"));
  TrainSpec foreign = with_adam(toy_spec(parts.path("new"), 3));
  foreign.start_from = StartFrom{parts.path("net"), 2};
  const auto refused = ToyRun(foreign).run();
  REQUIRE_FALSE(refused);
  CHECK(refused.error().code == Code::kUsage);
  CHECK_THAT(refused.error().message, Catch::Contains("'adam'") && Catch::Contains("--load-epoch 0"));
}

// The first part ends after 16 steps, one of which is in a sum of three.
TEST_CASE("lbsgd resumes within a large batch with the bits of an uninterrupted run", "[train]") {
  const auto with_lbsgd = [](TrainSpec spec) {
    spec.optimizer.name = "lbsgd";
    spec.optimizer.parameters = {{"batch_scale", 3}};
    spec.schedule = {.base = 0.01, .large_batch = {.scale = 3, .warmup_epochs = 3}};
    return spec;
  };
  const TempDir whole, parts;
  REQUIRE(ToyRun(with_lbsgd(toy_spec(whole.path("net"), 4))).run());
  REQUIRE(ToyRun(with_lbsgd(toy_spec(parts.path("net"), 2))).run());
  REQUIRE(ToyRun(with_lbsgd(resuming(parts, 4))).run());
  check_same_checkpoint(whole, parts, 4);
  CHECK(must(read_file(CheckpointName{parts.path("net"), 2}.states_path())).find(":sum") != std::string::npos);
}

TEST_CASE("a stop in mid-epoch and a resume give the bits of an uninterrupted run", "[train]") {
  const TempDir whole;
  ToyRun three(toy_spec(whole.path("net"), 3));
  REQUIRE(three.run());
  for (const uint64_t stop_at : {0, 1, 7, 8, 11}) {
    INFO("stop before step " << stop_at);
    const TempDir parts;
    StoppingCoordinator coordinator(kNever, stop_at);
    ToyRun first(toy_spec(parts.path("net"), 3), {}, &coordinator);
    const auto stopped = first.run();
    REQUIRE(stopped);
    CHECK(stopped->stopped);
    CHECK(stopped->position == toy_position(static_cast<int64_t>(stop_at / 8), static_cast<int64_t>(stop_at % 8)));
    CHECK(coordinator.reported().value().step == stop_at);
    ToyRun rest(resuming(parts, 3));
    REQUIRE(rest.run());
    check_same_checkpoint(whole, parts, 3);
    for (const int64_t epoch : {1, 2}) CHECK(results(rest, epoch) == results(three, epoch));
  }
}

// As with --resplit-every 2: epochs 0 and 1 have the first share, 2 and 3 the next one.
TEST_CASE("a stop in the middle of any epoch of moving shares and a resume give the same bits", "[train]") {
  const auto share_in = [](int64_t epoch) { return data::Share{12 * (epoch / 2 % 3), 12 * (epoch / 2 % 3) + 12}; };
  const TempDir whole;
  ToyRun five(toy_spec(whole.path("net"), 5), {.share_in = share_in});
  REQUIRE(five.run());
  const TempDir unmoved;
  REQUIRE(ToyRun(toy_spec(unmoved.path("net"), 5), {.share_in = [&](int64_t) { return share_in(0); }}).run());
  CHECK(must(read_file(CheckpointName{whole.path("net"), 5}.params_path())) !=
        must(read_file(CheckpointName{unmoved.path("net"), 5}.params_path())));
  for (const uint64_t stop_at : {11, 16, 29}) {
    INFO("stop before step " << stop_at);
    const TempDir parts;
    StoppingCoordinator coordinator(kNever, stop_at);
    REQUIRE(ToyRun(toy_spec(parts.path("net"), 5), {.share_in = share_in}, &coordinator).run());
    ToyRun rest(resuming(parts, 5), {.share_in = share_in});
    REQUIRE(rest.run());
    check_same_checkpoint(whole, parts, 5);
    CHECK(results(rest, 4) == results(five, 4));
  }
}

// The flag that a signal sets: the step in progress ends, then the checkpoint is written.
TEST_CASE("the stop flag ends a run with a checkpoint", "[train]") {
  const TempDir dir;
  ToyRun run(toy_spec(dir.path("net"), 100));
  run.stop_flag() = true;
  const auto outcome = run.run();
  REQUIRE(outcome);
  CHECK(outcome->stopped);
  CHECK(must(read_checkpoint({dir.path("net"), std::nullopt})).header->position == Position{});
}

TEST_CASE("a worker that leaves meets nobody and writes no checkpoint after that", "[train]") {
  class Leaving final : public StoppingCoordinator {
   public:
    Leaving() : StoppingCoordinator(kNever, 11, How::kLeave) {}
    Result<std::vector<double>> sum(const std::string& name, std::span<const double> values) override {
      met_after = met_after || leaves();
      return StoppingCoordinator::sum(name, values);
    }
    bool met_after = false;

   private:
    Result<std::vector<job::Contribution>> gather(const std::string&, job::Contribution own,
                                                  std::span<const uint32_t>) override {
      met_after = met_after || leaves();
      return std::vector<job::Contribution>{std::move(own)};
    }
  };
  const TempDir dir;
  Leaving coordinator;
  ToyRun run(toy_spec(dir.path("net"), 2), {}, &coordinator);
  const auto outcome = run.run();
  REQUIRE(outcome);
  CHECK(outcome->left);
  CHECK_FALSE(outcome->stopped);
  CHECK(is_at(outcome->position, 1, 3));
  CHECK_FALSE(coordinator.met_after);
  CHECK(std::filesystem::exists(dir.path("net-0001.params")));
  CHECK_FALSE(std::filesystem::exists(dir.path("net-last.params")));
}

// With --save-every, a killed run continues from the last checkpoint.
TEST_CASE("a killed run continues from its last mid-epoch checkpoint", "[train]") {
  const TempDir whole;
  const TempDir parts;
  REQUIRE(ToyRun(toy_spec(whole.path("net"), 2)).run());
  TrainSpec spec = toy_spec(parts.path("net"), 2);
  spec.save_every_s = 1e-9;
  StoppingCoordinator coordinator(kNever, 11, How::kFail);
  ToyRun killed(spec, {}, &coordinator);
  CHECK(killed.run().error().message == "killed");
  CHECK(must(read_checkpoint({parts.path("net"), std::nullopt})).header->position ==
        Position{1, 3, 0, 11, 11 * kToyBatch});
  REQUIRE(ToyRun(resuming(parts, 2)).run());
  check_same_checkpoint(whole, parts, 2);
}

// For float16: a resumed run must not start with the initial scale again, because its overflows cost steps.
TEST_CASE("a resumed run keeps its loss scale", "[train]") {
  const TempDir dir;
  TrainSpec spec = toy_spec(dir.path("net"), 2);
  spec.loss_scale = *LossScale::parse("dynamic");
  spec.loss_scale.restore({512, 7});
  REQUIRE(ToyRun(spec).run());
  using States = std::vector<LossScale::State>;
  CHECK(must(read_checkpoint({dir.path("net"), 2})).header->loss_scales == States{{512, 7 + 16}});
  TrainSpec rest = resuming(dir, 3);
  rest.loss_scale = *LossScale::parse("dynamic");
  StoppingCoordinator coordinator(kNever, 18);
  REQUIRE(ToyRun(rest, {}, &coordinator).run());
  CHECK(must(read_checkpoint({dir.path("net"), std::nullopt})).header->loss_scales == States{{512, 7 + 18}});
}

TEST_CASE("a resumed run without a checkpoint is an error and trains nothing", "[train]") {
  const TempDir empty;
  const auto outcome = ToyRun(resuming(empty, 1)).run();
  REQUIRE_FALSE(outcome);
  CHECK(outcome.error().code == Code::kNotFound);
  CHECK_THAT(outcome.error().text(), Catch::Contains(empty.path("net") + "-NNNN.params"));
  CHECK(std::filesystem::is_empty(empty.path()));
}

TEST_CASE("a resumed run that has finished trains no further step", "[train]") {
  const TempDir dir;
  REQUIRE(ToyRun(toy_spec(dir.path("net"), 1)).run());
  ToyRun run(resuming(dir, 1));
  const auto outcome = run.run();
  REQUIRE(outcome);
  CHECK(run.samples() == 0);
  CHECK_FALSE(outcome->stopped);
}

TEST_CASE("a damaged checkpoint is refused with an error that names the file and the cause", "[train]") {
  const TempDir dir;
  REQUIRE(ToyRun(toy_spec(dir.path("net"), 1)).run());
  const std::string path = dir.path("net-0001.params");
  const std::string whole = must(read_file(path));
  must(write_file_atomic(path, whole.substr(0, whole.size() / 2)));
  const auto outcome = ToyRun(resuming(dir, 2)).run();
  REQUIRE_FALSE(outcome);
  CHECK(outcome.error().code == Code::kData);
  CHECK_THAT(outcome.error().message, Catch::Contains(path) && Catch::Contains("ends at byte"));
}

// Which of them are statistics follows from the network.
TEST_CASE("a checkpoint whose arrays have no prefix is loaded", "[train]") {
  const TempDir dir;
  REQUIRE(ToyRun(toy_spec(dir.path("net"), 1)).run());
  std::filesystem::remove(dir.path("net-0001.states"));
  const std::string path = dir.path("net-0001.params");
  std::vector<NamedArray> arrays;
  for (StoredArray& array : must(parse_ndarray_bytes(must(read_file(path))))) {
    REQUIRE(array.name.size() > 4);
    arrays.push_back({array.name.substr(4), array.shape, std::get<std::vector<float>>(array.values)});
  }
  must(write_ndarray_file(path, arrays));
  TrainSpec spec = toy_spec("", 1);
  spec.start_from = StartFrom{dir.path("net"), 1};
  ToyRun run(spec);
  const auto outcome = run.run();
  REQUIRE(outcome);
  const ParameterView& view = run.training().parameters();
  REQUIRE(arrays.size() == view.parameters.size() + view.statistics.size());
  const std::span<const float> variances = view.statistics.back().weight;
  CHECK(std::ranges::equal(variances, arrays.back().values));
}

TEST_CASE("a resume from another program's checkpoint starts with empty optimizer slots and logs this", "[train]") {
  const TempDir dir;
  REQUIRE(ToyRun(toy_spec(dir.path("net"), 1)).run());
  std::filesystem::remove(dir.path("net-0001.states"));
  TrainSpec spec = toy_spec(dir.path("new"), 1);
  spec.start_from = StartFrom{dir.path("net"), 1};
  ToyRun run(spec);
  const auto outcome = run.run();
  REQUIRE(outcome);
  CHECK(outcome->position == toy_position(1));
  CHECK_THAT(run.log_text(), Catch::Contains("starts from its initial state") && Catch::Contains("Loaded model") &&
                                 Catch::Contains("net_0001.params"));
  // The learning rate of the second epoch, with --lr-factor 0.5.
  CHECK_THAT(run.log_text(), Catch::Contains("Adjust learning rate to 2.500000e-02 for epoch 1"));
  // bn1's gamma is fixed; it decays in our own runs, and the value that another program stored is ignored. bn2's is
  // used.
  const ParameterView& view = run.training().parameters();
  CHECK(view.parameters[2].name == "bn1_gamma");
  for (const float gamma : view.parameters[2].weight) CHECK(gamma == 1);
  CHECK(view.parameters[4].name == "bn2_gamma");
  CHECK(view.parameters[4].weight[0] != 1);
}

TEST_CASE("a checkpoint of another network or another optimizer is refused", "[train]") {
  const TempDir dir;
  REQUIRE(ToyRun(toy_spec(dir.path("net"), 1)).run());

  ToyOptions wider;
  wider.network = linear_network();
  wider.bucket_begin = {0};
  const auto other_network = ToyRun(resuming(dir, 2), wider).run();
  REQUIRE_FALSE(other_network);
  CHECK(other_network.error().code == Code::kData);
  CHECK_THAT(other_network.error().message, Catch::Contains("net-0001") && Catch::Contains("'fc1_weight'") &&
                                                Catch::Contains("(4, 64)") && Catch::Contains("(4, 36)"));

  REQUIRE(ToyRun([&] {
            TrainSpec spec = toy_spec(dir.path("plain"), 1);
            spec.optimizer.momentum = 0;
            return spec;
          }())
              .run());
  TrainSpec spec = toy_spec(dir.path("plain"), 2);
  spec.start_from = StartFrom{dir.path("plain"), 1};
  const auto no_slots = ToyRun(spec).run();
  REQUIRE_FALSE(no_slots);
  CHECK_THAT(no_slots.error().message, Catch::Contains("'conv1_weight:mom'"));
}

TEST_CASE("a checkpoint of another job gives a warning that lists the keys that differ", "[train]") {
  const TempDir dir;
  TrainSpec spec = toy_spec(dir.path("net"), 1);
  spec.job_hash = "aa";
  spec.job_text = "batch-size = 5\nlr = 0.05\n";
  REQUIRE(ToyRun(spec).run());
  spec.job_hash = "bb";
  spec.job_text = "batch-size = 5\nlr = 0.01\nwd = 0\n";
  spec.num_epochs = 2;
  spec.start_from = StartFrom{dir.path("net"), 1};
  ToyRun run(spec);
  REQUIRE(run.run());
  CHECK_THAT(run.log_text(), Catch::Contains("warning: the checkpoint was written with different values of: lr, wd\n"));

  // Whoever resumes a run has been told before.
  spec.num_epochs = 3;
  spec.job_text = "batch-size = 5\nlr = 0.01\nwd = 0.1\n";
  spec.job_hash = "cc";
  spec.start_from = StartFrom{dir.path("net"), std::nullopt};
  ToyRun resumed(spec);
  REQUIRE(resumed.run());
  CHECK_THAT(resumed.log_text(), Catch::Contains(" the checkpoint was written with different values of: wd\n") &&
                                     !Catch::Contains("warning"));
}
