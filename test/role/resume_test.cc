#include "role/process/resume.h"

#include <filesystem>

#include "base/file.h"
#include "job/resolve/data_set.h"
#include "role/runs.h"
#include "support/catch.h"
#include "support/must.h"

using namespace dtrain;
using namespace dtrain::role;
using Catch::Matchers::Contains;
using dtrain::test::must;

TEST_CASE("the option --resume auto resumes the newest run of the same job with any number of epochs", "[role]") {
  const test::InTempDir here;
  test::leave_run("runs/a", test::lenet({"--seed", "5"}), 1);
  test::leave_run("runs/b", test::lenet({"--seed", "6"}), 2);
  test::leave_run("runs/c", test::lenet({"--batch-size", "7"}), 3);
  const auto now = std::filesystem::file_time_type::clock::now();
  std::filesystem::last_write_time("runs/a/jobspec", now - std::chrono::hours(2));
  std::filesystem::last_write_time("runs/b/jobspec", now - std::chrono::hours(1));

  const job::Flags longer = test::lenet({"--resume", "auto", "--num-epochs", "102"});
  const ResumeSearch found = must(find_resumed(longer));
  REQUIRE(found.run);
  CHECK(found.run->directory == "runs/b");
  CHECK(found.run->spec.flags.seed == 6);
  CHECK_FALSE(found.is_finished);
  REQUIRE(found.notes.size() == 1);
  CHECK(found.notes[0] == "resuming the run in runs/b at epoch 3, step 0");
  CHECK(load_prefix(longer, "elsewhere", found.run) == "runs/b/lenet");

  CHECK(must(find_resumed(test::lenet({"--resume", "auto", "--seed", "5"}))).run->directory == "runs/a");
  CHECK(must(find_resumed(test::lenet({"--retrain"}))).run->directory == "runs/b");
}

TEST_CASE("the option --resume auto lists the runs that it has examined and how they differ", "[role]") {
  const test::InTempDir here;
  const job::Flags flags = test::lenet({"--resume", "auto"});
  CHECK(must(find_resumed(flags)).notes ==
        std::vector<std::string>{
            "--resume auto: no run of this job can be continued, so a new run starts: there is no run in runs"});
  test::leave_run("runs/a", test::lenet({"--wd", "0.3"}), 1);
  test::leave_run("runs/b", test::lenet({}), std::nullopt);
  const ResumeSearch search = must(find_resumed(flags));
  CHECK_FALSE(search.run);
  REQUIRE(search.notes.size() == 1);
  CHECK_THAT(search.notes[0],
             Contains("runs/a is another job: wd (run 0.3, here 0.0001)") && Contains("runs/b has no checkpoint"));
  const auto retrain = find_resumed(test::lenet({"--retrain"}));
  REQUIRE_FALSE(retrain);
  CHECK(retrain.error().code == Code::kNotFound);
  CHECK_THAT(retrain.error().text(), Contains("runs/a is another job") && Contains("--resume DIR"));
}

TEST_CASE("the option --resume auto examines only the directory of --run-dir", "[role]") {
  const test::InTempDir here;
  test::leave_run("runs/a", test::lenet({}), 1);
  CHECK_FALSE(must(find_resumed(test::lenet({"--resume", "auto", "--run-dir", "mine"}))).run);
  test::leave_run("mine", test::lenet({}), 1);
  CHECK(must(find_resumed(test::lenet({"--resume", "auto", "--run-dir", "mine"}))).run->directory == "mine");
}

TEST_CASE("a run resumes from its save prefix, not from the prefix that it loaded from", "[role]") {
  const test::InTempDir here;
  const std::vector<std::string> prefixes = {"--model-prefix", "models/m", "--save-model-prefix", "saved/s"};
  test::leave_run("runs/a", test::lenet(prefixes), std::nullopt);
  test::leave_checkpoint("models/m", 9);
  test::leave_checkpoint("models/n", 4);
  test::leave_checkpoint("saved/s", 1);
  std::vector<std::string> again = prefixes;
  again.insert(again.end(), {"--resume", "auto"});
  const job::Flags flags = test::lenet(again);
  const ResumeSearch found = must(find_resumed(flags));
  REQUIRE(found.run);
  CHECK(load_prefix(flags, "runs/a", found.run) == "saved/s");
  CHECK(save_prefix(flags, "runs/a") == "saved/s");

  const job::Flags alone = must(job::parse_flags({"--resume", "runs/a"}, [](auto&) { return std::nullopt; })).flags;
  CHECK(load_prefix(alone, "runs/a", must(find_resumed(alone)).run) == "saved/s");
  CHECK(save_prefix(alone, "runs/a") == "saved/s");
  const job::Flags other = must(job::parse_flags({"--resume", "runs/a", "--model-prefix", "models/n"}, [](auto&) {
                             return std::nullopt;
                           })).flags;
  CHECK(load_prefix(other, "runs/a", must(find_resumed(other)).run) == "models/n");
}

