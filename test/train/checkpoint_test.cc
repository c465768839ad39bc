#include "train/checkpoint.h"

#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <fstream>

#include "base/file.h"
#include "support/catch.h"
#include "support/temp_dir.h"
#include "tensor/ndarray_file.h"

using namespace dtrain;
using namespace dtrain::train;
using dtrain::test::TempDir;

namespace {

// A view over its own arrays, all filled with `value`.
struct Tensors {
  explicit Tensors(float value)
      : weight(6, value),
        beta(2, value),
        mean(2, value),
        slots({{"fc_weight:mom", {2, 3}, std::vector<float>(6, -value)},
               {"fc_bias:mom", {2}, std::vector<float>(2, -value)}}) {
    view.parameters = {{"fc_weight", ParameterKind::kWeight, {2, 3}, weight, {}},
                       {"fc_bias", ParameterKind::kBias, {2}, beta, {}}};
    view.statistics = {{"bn_moving_mean", ParameterKind::kOther, {2}, mean, {}}};
  }
  std::vector<float> weight, beta, mean;
  ParameterView view;
  std::vector<NamedArray> slots;
};

CheckpointHeader some_header() {
  return {.job_hash = "00ff",
          .job_text = "batch-size = 64\n",
          .optimizer = {.name = "sgd",
                        .momentum = 0.9,
                        .weight_decay = 0.0001,
                        .clip_gradient = 0,
                        .parameters = {{"beta1", 0.5}}},
          .position = {.epoch = 2, .step = 17, .updates = 40, .samples = 12345678901234567ULL},
          .learning_rate = 0.0883600000000001,
          .seed = 0xffffffffffffffffULL,
          .metric_sums = {{10, 7, 0.1}, {}},
          .loss_scales = {{32768, 1999}, {0.5, 0}}};
}

Result<> write(const CheckpointName& name, float value, AtomicFile::Fault fault = nullptr, bool with_states = true) {
  const Tensors tensors(value);
  const std::string symbol = "{}\n";
  const CheckpointHeader header = some_header();
  return write_checkpoint(
      name,
      {.symbol = symbol, .view = tensors.view, .slots = tensors.slots, .header = header, .with_states = with_states},
      std::move(fault));
}

size_t file_count(const TempDir& dir) {
  return static_cast<size_t>(std::distance(std::filesystem::directory_iterator(dir.path()), {}));
}

// Checks that this is a checkpoint that `write` made with this value, with matching weights and slots.
void check_is(const Result<Checkpoint>& checkpoint, float value) {
  REQUIRE(checkpoint);
  REQUIRE(checkpoint->header);
  CHECK(checkpoint->parameters.at(0).values == std::vector<float>(6, value));
  CHECK(checkpoint->statistics.at(0).values == std::vector<float>(2, value));
  CHECK(checkpoint->slots.at(0).values == std::vector<float>(6, -value));
}

}  // namespace

TEST_CASE("a checkpoint is read back as it was written", "[train]") {
  const TempDir dir;
  const CheckpointName name{dir.path("net"), 3};
  REQUIRE(write(name, 1.5F));
  CHECK(std::filesystem::exists(dir.path("net-symbol.json")));
  CHECK(std::filesystem::exists(dir.path("net-0003.params")));
  CHECK(std::filesystem::exists(dir.path("net-0003.states")));
  CHECK(file_count(dir) == 3);

  const auto checkpoint = read_checkpoint(name);
  check_is(checkpoint, 1.5F);
  CHECK(checkpoint->parameters[0].name == "fc_weight");
  CHECK(checkpoint->parameters[0].shape == Shape{2, 3});
  CHECK(checkpoint->statistics[0].name == "bn_moving_mean");
  CHECK(checkpoint->slots[1].name == "fc_bias:mom");
  const CheckpointHeader& header = *checkpoint->header;
  const CheckpointHeader expected = some_header();
  CHECK(header.job_hash == expected.job_hash);
  CHECK(header.job_text == expected.job_text);
  CHECK(header.optimizer.name == expected.optimizer.name);
  CHECK(header.optimizer.weight_decay == expected.optimizer.weight_decay);
  CHECK(header.optimizer.parameters == expected.optimizer.parameters);
  CHECK(header.position == expected.position);
  CHECK(header.learning_rate == expected.learning_rate);
  CHECK(header.seed == expected.seed);
  CHECK(header.metric_sums == expected.metric_sums);
  CHECK(header.loss_scales == expected.loss_scales);
}

