#include "job/spec/job_spec.h"

#include <algorithm>

#include "base/file.h"
#include "job/parse.h"
#include "job/resolve/data_set.h"
#include "support/catch.h"
#include "support/temp_dir.h"

namespace dtrain::job {

using Catch::Matchers::Contains;

namespace {

JobSpec filled() {
  JobSpec spec = requested(parsed({"-n", "3", "-s", "2", "--network", "resnet-20", "--lr", "0.05", "--lr-step-epochs",
                                   "30,60", "--top-k", "5,10", "--initializer", "xavier(uniform,in,2.34)"}));
  REQUIRE(apply_data_set("cifar10", spec.flags));
  spec.flags.seed = 18446744073709551615u;
  spec.records_train = 50000;
  spec.records_val = 10000;
  spec.batches = {131, 131, 130};
  spec.shares = {{0, 16667}, {16667, 33333}, {33333, 50000}};
  spec.placement = "0:0:0:432:1 1:0:0:16:0";
  return spec;
}

}  // namespace

TEST_CASE("a JobSpec is parsed back from its text bit for bit", "[job]") {
  const JobSpec spec = filled();
  const Result<JobSpec> again = parse_job_spec(text(spec));
  INFO((again ? "" : again.error().text()));
  REQUIRE(again);
  CHECK(text(*again) == text(spec));
  CHECK(hash(*again) == hash(spec));
  CHECK(again->shares == spec.shares);
  CHECK(again->batches == spec.batches);
  CHECK(again->flags.seed == spec.flags.seed);
  CHECK(again->flags.augment.scale == 1.0);
  CHECK(again->flags.network.image_shape == std::vector<int64_t>{3, 28, 28});
  CHECK(again->flags.optimizer.lr_step_epochs == std::vector<double>{30, 60});
  CHECK(again->placement == spec.placement);

  const JobSpec open = requested(parsed({"-n", "2"}));
  const Result<JobSpec> open_again = parse_job_spec(text(open));
  REQUIRE(open_again);
  CHECK(text(*open_again) == text(open));
  CHECK_FALSE(open_again->flags.seed);
  CHECK(open_again->records_train == -1);
}

TEST_CASE("a JobSpec with groups is parsed back from its text", "[job]") {
  JobSpec spec = requested(
      parsed({"-n", "3", "--kv-store", "dist_gsync", "--gsp-weight", "power:0.5", "--ssp-warn", "5s",
              "--group-staleness", "0", "--ungrouped", "own", "--data-allocator", "1", "--resplit-every", "2"}));
  spec.groups = {0, 1, 0};
  spec.shares = {{0, 4}, {4, 9}, {9, 13}};
  spec.batches = {1, 2, 1};
  const Result<JobSpec> again = parse_job_spec(text(spec));
  INFO((again ? "" : again.error().text()));
  REQUIRE(again);
  CHECK(text(*again) == text(spec));
  CHECK_THAT(text(spec), Contains("\ngroups = 0,1,0\n") && Contains("\nbatches = 1,2,1\n"));
  CHECK(again->groups == spec.groups);
  CHECK(again->flags.scheme.gsp_weight == GspWeight{GspWeight::Rule::kPower, 0.5});
  CHECK(again->flags.scheme.group_staleness == 0);
  CHECK(again->flags.scheme.ssp_warn == std::chrono::seconds(5));
  CHECK(again->flags.scheme.ungrouped == Ungrouped::kOwn);
  CHECK(again->flags.scheme.data_allocator);
  CHECK(again->flags.scheme.resplit_every == 2);
}

TEST_CASE("the lists of a JobSpec have an entry for each worker or are absent", "[job]") {
  const auto error_with = [](auto change) {
    JobSpec spec = filled();
    change(spec);
    const Result<JobSpec> again = parse_job_spec(text(spec));
    return again ? std::string() : again.error().text();
  };
  CHECK(error_with([](JobSpec&) {}).empty());
  CHECK_THAT(error_with([](JobSpec& spec) { spec.shares.pop_back(); }),
             Contains("shares: there are 2 values, but the job has 3 workers"));
  CHECK_THAT(error_with([](JobSpec& spec) { spec.batches.clear(); }),
             Contains("batches: there are 0 values, but the job has 3 workers"));
  CHECK_THAT(error_with([](JobSpec& spec) { spec.groups = {0, 0, 0}; }), Contains("groups: there are 3 values"));
  CHECK_THAT(error_with([](JobSpec& spec) { spec.flags.scheme.kv_store = "dist_gsync"; }),
             Contains("groups: there are 0 values"));
  CHECK_THAT(error_with([](JobSpec& spec) { spec.shares.clear(); }), Contains("batches: there are 3 values"));
}

TEST_CASE("the text of a JobSpec is sorted and at first lacks the scheduler's entries", "[job]") {
  const std::string lines = text(requested(parsed({"-n", "2"})));
  CHECK(lines.starts_with(
      "add-stn = 0\nallow-gaps = 0\naug-level = off\nbackup = 0\nbatch-norm = 0\nbatch-size = 128\n"));
  CHECK_THAT(lines, Contains("seed = auto\n") && Contains("shares = auto\n") && Contains("records-train = auto\n") &&
                        Contains("num-classes = auto\n") && Contains("kv-store = dist_sync\n"));
  std::string before;
  for (size_t begin = 0; begin < lines.size();) {
    const size_t end = lines.find('\n', begin);
    const std::string key = lines.substr(begin, lines.find(" = ", begin) - begin);
    CHECK(before < key);
    before = key;
    begin = end + 1;
  }
}

TEST_CASE("flags of a single process are not in the JobSpec", "[job]") {
  const JobSpec a = requested(parsed({"-n", "2", "--threads", "1", "--run-dir", "a", "--heartbeat-interval", "1s"}));
  const JobSpec b = requested(
      parsed({"-n", "2", "--threads", "4", "--run-dir", "b", "--verbose", "1", "--port", "0", "--role", "scheduler"}));
  CHECK(hash(a) == hash(b));
  CHECK(differences(a, b).empty());
}

TEST_CASE("differences between jobs are listed by key", "[job]") {
  const JobSpec a = requested(parsed({"-n", "2", "--lr", "0.1"}));
  const JobSpec b = requested(parsed({"-n", "2", "--lr", "0.05", "--batch-size", "64"}));
  CHECK(hash(a) != hash(b));
  CHECK(differences(a, b) == std::vector<std::string>{"batch-size", "lr"});
  CHECK(describe_differences(a, b) == "batch-size (run 128, here 64), lr (run 0.1, here 0.05)");
}

TEST_CASE("equivalent flags give the same JobSpec", "[job]") {
  const JobSpec a = requested(parsed({"-n", "2", "--lr-factor", "0.94"}));
  const JobSpec b = requested(parsed({"-n", "2", "-s", "2", "--kv-store", "dist", "--lr-factor", ".94",
                                      "--lr-factor-epoch", "1.0", "--num-epoch", "100"}));
  CHECK(text(a) == text(b));
}

TEST_CASE("a truncated or modified JobSpec is refused", "[job]") {
  const std::string good = text(filled());
  for (size_t size = 0; size + 1 < good.size(); size++) {
    INFO("cut to " << size << " bytes");
    const Result<JobSpec> cut = parse_job_spec(good.substr(0, size));
    // A text that is cut inside its last line may still be a JobSpec; one that is cut before it may not.
    if (size < good.rfind('\n', good.size() - 2)) CHECK_FALSE(cut);
  }
  for (size_t i = 0; i < good.size(); i++) {
    for (int bit = 0; bit < 8; bit++) {
      std::string bad = good;
      bad[i] = static_cast<char>(bad[i] ^ (1 << bit));
      const Result<JobSpec> result = parse_job_spec(bad);  // any Result, never a crash
      if (result) CHECK(hash(*result) != 0);
    }
  }
  CHECK_THAT(parse_job_spec(good + "colour = red\n").error().text(),
             Contains("colour: this version of dtrain does not"));
  CHECK_THAT(parse_job_spec(good + "lr = 1\n").error().text(), Contains("'lr' is given twice"));
  CHECK_THAT(parse_job_spec("nonsense").error().text(), Contains("JobSpec:1: "));
}

TEST_CASE("an error of a JobSpec names the file and the line", "[job]") {
  const test::TempDir dir;
  const std::string good = text(filled()), path = dir.path(kJobSpecFile);
  // The error for the text with `other` in place of the first line that begins with `line`.
  const auto error_with = [&](const std::string& line, const std::string& other) {
    const size_t begin = good.find("\n" + line) + 1;
    std::string bad = good;
    REQUIRE(write_file_atomic(path, bad.replace(begin, bad.find('\n', begin) - begin, other)));
    return read_job_spec(dir.path()).error().message;
  };
  const auto place_of = [&](const std::string& line) {
    const auto end = good.begin() + static_cast<int64_t>(good.find("\n" + line)) + 1;
    return fmt::format("{}:{}: ", path, 1 + std::count(good.begin(), end, '\n'));
  };
  CHECK(error_with("lr = ", "lr = -3") == place_of("lr = ") + "lr: -3 is less than 0");
  CHECK(error_with("lr = ", "lr") == place_of("lr = ") + "'lr' does not have the form 'key = value'");
  CHECK(error_with("mom = ", "lr = 1") == place_of("mom = ") + "the key 'lr' is given twice");
  CHECK(error_with("lr = ", "prefetch-buffer = -1").find(path + ": the line 'lr = ...' is missing") == 0);
  CHECK_THAT(error_with("kv-store = ", "kv-store = dist_snyc"),
             Catch::StartsWith(place_of("kv-store") + "kv-store: there is no store 'dist_snyc'"));
  CHECK(error_with("shares = ", "shares = 0:5") ==
        place_of("shares") + "shares: there are 1 values, but the job has 3 workers");
  const std::string last = fmt::format("{}:{}: ", path, 1 + std::count(good.begin(), good.end(), '\n'));
  REQUIRE(write_file_atomic(path, good + "prefetch-buffer = some\n"));
  CHECK(read_job_spec(dir.path()).error().message == last + "prefetch-buffer: 'some' is not a whole number");
  REQUIRE(write_file_atomic(path, good + "col\x1bour = red\n"));
  CHECK(read_job_spec(dir.path()).error().message ==
        last + "col\\x1bour: this version of dtrain does not know this key");
}

TEST_CASE("a flag that is gone is accepted if its value asks for what this version does", "[job]") {
  const std::string good = text(filled());
  CHECK(text(*parse_job_spec(good + "lr-min = 0.1\npatience = 0\nlabel-names = \n")) == good);
  CHECK(parse_job_spec(good + "freeze = conv*,bn1\n")->flags.network.lr_mult ==
        std::vector<std::string>{"conv*=0", "bn1=0"});
  CHECK_THAT(parse_job_spec(good + "patience = 3\n").error().text(), Contains("no longer has --patience"));
}

TEST_CASE("the numbers of a JobSpec have the ranges of the flags", "[job]") {
  const std::string good = text(filled());
  const auto with = [&good](const std::string& key, const std::string& value) {
    const size_t begin = good.find("\n" + key + " = ") + 1;
    std::string bad = good;
    return parse_job_spec(bad.replace(begin, bad.find('\n', begin) - begin, key + " = " + value)).error().text();
  };
  CHECK_THAT(with("batch-size", "-1"), Contains("batch-size: -1 is less than 1"));
  CHECK_THAT(with("num-workers", "0"), Contains("num-workers: 0 is less than 1"));
  CHECK_THAT(with("num-epochs", "9223372036854775807"), Contains("num-epochs: 9223372036854775807 is more than"));
  CHECK_THAT(with("lr", "1e300"), Contains("lr: 1e300 is more than"));
  CHECK_THAT(with("records-train", "-5"), Contains("records-train: -5 is less than 0"));
  CHECK_THAT(with("shares", "0:5,9:7,9:10"), Contains("shares: the beginning is larger than the end in '9:7'"));
  CHECK_THAT(with("batches", "1,1,9223372036854775807"), Contains("batches: 9223372036854775807 is more than"));
}

TEST_CASE("the data set determines values that the flags leave open", "[job]") {
  Flags flags = parsed({"--num-classes", "7"});
  REQUIRE(apply_data_set("mnist", flags.job));
  CHECK(flags.job.augment.data_type == "mnist");
  CHECK(flags.job.network.num_classes == 7);  // the flag wins
  CHECK(flags.job.network.image_shape == std::vector<int64_t>{1, 28, 28});
  CHECK(flags.job.augment.scale == 1.0 / 255);
  CHECK(flags.job.augment.rgb_mean == std::vector<double>{0});

  Flags unknown = parsed({});
  CHECK_THAT(apply_data_set("", unknown.job).error().text(), Contains("--num-classes") && Contains("--image-shape"));
  Flags described = parsed({"--num-classes", "5", "--image-shape", "3,32,32"});
  REQUIRE(apply_data_set("", described.job));
  CHECK(described.job.augment.rgb_mean.size() == 3);
}

}  // namespace dtrain::job