TEST_CASE("a finished run is not resumed, and a note says how to continue it", "[role]") {
  const test::InTempDir here;
  test::leave_run("runs/a", test::lenet({"--num-epochs", "3"}), 3);
  const ResumeSearch finished = must(find_resumed(test::lenet({"--num-epochs", "3", "--resume", "auto"})));
  CHECK(finished.is_finished);
  CHECK_THAT(finished.notes[0], Contains("finished after 3 of 3 epochs") && Contains("--num-epochs"));
  CHECK_FALSE(must(find_resumed(test::lenet({"--num-epochs", "4", "--resume", "auto"}))).is_finished);
}

TEST_CASE("a directory without a run or a checkpoint is refused by name", "[role]") {
  const test::InTempDir here;
  job::Flags flags = test::lenet({});
  flags.loop.resume = "absent";
  const auto absent = find_resumed(flags);
  REQUIRE_FALSE(absent);
  CHECK(absent.error().code == Code::kNotFound);
  CHECK_THAT(absent.error().text(), Contains("--resume absent: there is no such directory"));
  test::leave_run("runs/a", test::lenet({}), std::nullopt);
  flags.loop.resume = "runs/a";
  const auto empty = find_resumed(flags);
  REQUIRE_FALSE(empty);
  CHECK_THAT(empty.error().text(), Contains("no checkpoint") && Contains("runs/a/lenet-NNNN.params"));
}

TEST_CASE("checkpoint prefixes come from the flags, or else from the run directory", "[role]") {
  const test::InTempDir here;
  job::Flags flags = test::lenet({});
  CHECK(save_prefix(flags, "runs/x") == "runs/x/lenet");
  flags.loop.model_prefix = "models/n";
  CHECK(save_prefix(flags, "runs/x") == "models/n");
  CHECK(load_prefix(flags, "runs/x", std::nullopt) == "models/n");
  flags.loop.save_model_prefix = "models/s";
  CHECK(save_prefix(flags, "runs/x") == "models/s");
}

namespace {

job::Flags started_again(std::vector<std::string> arguments) {
  arguments.insert(arguments.end(), {"--run-dir", "mine"});
  job::Flags flags = test::lenet(std::move(arguments));
  flags.launch.restart = 1;
  return flags;
}

std::string start_text(const job::Flags& flags) {
  const ResumeSearch search = must(find_resumed(flags));
  const std::optional<train::StartFrom> start = must(start_of(flags, flags.launch.run_dir, search.run));
  if (!start) return "initial weights";
  return start->prefix + (start->epoch ? fmt::format(" epoch {}", *start->epoch) : "");
}

}  // namespace

TEST_CASE("a job that is started again continues from the newest checkpoint that it has written", "[role]") {
  const test::InTempDir here;
  const std::vector<std::string> loads = {"--load-epoch",        "3",     "--model-prefix", "models/m",
                                          "--save-model-prefix", "mine/m"};
  test::leave_run("other", test::lenet({}), 4);
  test::leave_checkpoint("models/m", 3);
  test::leave_run("mine", test::lenet({}), std::nullopt);
  CHECK(must(find_resumed(started_again({}))).run->directory == "mine");
  // Without a checkpoint of its own, it starts as it did first.
  CHECK(start_text(started_again({})) == "initial weights");
  CHECK(start_text(started_again(loads)) == "models/m epoch 3");
  CHECK(start_text(started_again({"--resume", "other"})) == "other/lenet");
  test::leave_checkpoint("mine/lenet", 1);
  test::leave_checkpoint("mine/m", 5);
  CHECK(start_text(started_again({})) == "mine/lenet");
  CHECK(start_text(started_again({"--resume", "other"})) == "mine/lenet");
  CHECK(start_text(started_again(loads)) == "mine/m");
}

TEST_CASE("on a host that never had the run's directory, a job that is started again needs none", "[role]") {
  const test::InTempDir here;
  CHECK_FALSE(must(find_resumed(started_again({}))).run);
  CHECK(start_text(started_again({})) == "initial weights");
}

TEST_CASE("a job with restarts does not start from an old epoch of the prefix to which it writes", "[role]") {
  const test::InTempDir here;
  test::leave_checkpoint("models/m", 3);
  test::leave_checkpoint("models/m", 9);
  const std::vector<std::string> loads = {"--load-epoch", "3", "--model-prefix", "models/m"};
  const auto start = [&](std::vector<std::string> more) {
    more.insert(more.end(), loads.begin(), loads.end());
    return start_of(test::lenet(more), "runs/a", std::nullopt);
  };
  CHECK(must(start({}))->epoch == 3);
  const auto refused = start({"--max-restarts", "2", "-n", "1"});
  REQUIRE_FALSE(refused);
  CHECK(refused.error().code == Code::kUsage);
  CHECK_THAT(refused.error().message, Contains("there is a later checkpoint, 'models/m-0009'"));
  CHECK(must(start({"--max-restarts", "2", "-n", "1", "--save-model-prefix", "models/new"}))->epoch == 3);
}