TEST_CASE("the arrays in a checkpoint's files have the documented names", "[train]") {
  const TempDir dir;
  REQUIRE(write({dir.path("net"), 12}, 1));
  const auto params = read_stored_arrays(dir.path("net-0012.params"));
  REQUIRE(params);
  REQUIRE(params->size() == 3);
  CHECK((*params)[0].name == "arg:fc_weight");
  CHECK((*params)[2].name == "aux:bn_moving_mean");
  const auto states = read_stored_arrays(dir.path("net-0012.states"));
  REQUIRE(states);
  CHECK((*states)[0].name == "header");
  CHECK(std::holds_alternative<std::vector<uint8_t>>((*states)[0].values));
  CHECK((*states)[1].name == "state:fc_weight:mom");
  const auto& bytes = std::get<std::vector<uint8_t>>((*states)[0].values);
  const std::string json(bytes.begin(), bytes.end());
  CHECK_THAT(json, Catch::Contains(R"("format":1)") && Catch::Contains(R"("job":"00ff")") &&
                       Catch::Contains(R"("epoch":2,"step":17)") &&
                       Catch::Contains(R"("loss_scale":[{"scale":32768.0,"good_steps":1999},)") &&
                       Catch::Contains(R"("updates":{"fc_weight":40,)"));
}

// Whichever call fails, the files on disk are the old checkpoint or the new one, with matching weights and states.
TEST_CASE("a failed write leaves the previous checkpoint intact", "[train]") {
  constexpr int kCalls = 19;  // three files with six calls each, and the rename of the new states
  for (const std::optional<int64_t> epoch : {std::optional<int64_t>(3), std::optional<int64_t>()}) {
    for (int failing = 0; failing <= kCalls; failing++) {
      INFO("failing call " << failing);
      const TempDir dir;
      const CheckpointName name{dir.path("net"), epoch};
      REQUIRE(write(name, 1));
      int call = 0;
      const Result<> written = write(name, 2, [&](const char*) { return call++ == failing ? ENOSPC : 0; });
      CHECK(written.has_value() == (failing == kCalls));
      CHECK(file_count(dir) == (failing == kCalls - 1 ? 4 : 3));
      check_is(read_checkpoint(name), failing < kCalls - 1 ? 1 : 2);
      if (!written) CHECK_THAT(written.error().message, Catch::Contains("No space left"));
    }
  }
}

TEST_CASE("a failed first write leaves no checkpoint", "[train]") {
  for (int failing = 0;; failing++) {
    INFO("failing call " << failing);
    const TempDir dir;
    const CheckpointName name{dir.path("net"), 1};
    std::string failed;
    int call = 0;
    const Result<> written = write(name, 2, [&](const char* system_call) {
      if (call++ != failing) return 0;
      failed = system_call;
      return EIO;
    });
    if (written) break;
    const auto checkpoint = read_checkpoint(name);
    if (checkpoint) {
      CHECK(failed == "rename");  // the last one, of the states: the checkpoint is complete
      check_is(checkpoint, 2);
    } else {
      CHECK(checkpoint.error().code == Code::kNotFound);
    }
    CHECK_FALSE(std::filesystem::exists(name.states_path()));
  }
}

// How a save ends early.
enum class Failure { kOneCall, kAllCallsFrom, kProcessEnds };

