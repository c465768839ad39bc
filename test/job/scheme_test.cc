#include "job/resolve/scheme.h"

#include "job/flags/value.h"
#include "job/parse.h"
#include "support/catch.h"

namespace dtrain::job {

using Catch::Matchers::Contains;

namespace {

std::vector<std::string> with_store(const char* store, std::vector<std::string> more) {
  more.insert(more.begin(), {"-n", "4", "--kv-store", store});
  return more;
}

SchemeFlags scheme_of(const char* store, std::vector<std::string> more) {
  return parsed(with_store(store, std::move(more))).job.scheme;
}

}  // namespace

TEST_CASE("the schemes have their documented defaults", "[job]") {
  const Flags flags = parsed({"-n", "2"});
  const SchemeFlags& scheme = flags.job.scheme;
  CHECK(scheme.staleness == 0);
  CHECK(scheme.ssp_warn == std::chrono::seconds(30));
  CHECK(scheme.ungrouped == Ungrouped::kError);
  CHECK(scheme.gsp_weight == GspWeight{GspWeight::Rule::kInverse, 0});
  CHECK_FALSE(scheme.group_staleness);
  CHECK(scheme.backup == 0);
  CHECK_FALSE(scheme.data_allocator);
  CHECK(scheme.resplit_every == 0);
  CHECK(flags.launch.groups_file == "groups");
  CHECK(flags.launch.data_sharding_file == "data_sharding");
  CHECK(flags.launch.trace_events.empty());
}

TEST_CASE("each scheme accepts its own flags", "[job]") {
  CHECK(scheme_of("dist_ssync", {"--staleness", "3", "--ssp-warn", "500ms"}).staleness == 3);
  CHECK(scheme_of("dist_device_ssync", {"--staleness", "10"}).staleness == 10);
  CHECK(scheme_of("dist_gsync", {"--ungrouped", "own"}).ungrouped == Ungrouped::kOwn);
  CHECK(scheme_of("dist_gsync", {"--group-staleness", "2", "--ssp-warn", "1s"}).group_staleness == 2);
  CHECK_FALSE(scheme_of("dist_gsync", {"--group-staleness", "unbounded"}).group_staleness);
  CHECK(scheme_of("dist_gsync", {"--regroup-every", "2"}).regroup_every == 2);
  CHECK(scheme_of("dist_sync", {"--backup", "1"}).backup == 1);
  CHECK(scheme_of("dist_device_sync", {"--backup", "3"}).backup == 3);
  CHECK(scheme_of("dist_async", {"--data-allocator", "1", "--allow-gaps", "--data-sharding-file", "f"}).allow_gaps);
  CHECK(parsed({"-n", "2", "--trace-events", "events"}).launch.trace_events == "events");
  CHECK(parsed({"--kv-store", "allreduce", "-n", "2", "--data-allocator"}).job.scheme.data_allocator);
  CHECK(parsed({"--resplit-every", "2"}).job.scheme.resplit_every == 2);
}

TEST_CASE("the weight of a group's update has four forms", "[job]") {
  using Rule = GspWeight::Rule;
  const auto weight = [](const char* text) { return scheme_of("dist_gsync", {"--gsp-weight", text}).gsp_weight; };
  CHECK(weight("inverse") == GspWeight{Rule::kInverse, 0});
  CHECK(weight("none") == GspWeight{Rule::kNone, 0});
  CHECK(weight("power:0.5") == GspWeight{Rule::kPower, 0.5});
  CHECK(weight("floor:.25") == GspWeight{Rule::kFloor, 0.25});
  for (const char* text : {"inverse", "none", "power:0.5", "floor:0.25", "power:0"}) {
    CHECK(format_value(weight(text)) == text);
  }
  for (const char* text : {"power", "floor:", "floor:2", "power:-1", "none:1", "inverse:1", "power:x", "invers", ""}) {
    INFO(text);
    CHECK_THAT(refused(with_store("dist_gsync", {"--gsp-weight", text})), Contains("--gsp-weight"));
  }
  CHECK_THAT(refused(with_store("dist_gsync", {"--gsp-weight", "invers"})), Contains("did you mean 'inverse'?"));
}

TEST_CASE("a flag that the store does not use is refused with the names of the flag and the store", "[job]") {
  CHECK_THAT(
      refused({"-n", "2", "--staleness", "3"}),
      Contains("--staleness 3: the store dist_sync does not use this flag; dist_ssync and dist_device_ssync use it"));
  CHECK_THAT(refused(with_store("dist_async", {"--staleness", "0"})), Contains("--staleness 0: the store dist_async"));
  CHECK_THAT(refused(with_store("dist_gsync", {"--staleness", "3"})), Contains("the store dist_gsync"));
  CHECK_THAT(refused(with_store("dist_gsync", {"--ssp-warn", "3s"})), Contains("with --group-staleness"));
  CHECK_THAT(refused({"--ssp-warn", "3s"}), Contains("the store device does not use this flag"));
  for (const char* flag :
       {"--groups-file=g", "--ungrouped=own", "--gsp-weight=none", "--group-staleness=1", "--regroup-every=1"}) {
    CHECK_THAT(refused(with_store("dist_ssync", {flag})),
               Contains("the store dist_ssync does not use this flag; dist_gsync and dist_device_gsync use it"));
  }
  for (const char* store : {"dist_async", "dist_ssync", "dist_gsync", "allreduce"}) {
    CHECK_THAT(refused(with_store(store, {"--backup", "1"})), Contains("dist_sync and dist_device_sync use it"));
  }
  CHECK_THAT(refused({"-n", "2", "--kv-store", "allreduce", "--trace-events", "f"}), Contains("stores with servers"));
  CHECK_THAT(refused({"-n", "2", "--data-sharding-file", "f"}), Contains("jobs with --data-allocator 1 use it"));
  CHECK_THAT(refused({"-n", "2", "--allow-gaps"}), Contains("jobs with --data-allocator 1 use it"));
}

TEST_CASE("flags that a scheme cannot honor are refused", "[job]") {
  CHECK_THAT(refused({"-n", "2", "--backup", "2"}),
             Contains("--backup 2: a round must wait for at least one of the 2 workers"));
  CHECK_THAT(refused({"-n", "2", "--backup", "-1"}), Contains("--backup: -1 is less than 0"));
  CHECK_THAT(refused({"-n", "2", "--backup", "1", "--update-on", "worker"}), Contains("would miss updates"));
  CHECK_THAT(refused({"-n", "2", "--backup", "1", "--deterministic"}),
             Contains("depends on which gradients arrive in time"));
  CHECK_THAT(refused(with_store("dist_async", {"--deterministic"})),
             Contains("--deterministic with --kv-store dist_async: the gradients of the 4 workers are applied in order "
                      "of arrival"));
  CHECK_THAT(refused(with_store("dist_ssync", {"--deterministic"})), Contains("in order of arrival"));
  CHECK_THAT(refused(with_store("dist_gsync", {"--deterministic", "--regroup-every", "2"})),
             Contains("--regroup-every 2: the groups depend on measured times"));
  CHECK(parsed({"-n", "1", "--kv-store", "dist_async", "--deterministic"}).job.scheme.deterministic);
  CHECK_THAT(refused({"-n", "2", "--data-allocator", "--allow-gaps", "--resplit-every", "1"}),
             Contains("--resplit-every 1 with --allow-gaps"));
}

TEST_CASE("a rate follows the number of workers only if it can change, and all make each update together", "[job]") {
  const auto scaled = [](const char* store, std::vector<std::string> more) {
    more.insert(more.end(), {"--elastic-batch", "scale"});
    return with_store(store, std::move(more));
  };
  CHECK_THAT(refused(scaled("dist_sync", {})), Contains("--elastic-batch scale needs --on-worker-loss wait or shrink"));
  for (const char* store : {"dist_async", "dist_ssync", "dist_gsync"}) {
    CHECK_THAT(refused(scaled(store, {"--on-worker-loss", "shrink"})),
               Contains(std::string("--elastic-batch scale: an update of ") + store + " has the gradients of some"));
  }
  CHECK_THAT(refused(scaled("dist_sync", {"--on-worker-loss", "wait", "--optimizer", "adadelta"})),
             Contains("--elastic-batch scale: the optimizer adadelta has no learning rate"));
  for (const std::vector<std::string>& more :
       {std::vector<std::string>{"--backup", "1"}, {"--update-on", "worker"}, {"--max-workers", "7"}}) {
    std::vector<std::string> flags = {"--on-worker-loss", "shrink"};
    flags.insert(flags.end(), more.begin(), more.end());
    CHECK(parsed(scaled("dist_sync", flags)).job.scheme.elastic_batch == ElasticBatch::kScale);
  }
  CHECK(scheme_of("dist_sync", {}).elastic_batch == ElasticBatch::kOff);
}

TEST_CASE("an update keeps its samples only if any number of workers can divide its batches", "[job]") {
  const auto kept = [](std::vector<std::string> more) {
    more.insert(more.end(), {"--elastic-batch", "keep", "--on-worker-loss", "wait", "--kv-store", "dist_sync"});
    return more;
  };
  CHECK_THAT(refused({"-n", "2", "--elastic-batch", "keep"}), Contains("--elastic-batch keep needs --on-worker-loss"));
  CHECK_THAT(refused(kept({"-n", "4"})),
             Contains("--elastic-batch keep: the job may have 3 workers, and the 4 batches of an update (-n) cannot be "
                      "divided evenly among them; give --min-workers 4, or use --elastic-batch scale"));
  CHECK_THAT(refused(kept({"-n", "2", "--max-workers", "3"})),
             Contains("may have 3 workers, and the 2 batches") && Contains("give --max-workers 2"));
  CHECK_THAT(refused(kept({"-n", "2", "--backup", "1"})), Contains("--elastic-batch keep with --backup 1"));
  CHECK_THAT(refused({"-n", "2", "--elastic-batch", "keep", "--on-worker-loss", "wait", "--kv-store", "dist_async"}),
             Contains("--elastic-batch keep: an update of dist_async has the gradients of some workers only"));
  for (const std::vector<std::string>& flags :
       {std::vector<std::string>{"-n", "2"}, {"-n", "4", "--min-workers", "4"}, {"-n", "2", "--update-on", "worker"}}) {
    CHECK(parsed(kept(flags)).job.scheme.elastic_batch == ElasticBatch::kKeep);
  }
  // A worker does not know the least number of workers.
  CHECK(parsed(kept({"-n", "4", "--role", "worker", "--scheduler", "127.0.0.1:9091"})).job.num_workers == 4);
}

// Schemes that update the weights once per worker need lr/W (docs/schemes.md).
TEST_CASE("a hint names a learning rate that suits the scheme", "[job]") {
  const auto hint = [](const char* store, std::vector<std::string> more) {
    return learning_rate_hint(parsed(with_store(store, std::move(more))).job);
  };
  CHECK(hint("dist_sync", {}).empty());
  CHECK(hint("dist_gsync", {}).empty());
  CHECK(hint("allreduce", {}).empty());
  CHECK(hint("dist_async", {"-n", "1"}).empty());
  CHECK_THAT(hint("dist_async", {"--lr", "0.1"}),
             Contains("dist_async with 4 workers makes 4 updates at the full learning rate 0.1") &&
                 Contains("--lr 0.025 (lr/W)"));
  CHECK_THAT(hint("dist_ssync", {"--lr", "0.3", "-n", "3", "--staleness", "2"}), Contains("--lr 0.1 (lr/W)"));
  CHECK_THAT(hint("dist_ssync", {}), Contains("dist_ssync with 4 workers and --staleness 0 makes 4 updates"));
}

}  // namespace dtrain::job
