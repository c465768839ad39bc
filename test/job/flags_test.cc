#include "job/flags/flags.h"

#include <cstdlib>
#include <regex>

#include "base/file.h"
#include "job/flags/rows.h"
#include "job/parse.h"
#include "job/spec/job_spec.h"
#include "support/catch.h"
#include "support/temp_dir.h"

namespace dtrain::job {

using Catch::Matchers::Contains;
using std::chrono::milliseconds;

TEST_CASE("the defaults are the documented ones", "[job]") {
  const Flags flags = parsed({});
  CHECK(flags.job.num_workers == 1);
  CHECK(flags.job.num_servers == 0);
  CHECK(flags.job.scheme.kv_store == "device");
  CHECK(flags.device.cpus == 1);
  CHECK(flags.job.network.network == "resnet");
  CHECK(flags.job.batch_size == 128);
  CHECK(flags.job.num_epochs == 100);
  CHECK(flags.job.optimizer.lr == 0.1);
  CHECK(flags.job.optimizer.lr_factor == 1.0);  // constant
  CHECK(flags.job.optimizer.momentum == 0.9);
  CHECK(flags.job.augment.shuffle);
  CHECK_FALSE(flags.job.seed);
  CHECK(flags.wire.heartbeat_interval == milliseconds(2000));
  CHECK(flags.wire.heartbeat_timeout == milliseconds(10000));
  CHECK(flags.loop.save_period == 1);
  CHECK(flags.loop.disp_batches == 20);
  CHECK_FALSE(flags.distributed());
}

TEST_CASE("the command line overrides the config, then the preset, then the environment", "[job]") {
  const test::TempDir dir;
  REQUIRE(write_file_atomic(dir.path("job.toml"), "preset = \"mnist\"\nlr = 0.3\nnum-workers = 3\nbatch-size = 32\n"));
  const Variables environment = {{"DMLC_NUM_WORKER", "7"}, {"DMLC_NUM_SERVER", "4"}};
  const Flags flags = parsed({"--config", dir.path("job.toml"), "--batch-size", "16"}, environment);
  CHECK(flags.job.batch_size == 16);           // command line
  CHECK(flags.job.optimizer.lr == 0.3);        // config, over the preset's 0.05
  CHECK(flags.job.num_workers == 3);           // config, over the environment
  CHECK(flags.job.network.network == "mlp");   // preset, named in the config
  CHECK(flags.job.num_servers == 4);           // environment
  CHECK(flags.job.optimizer.momentum == 0.9);  // default
  CHECK(flags.source("batch-size") == Source::kCommandLine);
  CHECK(flags.source("lr") == Source::kConfig);
  CHECK(flags.source("network") == Source::kPreset);
  CHECK(flags.source("num-servers") == Source::kEnvironment);
  CHECK(flags.source("mom") == Source::kDefault);
  CHECK_FALSE(flags.given("mom"));
}

TEST_CASE("the command line overrides the flags of a run that is resumed by name", "[job]") {
  const test::TempDir dir;
  const Flags first = parsed({"--preset", "mnist", "-n", "2", "--lr", "0.07", "--seed", "5"});
  REQUIRE(write_file_atomic(dir.path("jobspec"), text(requested(first))));
  const Flags again =
      parsed({"--resume", dir.path(""), "--num-epochs", "40", "--preset", "mnist"}, {{"DMLC_NUM_WORKER", "7"}});
  CHECK(differences(requested(first), requested(again)) == std::vector<std::string>{"num-epochs"});
  CHECK(again.source("lr") == Source::kResumed);
  CHECK(again.source("num-epochs") == Source::kCommandLine);
  CHECK(again.source("bn-mom") == Source::kResumed);
  CHECK_THAT(refused({"--resume", dir.path("none")}, Code::kNotFound), Contains("none: there is no such directory"));
}

TEST_CASE("a config file can resume and overwrite as the command line can", "[job]") {
  const test::TempDir dir;
  REQUIRE(write_file_atomic(dir.path("jobspec"), text(requested(parsed({"-n", "2", "--lr", "0.07", "--seed", "5"})))));
  const auto config = [&](const std::string& lines) {
    REQUIRE(write_file_atomic(dir.path("c.toml"), lines));
    return dir.path("c.toml");
  };
  // Flags in the file that has `resume` override the run's flags, as they do on the command line.
  const std::string resumes = config("resume = '" + dir.path() + "'\nnum-epochs = 40\n");
  const Flags flags = parsed({"--config", resumes});
  CHECK(flags.source("resume") == Source::kConfig);
  CHECK(flags.job.optimizer.lr == 0.07);
  CHECK(flags.job.num_workers == 2);
  CHECK(flags.job.num_epochs == 40);
  CHECK(parsed({"--config", resumes, "--num-epochs", "7"}).job.num_epochs == 7);
  // A launcher passes the config file and the run directory that it has found to its processes.
  CHECK(parsed({"--config", resumes, "--resume", dir.path()}).job.num_epochs == 40);
  CHECK(parsed({"--config", resumes, "--resume", "none"}).job.optimizer.lr == 0.1);
  CHECK(parsed({"--resume", dir.path(), "--config", config("num-epochs = 40\n")}).job.num_epochs == 100);
  CHECK_THAT(refused({"--config", config("resume = 'none/at/all'\n")}, Code::kNotFound), Contains("no such directory"));

  CHECK(parsed({"--config", config("overwrite = true\nrun-dir = 'a'\n")}).launch.overwrite);
  CHECK_THAT(refused({"--config", config("overwrite = true\n")}), Contains("--run-dir is missing"));
  CHECK_THAT(refused({"--config", config("overwrite = true\nrun-dir = 'a'\nresume = 'auto'\n")}),
             Contains("give one of them"));
}

TEST_CASE("the last occurrence of a flag counts under any of its names", "[job]") {
  CHECK(parsed({"--num-epochs", "3", "--num-epoch", "4"}).job.num_epochs == 4);
  CHECK(parsed({"--num-epoch=4", "--num-epochs=3"}).job.num_epochs == 3);
  CHECK(parsed({"-n", "2", "--num-workers", "3", "-n2"}).job.num_workers == 2);
}

TEST_CASE("a boolean flag has no value or the value 0 or 1", "[job]") {
  CHECK(parsed({"--random-crop", "--random-mirror", "1", "--shuffle", "0"}).job.augment.random_crop);
  CHECK(parsed({"--random-crop", "--random-mirror", "1", "--shuffle", "0"}).job.augment.random_mirror);
  CHECK_FALSE(parsed({"--random-crop", "--random-mirror", "1", "--shuffle", "0"}).job.augment.shuffle);
  CHECK(parsed({"--deterministic=1"}).job.scheme.deterministic);
  CHECK_THAT(refused({"--deterministic=maybe"}), Contains("--deterministic: 'maybe' is neither 0 nor 1"));
}

TEST_CASE("times and sizes are parsed with units", "[job]") {
  CHECK(parsed({"--save-every", "90"}).loop.save_every == milliseconds(90000));
  CHECK(parsed({"--save-every", "500ms"}).loop.save_every == milliseconds(500));
  CHECK(parsed({"--save-every", "2m"}).loop.save_every == milliseconds(120000));
  CHECK(parsed({"--save-every", "1.5h"}).loop.save_every == milliseconds(5400000));
  CHECK(parsed({"--save-every", "off"}).loop.save_every == milliseconds(0));
  CHECK(parsed({"--bigarray-bound", "4K"}).job.scheme.bigarray_bound == 4096);
  CHECK_THAT(refused({"--save-every", "soon"}), Contains("--save-every: 'soon' is not a time"));
  CHECK_THAT(refused({"--save-every", "-1s"}), Contains("not a time"));
  CHECK_THAT(refused({"--bigarray-bound", "99999999999G"}), Contains("not a whole number"));
}

TEST_CASE("malformed values are refused with the name of the flag", "[job]") {
  CHECK_THAT(refused({"--lr", "fast"}), Contains("--lr: 'fast' is not a number"));
  CHECK_THAT(refused({"--lr", "nan"}), Contains("--lr: 'nan' is not a number"));
  CHECK_THAT(refused({"--lr", "-0.1"}), Contains("--lr: -0.1 is less than 0"));
  CHECK_THAT(refused({"--batch-size", "0"}), Contains("--batch-size: 0 is less than 1"));
  CHECK_THAT(refused({"--batch-size", "12.5"}), Contains("not a whole number"));
  CHECK_THAT(refused({"--batch-size", ""}), Contains("not a whole number"));
  CHECK_THAT(refused({"--batch-size"}), Contains("--batch-size"));
  CHECK_THAT(refused({"--image-shape", "3,28"}), Contains("C,H,W"));
  CHECK_THAT(refused({"--image-shape", "3,28,0"}), Contains("less than 1"));
  CHECK_THAT(refused({"--rgb-std", "1,0,1"}), Contains("--rgb-std"));
  CHECK_THAT(refused({"--placement", "ballanced"}), Contains("did you mean 'balanced'?"));
  CHECK_THAT(refused({"--seed", "-1"}), Contains("--seed"));
  CHECK_THAT(refused({"--model-prefix", "a\nb"}), Contains("more than one line"));
}

TEST_CASE("aliases with values of their own are translated", "[job]") {
  CHECK(parsed({"--data-shape", "32"}).job.network.image_shape == std::vector<int64_t>{3, 32, 32});
  CHECK(parsed({"--image_shape", "1, 28, 28"}).job.network.image_shape == std::vector<int64_t>{1, 28, 28});
  // Both paths are relative to --data-dir, which is prepended when the data is opened.
  CHECK(parsed({"--train-dataset", "a.rec"}).data.data_train == "a.rec");
  CHECK(parsed({"--data-train", "a.rec"}).data.data_train == "a.rec");
  CHECK(parsed({"--val-dataset", "a.rec;b.rec"}).data.data_val == "a.rec;b.rec");
  CHECK(parsed({"--data-train-idx", "{data-dir}/a.idx"}).data.data_train_idx == "a.idx");
  CHECK(parsed({"--mean-img", "{data-dir}/mean.bin"}).data.mean_img == "data/some/mean.bin");
  CHECK(parsed({"--savemodel", "--num-epochs", "3"}).loop.save_period == 1);
  CHECK(parsed({"--savemodel=0"}).loop.save_period == 0);
}

TEST_CASE("unknown and abbreviated flags are refused with the nearest name", "[job]") {
  CHECK_THAT(refused({"--num-epoc", "3"}), Contains("unknown flag '--num-epoc', did you mean '--num-epoch'?"));
  CHECK_THAT(refused({"--kvstore=local"}), Contains("unknown flag '--kvstore', did you mean '--kv-store'?"));
  CHECK_THAT(refused({"--batch", "3"}), Contains("unknown flag '--batch'"));  // a prefix is not enough
  CHECK_THAT(refused({"--completely-else"}), Contains("--help all lists all flags"));
  CHECK_THAT(refused({"-x", "3"}), Contains("unknown flag '-x'"));
}

// Each replacement that is named exists, and none of the names is a flag here.
TEST_CASE("flags that torchvision and GluonCV spell differently are refused with the name here", "[job]") {
  CHECK_THAT(refused({"--epochs", "3"}), Contains("--epochs is not a flag of dtrain; use --num-epochs"));
  CHECK_THAT(refused({"--learning-rate=0.1"}), Contains("use --lr"));
  CHECK_THAT(refused({"--weight-decay", "0.1"}), Contains("use --wd"));
  CHECK_THAT(refused({"-j", "4"}), Contains("use --data-nthreads, and -n"));
  CHECK_THAT(refused({"--path-imgrec", "a.rec"}), Contains("use --data-train"));
  CHECK_THAT(refused({"--amp"}), Contains("use --dtype"));
  const std::regex flag("(--?[a-z][a-z-]*)");
  for (const RefusedFlag& refused : refused_flags()) {
    for (const std::string& spelling : refused.spellings) CHECK_FALSE(training_flags().find(spelling));
    for (std::sregex_iterator name(refused.message.begin(), refused.message.end(), flag), end; name != end; ++name) {
      INFO(refused.message);
      if (refused.message.find("is not a flag of dtrain") != std::string::npos)
        CHECK(training_flags().find(name->str()));
    }
  }
}

TEST_CASE("flags of MXNet and MXNet-G without an equivalent are refused with their replacement", "[job]") {
  CHECK_THAT(refused({"-p", "2"}), Contains("--placement"));
  CHECK_THAT(refused({"--parameter-partition-num=2"}), Contains("--placement"));
  CHECK_THAT(refused({"--hostname", "a"}), Contains("--advertise"));
  CHECK_THAT(refused({"--cluster3-end", ".5"}), Contains("--data-sharding-file"));
  CHECK_THAT(refused({"--workspace", "512"}), Contains("--dry-run"));
  CHECK_THAT(refused({"--kube-namespace", "a"}), Contains("slurm, sge, yarn or kubernetes"));
  CHECK_THAT(refused({"--cluster", "local"}), Contains("--launcher"));
}

TEST_CASE("a launcher takes an argument after its name, if it has one", "[job]") {
  const LaunchFlags yarn = parsed({"-n", "2", "--launcher", "yarn=http://rm:8088?user.name=a"}).launch;
  CHECK((yarn.launcher == "yarn" && yarn.launcher_argument == "http://rm:8088?user.name=a"));
  CHECK(parsed({"-n", "2", "--launcher", "print=slurm,sge"}).launch.launcher_argument == "slurm,sge");
  const LaunchFlags last = parsed({"-n", "2", "--launcher", "sge=mpi", "--launcher", "sge"}).launch;
  CHECK((last.launcher == "sge" && last.launcher_argument.empty()));
  CHECK_THAT(refused({"-n", "2", "-H", "hosts", "--launcher", "ssh=a"}),
             Contains("--launcher: ssh takes no value after '='"));
  CHECK_THAT(refused({"-n", "2", "--launcher", "sge="}), Contains("the value after the '=' is missing"));
  CHECK_THAT(refused({"-n", "2", "--launcher", "lsf=a"}), Contains("'lsf'"));
  CHECK_THAT(refused({"-n", "2", "--launcher", "print=sge,pbs"}), Contains("--launcher: ") && Contains("'pbs'"));
  CHECK_THAT(refused({"-n", "2", "--yarn-url", "http://a"}), Contains("use --launcher yarn=URL"));
}

TEST_CASE("flags for clusters are refused where they have no effect", "[job]") {
  CHECK_THAT(refused({"--queue", "q"}),
             Contains("--queue has no effect with --launcher local; it is for slurm, sge, yarn, print"));
  CHECK_THAT(refused({"-n", "2", "--launcher", "mpi", "--nodes", "2"}), Contains("--nodes has no effect"));
  CHECK_THAT(refused({"-n", "2", "--launcher", "slurm", "--image", "i"}), Contains("yarn, kubernetes, print"));
  CHECK_THAT(refused({"-n", "2", "--launcher", "kubernetes"}), Contains("--image"));
  CHECK_THAT(refused({"-n", "2", "--launcher", "yarn"}), Contains("--launcher yarn=http://HOST:8088"));
  CHECK_THAT(refused({"-n", "2", "--launcher", "sge", "-H", "hosts"}), Contains("chooses the hosts"));
  CHECK_THAT(refused({"-n", "2", "--launcher", "yarn=http://rm", "--sync-dst-dir", "/tmp/d"}),
             Contains("hosts are not known"));
  CHECK_THAT(refused({"-n", "2", "--state-dir", "state"}), Contains("--state-dir") && Contains("--max-restarts N"));
  CHECK(parsed({"-n", "2", "--state-dir", "state", "--max-restarts", "2"}).launch.state_dir == "state");
  CHECK(parsed({"-n", "2", "--snapshot-every", "50"}).job.scheme.snapshot_every == 50);
  CHECK_THAT(refused({"-n", "2", "--kv-store", "allreduce", "--snapshot-every", "50"}), Contains("no servers"));
  CHECK_THAT(refused({"-n", "2", "--update-on", "worker", "--snapshot-every", "50"}), Contains("no weights"));
  for (const char* store : {"dist_async", "dist_ssync", "dist_gsync"}) {
    CHECK(parsed({"-n", "2", "--cpus", "2", "--kv-store", store, "--snapshot-every", "50"}).job.scheme.snapshot_every ==
          50);
  }
  CHECK(parsed({"-n", "2", "--launcher", "print", "--queue", "q", "--image", "i"}).batch.queue == "q");
}

TEST_CASE("flags and values that are not in this version are refused by name", "[job]") {
  CHECK_THAT(refused({"--inflight-bytes", "3"}), Contains("--inflight-bytes is not in this version"));
  CHECK_THAT(refused({"--dtype", "float16"}), Contains("float32") && Contains("bfloat16"));
  CHECK_THAT(refused({"--dtype", "bfloat16"}), Contains("float32"));
  CHECK_THAT(refused({"--widen-factor", "0"}), Contains("--widen-factor"));
  CHECK_THAT(refused({"--optimizer", "sdg"}), Contains("did you mean 'sgd'?"));
  CHECK_THAT(refused({"--initializer", "orthogonl()"}), Contains("orthogonal"));
  for (const char* rule : {"orthogonal(gaussian,1)", "msraprelu", "bilinear"}) {
    CHECK(parsed({"--initializer", rule}).job.network.initializer == rule);
  }
  CHECK_THAT(refused({"--on-worker-loss", "wiat"}), Contains("did you mean 'wait'?"));
  CHECK_THAT(refused({"--preset", "minst"}), Contains("--preset: there is no 'minst', did you mean 'mnist'?"));
}

TEST_CASE("GPUs are selected by number", "[job]") {
  CHECK_THAT(refused({"--gpus", "0,x"}), Contains("--gpus"));
}

TEST_CASE("a program after the flags is refused with a pointer to the README", "[job]") {
  CHECK_THAT(refused({"-n", "2", "python", "train_mnist.py", "--network", "lenet"}),
             Contains("'python'") && Contains("README"));
}

TEST_CASE("unknown and malformed entries of a config file are errors", "[job]") {
  const test::TempDir dir;
  const auto with = [&dir](const std::string& text) {
    REQUIRE(write_file_atomic(dir.path("c.toml"), text));
    return std::vector<std::string>{"--config", dir.path("c.toml")};
  };
  const Flags flags = parsed(with("n = 2\ntop-k = [5, 10]\nshuffle = false\nlr = 1e-3\nnetwork = 'lenet'\n"));
  CHECK(flags.job.num_workers == 2);
  CHECK(flags.job.top_k == std::vector<int64_t>{5, 10});
  CHECK_FALSE(flags.job.augment.shuffle);
  CHECK(flags.job.optimizer.lr == 1e-3);
  CHECK(flags.job.network.network == "lenet");
  CHECK_THAT(refused(with("lr = 0.1\nnum-epoc = 3\n")),
             Contains("did you mean '--num-epoch'?") && Contains("c.toml:2"));
  CHECK_THAT(refused(with("[train]\nlr = 0.1\n")), Contains("c.toml:1") && Contains("train"));
  CHECK_THAT(refused(with("lr = \n")), Contains("c.toml:1"));
  CHECK_THAT(refused(with("config = 'other.toml'\n")), Contains("cannot name another"));
  CHECK_THAT(refused(with("batch-size = 0\n")), Contains("c.toml:1") && Contains("--batch-size"));
  CHECK_THAT(refused(with("inflight-bytes = 1\n")), Contains("not in this version"));
  CHECK_THAT(refused({"--config", dir.path("none.toml")}, Code::kNotFound), Contains("none.toml"));
}

TEST_CASE("help lists every flag with its default", "[job]") {
  const std::string help = help_text();
  for (const Row& row : training_flags().rows()) {
    INFO(row.name);
    CHECK(help.find("  " + row.spelling()) != std::string::npos);
    CHECK_FALSE(row.help.empty());
    CHECK(row.value.empty() == row.bind.boolean);
  }
  CHECK_THAT(help, Contains("Optimizer and schedule:"));
}

TEST_CASE("help shows the range of every number and fits a narrow terminal", "[job]") {
  const std::string help = help_text();
  const std::string in_one_line = std::regex_replace(help, std::regex("\\s+"), " ");
  CHECK_THAT(in_one_line, Contains("[1 to 1048576; default: 128]") && Contains("[0.1 to 1e7 s; default: 2s]") &&
                              Contains("[0 to 65535; default: 0]"));
  for (size_t begin = 0; begin < help.size();) {
    const size_t end = help.find('\n', begin);
    INFO(help.substr(begin, end - begin));
    CHECK(end - begin <= 80);
    begin = end + 1;
  }
  CHECK(range_and_default(1, 1 << 20, "", "64") == "1 to 1048576; default: 64");
  CHECK(range_and_default(0, 1e12, " s", "off") == "0 to 1e12 s; default: off");
  CHECK(range_and_default({}, {}, "", "none") == "default: none");
  CHECK(range_and_default(-1e6, 1, "", "0") == "-1e6 to 1; default: 0");
}

// Shell completion offers them.
TEST_CASE("the values suggested for a flag are valid", "[job]") {
  std::map<std::string, std::vector<std::string>> values;
  for (const FlagHelp& flag : training_flags().flag_helps()) {
    values[flag.names.front()] = flag.values;
    for (const std::string& value : flag.values) {
      INFO(flag.names.front() << " " << value);
      Flags flags;
      const size_t row = *training_flags().find(flag.names.front());
      CHECK(training_flags().apply({row, flag.names.front(), value}, flags));
    }
  }
  CHECK(values["--on-nan"] == std::vector<std::string>{"fail", "skip"});
  CHECK(values["--launcher"] ==
        std::vector<std::string>{"local", "ssh", "mpi", "slurm", "sge", "yarn", "kubernetes", "print"});
  CHECK(values["--lr"].empty());
  for (const std::string& store : values["--kv-store"]) CHECK(canonical_store_name(store).value_or("") == store);
  for (const std::string& preset : values["--preset"]) parsed({"--preset", preset, "--benchmark", "1"});
}

// The expected text is help.txt; DTRAIN_REWRITE_GOLDEN=1 writes it again, and the change is then read as a diff.
TEST_CASE("the help text is the recorded one", "[job]") {
  const std::string path = std::string(DTRAIN_JOB_TEST_DIR) + "/help.txt";
  if (std::getenv("DTRAIN_REWRITE_GOLDEN") != nullptr) REQUIRE(write_file_atomic(path, help_text()));
  const Result<std::string> golden = read_file(path);
  REQUIRE(golden);
  CHECK(help_text() == *golden);
}

TEST_CASE("no two flags share a name, and no accepted name is refused", "[job]") {
  std::map<std::string, int> uses;
  for (const Row& row : training_flags().rows()) {
    uses[row.spelling()]++;
    for (const Alias& alias : row.aliases) uses[alias.spelling]++;
    CHECK(find_refused(row.spelling(), refused_flags()) == nullptr);
  }
  for (const RefusedFlag& flag : refused_flags()) {
    for (const std::string& spelling : flag.spellings) uses[spelling]++;
  }
  for (const auto& [spelling, count] : uses) {
    INFO(spelling);
    CHECK(count == 1);
  }
}

TEST_CASE("every default is parsed back as itself", "[job]") {
  const Flags defaults;
  for (const Row& row : training_flags().rows()) {
    const std::string text = row.bind.get(defaults);
    if (text.empty() || row.name == "port-range") continue;
    INFO(row.name << " = " << text);
    Flags again;
    CHECK(row.bind.set(again, text));
    CHECK(row.bind.get(again) == text);
  }
}

TEST_CASE("the first log line lists the flags that differ from their defaults", "[job]") {
  const std::string line = describe(parsed({"--lr", ".25", "--batch-size", "128", "--network", "lenet"}));
  CHECK_THAT(line, Contains("network=lenet, ") && Contains("lr=0.25") && !Contains("batch-size"));
  CHECK(line.size() < 200);
  CHECK(describe(parsed({}, {{"DTRAIN_TOKEN", "0123456789abcdef"}})).find("0123456789abcdef") == std::string::npos);
}

}  // namespace dtrain::job