// Saves `value`; system call number `call` fails. Returns the number of calls, or nullopt if the save did not complete.
std::optional<int> save_with_failure(const CheckpointName& name, float value, bool with_states, Failure how, int call) {
  int calls = 0;
  const auto fault = [&](const char*) {
    const int now = calls++;
    if (how == Failure::kProcessEnds && now == call) ::_exit(1);
    return now == call || (how == Failure::kAllCallsFrom && now > call) ? EIO : 0;
  };
  if (how != Failure::kProcessEnds) {
    return write(name, value, fault, with_states) ? std::optional<int>(calls) : std::nullopt;
  }
  const pid_t child = ::fork();
  if (child == 0) ::_exit(write(name, value, fault, with_states) ? 0 : 2);
  int status = 0;
  REQUIRE(::waitpid(child, &status, 0) == child);
  REQUIRE(WIFEXITED(status));
  return WEXITSTATUS(status) == 0 ? std::optional<int>(0) : std::nullopt;
}

// Checks that the earlier checkpoint or one of the new ones is loaded, with matching weights and states.
void check_loads(const CheckpointName& name) {
  const auto checkpoint = read_checkpoint(name);
  REQUIRE(checkpoint);
  check_is(checkpoint, checkpoint->parameters.at(0).values.at(0));
}

// Fails every pair of system calls in two consecutive saves, after a checkpoint that was saved before them.
TEST_CASE("two consecutive failed saves leave a complete checkpoint", "[train]") {
  const Failure how = GENERATE(Failure::kOneCall, Failure::kAllCallsFrom, Failure::kProcessEnds);
  INFO("how: " << static_cast<int>(how));
  bool first_ended = false;
  for (int first = 0; !first_ended; first++) {
    bool second_ended = false;
    for (int second = 0; !second_ended; second++) {
      INFO("call " << first << " of the first save fails, call " << second << " of the second one");
      const TempDir dir("/dev/shm");  // hundreds of saves with several fsyncs each
      const CheckpointName name{dir.path("net"), std::nullopt};
      REQUIRE(write(name, 1));
      first_ended = save_with_failure(name, 2, true, how, first).has_value();
      check_loads(name);
      second_ended = save_with_failure(name, 3, true, how, second).has_value();
      check_loads(name);
      REQUIRE(write(name, 4));
      check_is(read_checkpoint(name), 4);
      CHECK_FALSE(std::filesystem::exists(name.states_path() + ".new"));
    }
    REQUIRE(first < 30);
  }
}

// Either the states match the weights, or there are no states.
TEST_CASE("a failed save without optimizer states leaves a checkpoint that loads", "[train]") {
  const Failure how = GENERATE(Failure::kOneCall, Failure::kAllCallsFrom, Failure::kProcessEnds);
  bool ended = false;
  for (int call = 0; !ended; call++) {
    INFO("how: " << static_cast<int>(how) << ", call " << call << " fails");
    const TempDir dir("/dev/shm");
    const CheckpointName name{dir.path("net"), 3};
    REQUIRE(write(name, 1));
    for (int save = 0; save < 2; save++) {
      ended = save_with_failure(name, 2, false, how, call).has_value();
      const auto checkpoint = read_checkpoint(name);
      REQUIRE(checkpoint);
      const float value = checkpoint->parameters.at(0).values.at(0);
      if (value == 1) check_is(checkpoint, 1);
      if (value == 2) CHECK_FALSE(checkpoint->header);
    }
    REQUIRE(call < 30);
  }
}

TEST_CASE("weights and optimizer states of different checkpoints are refused", "[train]") {
  const TempDir dir;
  REQUIRE(write({dir.path("net"), 1}, 1));
  REQUIRE(write({dir.path("net"), 2}, 2));
  std::filesystem::copy_file(dir.path("net-0001.states"), dir.path("net-0002.states"),
                             std::filesystem::copy_options::overwrite_existing);
  const auto checkpoint = read_checkpoint({dir.path("net"), 2});
  REQUIRE_FALSE(checkpoint);
  CHECK(checkpoint.error().code == Code::kData);
  CHECK_THAT(checkpoint.error().message, Catch::Contains("net-0002.params") && Catch::Contains("net-0002.states"));
}

