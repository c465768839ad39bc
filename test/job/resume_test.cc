#include "job/spec/resume.h"

#include <fmt/ranges.h>

#include <filesystem>
#include <fstream>
#include <set>

#include "base/file.h"
#include "job/flags/rows.h"
#include "job/parse.h"
#include "job/resolve/data_set.h"
#include "job/resolve/network_file.h"
#include "support/catch.h"
#include "support/must.h"
#include "support/temp_dir.h"

namespace dtrain::job {

using Catch::Matchers::Contains;
using test::must;

namespace {

std::string here() {
  return std::filesystem::current_path().string();
}

// The JobSpec that a run with these flags leaves behind.
JobSpec run_of(const std::vector<std::string>& arguments, const std::string& directory) {
  Flags flags = parsed(arguments);
  must(apply_data_set("mnist", flags.job));
  JobSpec spec = requested(flags);
  spec.flags.seed = 5;
  spec.shares.assign(static_cast<size_t>(spec.flags.num_workers), {0, 10});
  spec.batches.assign(static_cast<size_t>(spec.flags.num_workers), 1);
  spec.remembered = remember(flags, directory);
  return spec;
}

// The flags that result from `dtrain --resume DIR ARGUMENTS`.
Result<Flags> resumed(const std::string& directory, std::vector<std::string> arguments = {}) {
  arguments.insert(arguments.begin(), {"--resume", directory});
  DT_TRY(const Parsed result, parse_flags(arguments, variables({})));
  return result.flags;
}

}  // namespace

TEST_CASE("a run remembers process flags except those of a single start or process", "[job]") {
  std::set<std::string> others;
  for (const Row& row : training_flags().rows()) {
    if (row.scope == Scope::kProcess && !is_remembered(row.name)) others.insert(row.name);
    if (row.scope == Scope::kJob) CHECK_FALSE(is_remembered(row.name));
  }
  CHECK(others == std::set<std::string>{"allow-mixed-builds",
                                        "check",
                                        "config",
                                        "dry-run",
                                        "env",
                                        "env-file",
                                        "env-server",
                                        "env-worker",
                                        "exclude",
                                        "inject",
                                        "insecure",
                                        "load-epoch",
                                        "overwrite",
                                        "preset",
                                        "rank",
                                        "resume",
                                        "retrain",
                                        "role",
                                        "run-dir",
                                        "scheduler",
                                        "sync-dst-dir",
                                        "test-io",
                                        "token-file",
                                        "verbose"});
}

TEST_CASE("the remembered flags are read back from their file for any paths", "[job]") {
  JobSpec spec = run_of({"--cpus", "2", "--save-period", "3"}, "/work/a b");
  spec.remembered.values["data-dir"] = " a b = back\\slash ";
  const JobSpec again = must(parse_job_spec(file_text(spec)));
  CHECK(again.remembered.directory == "/work/a b");
  CHECK(again.remembered.values == spec.remembered.values);
  CHECK(again.remembered.values.at("cpus") == "2");
  CHECK(file_text(again) == file_text(spec));
  CHECK(text(again) == text(spec));
  CHECK_THAT(text(spec), !Contains("cpus") && !Contains("working-directory"));  // not compared when peers join
  CHECK_THAT(parse_job_spec(file_text(spec) + "prefetch-buffer = some\n").error().text(), Contains("prefetch-buffer"));
}

TEST_CASE("a resumed run needs only its directory", "[job]") {
  const test::TempDir dir;
  must(write_job_spec(dir.path(), run_of({"-n", "1", "-s", "1", "--network", "lenet", "--cpus", "2"}, here())));
  const Flags flags = must(resumed(dir.path()));
  CHECK(flags.job.network.network == "lenet");
  CHECK(flags.distributed());
  CHECK(flags.data.data_dir == "data/some");  // as given: the process runs where the first one ran
  CHECK(flags.device.cpus == 2);
  CHECK(recalled_arguments(flags) == std::vector<std::string>{"--cpus=2", "--data-dir=data/some", "--keep=3"});

  const Flags other = must(resumed(dir.path(), {"--data-dir", "moved", "--cpus", "3", "--num-epochs", "7"}));
  CHECK(other.data.data_dir == "moved");
  CHECK(other.device.cpus == 3);
  CHECK(other.job.num_epochs == 7);
}

TEST_CASE("a resumed run finds its symbol file, and --network names the place to which it was moved", "[job]") {
  const test::TempDir dir;
  const std::string file = dir.path("net-symbol.json"), moved = dir.path("moved/net-symbol.json"),
                    run = dir.path("run");
  std::filesystem::create_directories(dir.path("moved"));
  std::filesystem::create_directories(run);
  must(write_file_atomic(file, "{}"));
  must(write_job_spec(run, run_of({"--network", file}, here())));
  const Flags same = must(resumed(run));
  CHECK(same.job.network.file == file);
  CHECK(must(read_network_file(same.job.network)) == "{}");
  // For the processes of a job.
  CHECK_THAT(fmt::format("{}", fmt::join(recalled_arguments(same), " ")), Contains("--network=" + file));
  std::filesystem::rename(file, moved);
  CHECK_THAT(read_network_file(same.job.network).error().text(),
             Contains("if the file was moved, give --network FILE"));
  const Flags found = must(resumed(run, {"--network", moved}));
  CHECK(must(read_network_file(found.job.network)) == "{}");
  CHECK(check_resumed(must(read_job_spec(run)), found, run));
  must(write_file_atomic(moved, "[]"));
  CHECK_THAT(check_resumed(must(read_job_spec(run)), must(resumed(run, {"--network", moved})), run).error().message,
             Contains("cannot continue with --network net:"));
}

TEST_CASE("a resumed run keeps as many checkpoints as before", "[job]") {
  const auto resumed_run = [](const JobSpec& run, const std::vector<std::string>& given = {}) {
    const test::TempDir dir;
    must(write_job_spec(dir.path(), run));
    return must(resumed(dir.path(), given));
  };
  const JobSpec usual = run_of({}, here());
  CHECK(usual.remembered.values.at("keep") == "3");
  CHECK(resumed_run(usual).loop.keep == 3);
  CHECK(resumed_run(run_of({"--keep", "7"}, here())).loop.keep == 7);
  CHECK(resumed_run(usual, {"--keep", "0"}).loop.keep == 0);
  JobSpec old = usual;  // of a version that kept all checkpoints and did not store that
  old.remembered.values.erase("keep");
  CHECK(resumed_run(old).loop.keep == 0);
  CHECK(resumed_run(old, {"--keep", "2"}).loop.keep == 2);
}

TEST_CASE("--resume auto continues a run that keeps other checkpoints than the default says", "[job]") {
  JobSpec old = run_of({}, here());
  old.remembered.values.erase("keep");
  const auto continued = [&](const std::vector<std::string>& arguments) {
    Flags flags = parsed(arguments);
    must(apply_data_set("mnist", flags.job));
    CHECK(differences_from_run(old, flags, here()).empty());
    take_kept_checkpoints(old, flags);
    return flags;
  };
  CHECK(continued({}).loop.keep == 0);
  CHECK(recalled_arguments(continued({})) == std::vector<std::string>{"--keep=0"});
  CHECK(continued({"--keep", "5"}).loop.keep == 5);
}

// What the flag did before its value was always stored. A later default must not remove what such a run has kept.
TEST_CASE("a flag that an older version did not store keeps its old meaning and is named", "[job]") {
  const test::TempDir dir;
  JobSpec old = run_of({"--keep", "2"}, here());
  CHECK(must(parse_job_spec(file_text(old))).older_flags.empty());
  old.remembered.values.erase("keep");
  must(write_job_spec(dir.path(), old));
  CHECK(must(read_job_spec(dir.path())).older_flags == std::vector<std::string>{"keep"});
  CHECK(must(resumed(dir.path())).loop.keep == 0);
  CHECK(must(resumed(dir.path(), {"--keep", "4"})).loop.keep == 4);
  CHECK(must(parse_job_spec(text(old))).older_flags.empty());  // what peers exchange has no flags of a process
}

TEST_CASE("a value that an older version wrote otherwise is no difference", "[job]") {
  const std::string now = text(run_of({"--network", "mlp", "--initializer", "xavier(gaussian,in,2)"}, here()));
  std::string then = now;
  const std::string line = "initializer = xavier(gaussian,in,2)";
  then.replace(then.find(line), line.size(), "initializer = default");
  CHECK(differing_keys(then, now).empty());
  CHECK(differing_keys(then, now + "colour = red\n") == std::vector<std::string>{"colour", "initializer"});
}

TEST_CASE("a run that is resumed from another working directory finds its files", "[job]") {
  const test::TempDir dir;
  must(write_job_spec(dir.path(), run_of({"--model-prefix", "models/m", "--mean-img", "{data-dir}/mean.bin",
                                          "--data-train", "/elsewhere/train.rec", "--tls-ca", "../ca.pem"},
                                         "/home/user/project")));
  const Flags flags = must(resumed(dir.path()));
  CHECK(flags.data.data_dir == "/home/user/project/data/some");
  CHECK(flags.loop.model_prefix == "/home/user/project/models/m");
  CHECK(flags.data.mean_img == "/home/user/project/data/some/mean.bin");
  CHECK(flags.data.data_train == "/elsewhere/train.rec");
  CHECK(flags.launch.tls_ca == "/home/user/ca.pem");
  CHECK(must(resumed(dir.path(), {"--data-dir", "/new"})).data.mean_img == "/new/mean.bin");
}

TEST_CASE("a resumed run reads the same record files", "[job]") {
  const test::TempDir dir;
  const auto names = [&](const char* data_dir, const char* train, const char* index) {
    must(write_job_spec(dir.path(),
                        run_of({"--data-dir", data_dir, "--data-train", train, "--data-train-idx", index}, here())));
    const Flags flags = must(resumed(dir.path()));
    return flags.data.data_train + " " + flags.data.data_train_idx;
  };
  CHECK(names("d", "a.rec", "a.idx") == "a.rec a.idx");
  CHECK(names("d", "d/a.rec", "d/a.idx") == "d/a.rec d/a.idx");  // d/d/a.rec
  CHECK(names("/d", "/d/a.rec", "/d/a.idx") == "a.rec a.idx");   // moves with --data-dir
}

TEST_CASE("devices on the command line replace those of the run", "[job]") {
  const test::TempDir dir;
  must(write_job_spec(dir.path(), run_of({"--gpus", "0,1", "--work-load-list", "1,3"}, here())));
  CHECK(must(resumed(dir.path())).device.gpus.numbers == std::vector<int64_t>{0, 1});
  const Flags flags = must(resumed(dir.path(), {"--cpus", "3"}));
  CHECK(flags.device.gpus.empty());
  CHECK(flags.device.count() == 3);
}

TEST_CASE("a process with a role takes only the job from the run and its own flags from its command line", "[job]") {
  const test::TempDir dir;
  must(write_job_spec(dir.path(), run_of({"-n", "1", "-s", "1", "--cpus", "2", "--port", "7000"}, here())));
  const Flags flags =
      must(resumed(dir.path(), {"--role", "worker", "--scheduler", "h:1", "-n", "1", "--data-dir", "d"}));
  CHECK(flags.device.cpus == 1);
  CHECK(flags.launch.port == 0);
  CHECK(flags.job.num_servers == 1);
}

TEST_CASE("flags that a run cannot change are refused by name", "[job]") {
  const JobSpec run = run_of({"--network", "mlp", "--lr", "0.05"}, here());
  const test::TempDir dir;
  must(write_job_spec(dir.path(), run));
  const auto error = [&](const std::vector<std::string>& arguments) {
    const Result<> checked = check_resumed(run, must(resumed(dir.path(), arguments)), "runs/x");
    return checked ? std::string() : checked.error().text();
  };
  CHECK_THAT(error({"--network", "lenet"}),
             Contains("--resume runs/x") && Contains("--network lenet (the run has mlp)"));
  CHECK_THAT(error({"--network", "resnet"}), Contains("--network resnet"));  // the default, but not the run's
  CHECK_THAT(error({"--seed", "6", "--num-classes", "3"}),
             Contains("--seed 6 (the run has 5)") && Contains("--num-classes 3"));
  CHECK(error({"--network", "mlp", "--seed", "5"}).empty());
  CHECK(error({"--lr", "0.01", "--num-epochs", "200", "--batch-size", "32"}).empty());
}

// What equals the default of its flag would otherwise count as not given, and be derived again from the network.
TEST_CASE("a resumed job keeps every value, also one that is the default of its flag", "[job]") {
  using Words = std::vector<std::string>;
  const std::vector<Words> jobs = {
      {"--network", "mlp"},
      {"--network", "resnet-8"},
      {"--network", "alexnet"},
      {"--network", "vgg-11"},
      {"--network", "mlp", "--optimizer", "adam"},
      {"--network", "mlp", "--optimizer", "rmsprop"},
      {"--network", "mlp", "--optimizer", "lbsgd"},
      {"-n", "1", "-s", "1", "--network", "mlp"},
      {"-n", "2", "-s", "1", "--network", "mlp", "--kv-store", "dist_ssync", "--staleness", "3"},
      {"-n", "2", "--network", "mlp", "--kv-store", "allreduce"},
      {"--network", "mlp", "--lr-step-epochs", "3,5"},
      {"--network", "mlp", "--lr-scheduler", "cosine"},
      {"--network", "mlp", "--lr-step-epochs", "pow2"},
      {"--network", "mlp", "--lr-factor", "0.5"},
      {"--network", "resnet-50", "--use-imagenet-data-augmentation", "1"},
      {"--preset", "mxnet-g-cifar10"}};
  int kept = 0;
  const test::TempDir dir;
  for (const Words& job : jobs) {
    for (const Row& row : training_flags().rows()) {
      if (row.scope != Scope::kJob) continue;
      const std::string value = row.bind.get(Flags());
      Words words = job;
      words.push_back(fmt::format("--{}={}", row.name, value));
      words.insert(words.begin(), {"--data-dir", "data/some"});
      if (!parse_flags(words, variables({}))) continue;  // the value does not fit this job
      INFO(fmt::format("{}", fmt::join(words, " ")));
      const JobSpec run = run_of(Words(words.begin() + 2, words.end()), here());
      std::ofstream(dir.path(kJobSpecFile)) << file_text(run);  // without the fsync of write_job_spec: a thousand times
      const Flags flags = must(resumed(dir.path()));
      CHECK(describe_differences({.flags = run.flags, .mean_image = run.mean_image, .label_list = run.label_list},
                                 requested(flags)) == "");
      kept++;
    }
  }
  CHECK(kept > 1000);
}

TEST_CASE("flags that a resumed run is given replace what depends on them", "[job]") {
  const auto resumed_with = [](const std::vector<std::string>& job, const std::vector<std::string>& given) {
    const test::TempDir dir;
    must(write_job_spec(dir.path(), run_of(job, here())));
    return must(resumed(dir.path(), given)).job;
  };
  // One process becomes several, and its store one with servers.
  const JobFlags several = resumed_with({}, {"-n", "2"});
  CHECK(several.scheme.kv_store == "dist_sync");
  CHECK(several.num_servers == 2);
  CHECK(resumed_with({"-n", "2", "-s", "1"}, {"-n", "3"}).num_servers == 1);
  // A constant rate gets steps, and steps another kind of schedule.
  CHECK(resumed_with({}, {"--lr-step-epochs", "10"}).optimizer.lr_factor == 0.1);
  CHECK(resumed_with({"--lr-factor", "0.5"}, {"--lr-step-epochs", "10"}).optimizer.lr_factor == 0.5);
  CHECK(resumed_with({"--lr-step-epochs", "3"}, {"--lr-scheduler", "cosine"}).optimizer.lr_step_epochs.empty());
  CHECK(resumed_with({"--lr-scheduler", "cosine"}, {"--lr-step-epochs", "3"}).optimizer.lr_scheduler ==
        LrScheduler::kAuto);
  CHECK(resumed_with({"--lr", "0.1"}, {"--lr", "0.2"}).optimizer.lr == 0.2);
}

TEST_CASE("values that the data set has determined do not make a run differ from the flags' job", "[job]") {
  const JobSpec run = run_of({"--network", "lenet"}, here());
  const auto differences = [&](const std::vector<std::string>& arguments) {
    Flags flags = parsed(arguments);
    must(apply_data_set("mnist", flags.job));
    return differences_from_run(run, flags, here());
  };
  CHECK(differences({"--network", "lenet"}).empty());
  CHECK(differences({"--network", "lenet", "--num-epochs", "300", "--seed", "5", "--disp-batches", "3"}).empty());
  CHECK(differences({"--network", "lenet", "--data-dir", here() + "/data/other/../some"}).empty());
  CHECK(differences({"--network", "lenet", "--wd", "0.3"}) == "wd (run 0.0001, here 0.3)");
  CHECK(differences({"--network", "lenet", "--seed", "6"}) == "seed (run 5, here 6)");
  CHECK_THAT(differences({"--network", "lenet", "--data-dir", "data/fashion"}),
             Contains("data-dir (run " + here() + "/data/some, here " + here() + "/data/fashion)"));
}

TEST_CASE("the error for a directory without a run says what to give instead", "[job]") {
  const test::TempDir dir;
  const auto error = [](const std::string& directory) { return resumed(directory).error().text(); };
  CHECK_THAT(error(dir.path("absent")), Contains("absent: there is no such directory"));
  CHECK_THAT(error(dir.path()), Contains("no run has started in this directory: it has no file 'jobspec'"));
  must(make_directories(dir.path("runs/lenet-1")));
  must(write_job_spec(dir.path("runs/lenet-1"), run_of({}, here())));
  CHECK_THAT(error(dir.path("runs")), Contains("give one of " + dir.path("runs/lenet-1")));
  must(write_file_atomic(dir.path("runs/lenet-1/lenet-0001.params"), "x"));
  CHECK_THAT(error(dir.path("runs/lenet-1/lenet-0001.params")),
             Contains("this is a file; give the run directory, '" + dir.path("runs/lenet-1") + "'"));
}

TEST_CASE("the option --overwrite needs --run-dir and cannot be combined with a resume", "[job]") {
  CHECK_THAT(refused({"--overwrite"}), Contains("--run-dir is missing"));
  CHECK_THAT(refused({"--overwrite", "--run-dir", "x", "--resume", "auto"}), Contains("give one of them"));
  CHECK_THAT(refused({"--overwrite", "--run-dir", "x", "--load-epoch", "2"}), Contains("--load-epoch 2"));
  CHECK(parsed({"--overwrite", "--run-dir", "x"}).launch.overwrite);
  const Result<Parsed> nothing = parse_flags({"--resume", "auto"}, variables({}));
  REQUIRE_FALSE(nothing);
  CHECK_THAT(nothing.error().text(), Contains("--resume DIR takes the flags from the run in DIR"));
}

}  // namespace dtrain::job
