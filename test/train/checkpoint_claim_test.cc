// Two runs write checkpoints with the same prefix.
#include "train/checkpoint_claim.h"

#include <algorithm>
#include <filesystem>
#include <future>
#include <optional>

#include "base/file.h"
#include "support/catch.h"
#include "support/must.h"
#include "support/temp_dir.h"
#include "train/checkpoint.h"

using namespace dtrain;
using namespace dtrain::train;
using dtrain::test::must;
using dtrain::test::TempDir;
using Take = CheckpointClaim::Take;

namespace {

// Writes checkpoints whose weights and states all have one value.
class Writer {
 public:
  Writer(std::string prefix, const std::string& owner, Take how)
      : name_{std::move(prefix), 1}, claim_(must(CheckpointClaim::take(name_.prefix, owner, how, waits_))) {
    view_.parameters = {{"fc_weight", ParameterKind::kWeight, {4}, weight_, {}}};
  }
  Result<> write(float value, const AtomicFile::Fault& fault = nullptr) {
    std::ranges::fill(weight_, value);
    slots_ = {{"fc_weight:mom", {4}, std::vector<float>(4, -value)}};
    return write_checkpoint(name_, {.symbol = "{}", .view = view_, .slots = slots_, .header = {}}, fault, claim_.get());
  }
  // The value of the checkpoint on disk; nullopt if it is damaged or none.
  static std::optional<float> value_of(const std::string& prefix) {
    const Result<Checkpoint> read = read_checkpoint({prefix, 1});
    if (!read || read->slots.empty() || read->slots[0].values[0] != -read->parameters.at(0).values[0]) return {};
    return read->parameters[0].values[0];
  }
  [[nodiscard]] CheckpointClaim& claim() const { return *claim_; }

 private:
  CheckpointName name_;
  Waits waits_;
  std::vector<float> weight_ = std::vector<float>(4);
  ParameterView view_;
  std::vector<NamedArray> slots_;
  std::unique_ptr<CheckpointClaim> claim_;
};

}  // namespace

TEST_CASE("a second run may not write checkpoints of a prefix while the first one lives", "[train]") {
  const TempDir dir;
  Waits waits;
  {
    Writer first(dir.path("net"), "runs/one on node1, process 7", Take::kIfFree);
    CHECK(first.claim().attempt() == 1);
    REQUIRE(first.write(1));
    const auto second = CheckpointClaim::take(dir.path("net"), "runs/two", Take::kIfFree, waits);
    REQUIRE_FALSE(second);
    CHECK(second.error().code == Code::kUsage);
    CHECK_THAT(second.error().message,
               Catch::Contains("another run, 'runs/one on node1, process 7', is writing checkpoints") &&
                   Catch::Contains("--save-model-prefix"));
    CHECK(must(CheckpointClaim::take(dir.path("other"), "runs/two", Take::kIfFree, waits))->attempt() == 1);
    REQUIRE(first.write(2));
  }
  CHECK(must(CheckpointClaim::take(dir.path("net"), "runs/two", Take::kIfFree, waits))->attempt() == 2);
}

TEST_CASE("a run whose checkpoints another one has taken over writes none, and says who has", "[train]") {
  const TempDir dir;
  Writer first(dir.path("net"), "runs/one", Take::kIfFree);
  REQUIRE(first.write(1));
  Writer second(dir.path("net"), "runs/two", Take::kAlways);
  const Result<> late = first.write(2);
  REQUIRE_FALSE(late);
  CHECK(late.error().code == Code::kUsage);
  CHECK_THAT(late.error().message, Catch::Contains("now belong to another run, 'runs/two', so this run (attempt 1)"));
  CHECK(Writer::value_of(dir.path("net")) == 1);
  REQUIRE(second.write(3));
  CHECK(Writer::value_of(dir.path("net")) == 3);
}

TEST_CASE("a run that has taken over is protected once the earlier one has ended", "[train]") {
  const TempDir dir;
  Waits waits;
  auto first = std::make_unique<Writer>(dir.path("net"), "runs/one", Take::kIfFree);
  REQUIRE(first->write(1));
  Writer second(dir.path("net"), "runs/two", Take::kAlways);
  first.reset();
  REQUIRE(second.write(2));
  CHECK_FALSE(CheckpointClaim::take(dir.path("net"), "runs/three", Take::kIfFree, waits));
  std::filesystem::remove(dir.path("net.lock"));
  REQUIRE(second.write(3));
  CHECK_FALSE(CheckpointClaim::take(dir.path("net"), "runs/three", Take::kIfFree, waits));
}

TEST_CASE("the file of attempts may be deleted or damaged while a run writes", "[train]") {
  const TempDir dir;
  const std::string path = dir.path("net.lock");
  Writer first(dir.path("net"), "runs/one", Take::kIfFree);
  std::filesystem::remove(path);
  REQUIRE(first.write(1));
  CHECK(must(read_file(path)) == "attempt 1: runs/one\n");
  must(write_file_atomic(path, "not a line that dtrain has written"));
  const Result<> written = first.write(2);
  REQUIRE_FALSE(written);
  CHECK_THAT(written.error().message, Catch::Contains("another run, unknown,"));
}

TEST_CASE("a first run that has written nothing leaves no file of attempts", "[train]") {
  const TempDir dir;
  { const Writer first(dir.path("net"), "runs/one", Take::kIfFree); }
  CHECK(std::filesystem::is_empty(dir.path()));
}

// The second run takes over and writes its checkpoint at any system call of the first one's save.
TEST_CASE("a worker that has lost its seat puts no checkpoint in place", "[train]") {
  const TempDir dir;
  Writer writer(dir.path("net"), "runs/one on node1, process 7", Take::kIfFree);
  bool is_lost = false;
  writer.claim().revoke_if([&] { return is_lost; });
  REQUIRE(writer.write(1));
  is_lost = true;
  const Result<> refused = writer.write(2);
  REQUIRE_FALSE(refused);
  CHECK(refused.error().code == Code::kPeerLost);
  CHECK(Writer::value_of(dir.path("net")) == 1.0F);
}

TEST_CASE("whenever a run takes over, its checkpoint is complete and stays", "[train]") {
  size_t calls = 0;
  for (bool came = true; came; calls++) {
    INFO("before system call " << calls << " of the first run's save");
    const TempDir dir;
    Writer first(dir.path("net"), "runs/one", Take::kIfFree);
    REQUIRE(first.write(1));
    std::future<bool> taken;
    size_t call = 0;
    const Result<> saved = first.write(2, [&](const char* name) {
      if (call++ != calls) return 0;
      taken = std::async(std::launch::async, [&] {
        Writer second(dir.path("net"), "runs/two", Take::kAlways);
        return second.write(3).has_value();
      });
      // From "link" on, the first run puts its files in place, and the second one waits for it.
      const bool is_prepared =
          std::string_view(name) == "link" || std::string_view(name) == "close" || std::string_view(name) == "rename";
      if (!is_prepared) taken.wait();
      return 0;
    });
    came = taken.valid();
    CHECK((came ? taken.get() : saved.has_value()));
    CHECK(Writer::value_of(dir.path("net")) == (came ? 3 : 2));
  }
  CHECK(calls > 12);
}