TEST_CASE("weights without optimizer states load as another program's checkpoint", "[train]") {
  const TempDir dir;
  const std::vector<NamedArray> arrays = {
      {"arg:fc_weight", {2, 3}, std::vector<float>(6, 1)},
      {"bn_moving_mean", {2}, {1, 1}},
      {"fc_bias", {2}, {1, 1}},
      {"other:thing", {1}, {1}},
  };
  REQUIRE(write_ndarray_file(dir.path("net-0001.params"), arrays));
  const auto checkpoint = read_checkpoint({dir.path("net"), 1});
  REQUIRE(checkpoint);
  CHECK_FALSE(checkpoint->header);
  REQUIRE(checkpoint->parameters.size() == 1);
  CHECK(checkpoint->parameters[0].name == "fc_weight");
  CHECK(checkpoint->statistics.empty());
  REQUIRE(checkpoint->without_prefix.size() == 2);
  CHECK(checkpoint->without_prefix[0].name == "bn_moving_mean");
  CHECK(checkpoint->without_prefix[1].name == "fc_bias");
}

TEST_CASE("a save without optimizer states removes the states of an earlier save", "[train]") {
  const TempDir dir;
  const CheckpointName name{dir.path("net"), 1};
  REQUIRE(write(name, 1));
  REQUIRE(write(name, 2, nullptr, false));
  const auto checkpoint = read_checkpoint(name);
  REQUIRE(checkpoint);
  CHECK_FALSE(checkpoint->header);
  CHECK(checkpoint->parameters[0].values == std::vector<float>(6, 2));
}

// For both files, every truncation and every flipped bit gives an Error that names the file, never wrong numbers.
TEST_CASE("damaged checkpoint files are refused", "[train]") {
  const TempDir dir;
  const CheckpointName name{dir.path("net"), 1};
  REQUIRE(write(name, 1));
  for (const std::string& path : {name.params_path(), name.states_path()}) {
    const std::string whole = *read_file(path);
    const auto refused = [&](const std::string& bytes) {
      std::ofstream(path, std::ios::binary) << bytes;
      const auto checkpoint = read_checkpoint(name);
      return !checkpoint && checkpoint.error().code == Code::kData &&
             checkpoint.error().message.find(path) != std::string::npos;
    };
    for (size_t size = 0; size < whole.size(); size++) {
      INFO(path << " cut to " << size);
      REQUIRE(refused(whole.substr(0, size)));
    }
    int accepted = 0;
    for (size_t bit = 0; bit < whole.size() * 8; bit++) {
      std::string damaged = whole;
      damaged[bit / 8] = static_cast<char>(damaged[bit / 8] ^ (1 << (bit % 8)));
      accepted += refused(damaged) ? 0 : 1;
    }
    // Flips accepted in the states: the list's reserved word and the device of each array, which readers ignore.
    CHECK(accepted == (path == name.params_path() ? 0 : 64 + 3 * 64));
    std::ofstream(path, std::ios::binary) << whole;
  }
  CHECK(read_checkpoint(name));
}

TEST_CASE("the newest checkpoint is the one furthest in the run", "[train]") {
  const TempDir dir;
  const std::string prefix = dir.path("net");
  REQUIRE(newest_checkpoint(prefix));
  CHECK_FALSE(*newest_checkpoint(prefix));

  REQUIRE(write({prefix, 1}, 1));
  REQUIRE(write({dir.path("network"), 9}, 1));
  std::ofstream(dir.path("net-0007.params.tmp-12")) << "x";
  std::ofstream(dir.path("net-7.params")) << "x";
  CHECK((*newest_checkpoint(prefix))->epoch == 1);
  REQUIRE(write({prefix, std::nullopt}, 1));  // its position is epoch 2, step 17
  CHECK_FALSE((*newest_checkpoint(prefix))->epoch);
  REQUIRE(write({prefix, 2}, 1));
  CHECK_FALSE((*newest_checkpoint(prefix))->epoch);
  REQUIRE(write({prefix, 3}, 1));
  CHECK((*newest_checkpoint(prefix))->epoch == 3);
  REQUIRE(write({prefix, 10000}, 1));
  CHECK((*newest_checkpoint(prefix))->epoch == 10000);

  std::ofstream(dir.path("net-last.params")) << "x";
  CHECK(newest_checkpoint(prefix).error().code == Code::kData);
}
